"""Screens to look at: what a terminal shows after the bytes that were written."""

from __future__ import annotations

import io
import re
from collections.abc import Callable

import pyte
from rich.console import Console

FORBIDDEN = (
    "\x1b[2J",
    "\x1b[3J",
    "\x1b[J",
    "\x1b[0J",
    "\x1b[1J",
    "\x1b[?1049h",
    "\x1b[?47h",
    "\x1bc",
)
"""Codes that clear more than a line or leave the normal screen."""

_SGR = re.compile(r"\x1b\[[0-9;]*m")

# Escape and control sequences, and a text that must not survive within them.
CSI = [
    "\x1b[2J",
    "\x1b[3J",
    "\x1b[H",
    "\x1b[1;1H",
    "\x1b[10A",
    "\x1b[?1049h",
    "\x1b[?25l",
    "\x1b[6n",
    "\x1b[c",
    "\x1b[5i",
    "\x1b[31m",
    "\x1b[38;2;1;2;3m",
    "\x1b[?2004h",
    "\x1b[!p",
    "\x1b[1 q",
    "\x1b[>0c",
    "\x1b[20t",
    "\x1b[21t",
    "\x1b[?1000h",
    "\x1b[4h",
    "\x9b2J",
    "\x9b31m",
    '\x1b["p',
]
STRINGS = [
    "\x1b]0;title\x07",
    "\x1b]2;title\x1b\\",
    "\x1b]52;c;ZXZpbA==\x07",
    "\x1b]52;c;ZXZpbA==\x1b\\",
    "\x1b]8;;http://evil\x07",
    "\x1b]8;id=1;http://evil\x1b\\",
    "\x1b]8;;\x1b\\",
    "\x1b]4;1;red\x07",
    "\x1b]9;note\x07",
    "\x1b]777;notify;a;b\x07",
    "\x1b]1337;File=inline=1:AAAA\x07",
    "\x1b]133;A\x07",
    "\x1bP+q544e\x1b\\",
    "\x1bPq#0;2;0;0;0\x1b\\",
    "\x1b_Gf=24;AAAA\x1b\\",
    "\x1b^private\x1b\\",
    "\x1bXstart\x1b\\",
    "\x9d52;c;ZXZpbA==\x9c",
    "\x9d0;t\x07",
    "\x90q\x9c",
    "\x9fG\x9c",
    "\x9ep\x9c",
    "\x98s\x9c",
]
OTHERS = [
    "\x1bc",
    "\x1b7",
    "\x1b8",
    "\x1bM",
    "\x1bD",
    "\x1bE",
    "\x1b(B",
    "\x1b#8",
    "\x1b%G",
    "\x1b=",
    "\x1bn",
    "\x07",
    "\x08\x08",
    "\x0b",
    "\x0c",
    "\x0e",
    "\x0f",
    "\x00",
    "\x05",
    "\x7f",
    "\x84",
    "\x85",
    "\x8d",
    "\x1b]0;unterminated",
    "\x1b[31",
    "\x1b",
    "\x1bP unterminated",
    "\x9b",
    "\x9d52;c;QQ",
    "\rover",
    "x\rover\x1b[K",
    "\u202e",
    "\u202a",
    "\u2066",
    "\u2069",
    "\u200b",
    "\u2060",
    "\ufeff",
    "\U000e0041",
]
SEQUENCES = [*CSI, *STRINGS, *OTHERS]


def without_blank_end(rows: list[str]) -> list[str]:
    """The rows up to the last one with text."""
    filled = [number for number, row in enumerate(rows, 1) if row]
    return rows[: filled[-1]] if filled else []


class _AnsweringScreen(pyte.HistoryScreen):
    """A screen that answers when it is asked where its cursor is."""

    def __init__(self, columns: int, lines: int, answer: Callable[[str], None]) -> None:
        self._answer = answer
        super().__init__(columns, lines, history=10_000, ratio=0.5)

    def write_process_input(self, data: str) -> None:
        self._answer(data)


class Screen:
    """A terminal of a size, with its scrollback; ``answer`` is given what it would send."""

    def __init__(
        self, columns: int = 80, lines: int = 24, answer: Callable[[str], None] = lambda _: None
    ) -> None:
        self.screen = _AnsweringScreen(columns, lines, answer)
        self._stream = pyte.Stream(self.screen)

    def feed(self, written: str) -> None:
        """Act on what was written to a terminal that returns the carriage at a line end."""
        self._stream.feed(re.sub(r"\r?\n", "\r\n", written))

    @property
    def history(self) -> list[str]:
        """The lines that were scrolled off."""
        rows = (
            "".join(row[column].data for column in range(self.screen.columns))
            for row in self.screen.history.top
        )
        return [row.rstrip() for row in rows]

    @property
    def visible(self) -> list[str]:
        """The lines on the screen, without the empty ones at the end."""
        return without_blank_end([row.rstrip() for row in self.screen.display])

    @property
    def lines(self) -> list[str]:
        """Everything that can be read by scrolling."""
        return without_blank_end([*self.history, *self.visible])


def console(
    columns: int = 80, lines: int = 24, *, live: bool = True
) -> tuple[Console, io.StringIO]:
    """A console on a file: with ``live`` as on a colour terminal, else as in a pipe."""
    file = io.StringIO()
    made = Console(
        file=file,
        width=columns,
        height=lines,
        force_terminal=live,
        force_interactive=live,
        color_system="standard" if live else None,
        highlight=False,
        _environ={},
    )
    return made, file


def shown(written: str, columns: int = 80, lines: int = 24) -> list[str]:
    """What can be read on a screen after this was written to it."""
    screen = Screen(columns, lines)
    screen.feed(written)
    return screen.lines


def unexpected_controls(written: str, allowed: str = "") -> set[str]:
    """Control characters that stand in the text apart from colours, newlines and ``allowed``."""
    rest = _SGR.sub("", written)
    controls = {character for character in rest if character < " " or "\x7f" <= character < "\xa0"}
    return controls - set("\n\t" + allowed)
