"""What is typed while something runs, before the prompt is back."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

from prompt_toolkit.input import Input
from prompt_toolkit.input.typeahead import get_typeahead
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys
from prompt_toolkit.output import Output
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style

from agent.ui import commands, keys
from agent.ui.live import Line
from agent.ui.pastes import Pastes
from agent.ui.sanitize import sanitize

REST_SECONDS = 0.5
"""Who has typed nothing for so long may be asked something."""

_LAST_WORD = re.compile(r"\S*\s*\Z")
_PROMPT = Style(color="green", bold=True)
_DIM = Style(dim=True)


class TypedAhead:
    """A text that is being typed, edited at its end, and texts that wait to be sent.

    Keys are parsed by prompt_toolkit, with the input that the prompt reads as well.
    """

    def __init__(self, terminal_input: Input, terminal_output: Output, pastes: Pastes) -> None:
        self._input = terminal_input
        self._output = terminal_output
        self._pastes = pastes
        self._text = ""
        self._waiting: deque[str] = deque()
        self._stop: Callable[[], None] | None = None
        self._marks_pastes = False
        self._pressed_at = -REST_SECONDS
        self._pressed = asyncio.Event()

    def wants_a_turn(self) -> bool:
        """Whether a text waits that the model shall have, and not a command."""
        return bool(self._waiting) and _is_for_model(self._waiting[0])

    @contextmanager
    def listening(
        self, changed: Callable[[], None], stop: Callable[[], None], *, paste: bool
    ) -> Iterator[None]:
        """Take what is typed until the block is left; no effect without a terminal.

        ``changed`` is called after keys, ``stop`` when Esc is pressed. ``paste``: whether
        the terminal may be asked to mark what is pasted.
        """
        if not os.isatty(self._input.fileno()):
            yield
            return
        loop = asyncio.get_running_loop()
        flush: asyncio.TimerHandle | None = None

        def read() -> None:
            nonlocal flush
            self._press(self._input.read_keys())
            changed()
            if flush is not None:
                flush.cancel()
            flush = loop.call_later(keys.ESCAPE_SECONDS, read_escape)

        def read_escape() -> None:
            self._press(self._input.flush_keys())

        self._stop = stop
        self._marks_pastes = paste
        try:
            with self._input.attach(read):
                self.catch_up()
                yield
        finally:
            self._stop = None
            if flush is not None:
                flush.cancel()
                read_escape()
            self._marks_pastes = False
            if paste:
                # A terminal whose window was closed takes nothing any more.
                with suppress(OSError):
                    self._output.disable_bracketed_paste()
                    self._output.flush()

    def catch_up(self) -> None:
        """Take the keys that nobody has used yet, now or after a question."""
        if self._marks_pastes:
            self._output.enable_bracketed_paste()
            self._output.flush()
        unused = get_typeahead(self._input)
        while more := self._input.read_keys():
            unused += more
        self._press(unused)

    async def rest(self) -> None:
        """Wait for a pause in the typing: whoever types on has not seen a question yet."""
        if time.monotonic() - self._pressed_at < REST_SECONDS:
            with suppress(TimeoutError):
                while await asyncio.wait_for(self._pressed.wait(), REST_SECONDS):
                    self._pressed.clear()

    def next(self) -> str | None:
        """What goes out now: a command, or all texts up to the next command as one."""
        texts: list[str] = []
        while self._waiting and (not texts or self.wants_a_turn()):
            texts.append(self._waiting.popleft())
            if not _is_for_model(texts[-1]):
                break
        return "\n\n".join(texts) if texts else None

    def hold(self) -> None:
        """Send nothing by itself any more: what waits is in the box again, to be changed."""
        self._text = "\n\n".join(filter(None, (*self._waiting, self._text)))
        self._waiting.clear()

    def take_text(self) -> str:
        """The text that was not sent, which is then no longer here."""
        text, self._text = self._text, ""
        return text

    def lines(self, width: int) -> list[Line]:
        """What waits, dimmed, and the text with its end in sight; nothing if there is none."""
        lines: list[Line] = [
            [Segment(f"  queued: {self._in_one_line(text)}", _DIM)] for text in self._waiting
        ]
        if self._text:
            end = _end_of(self._in_one_line(self._text), width - len("> "))
            lines.append([Segment("> ", _PROMPT), Segment(end)])
        return lines

    def _in_one_line(self, text: str) -> str:
        return self._pastes.shown(text).replace("\n", "↵").replace("\t", " ")

    def _press(self, pressed: Iterable[KeyPress]) -> None:
        presses = deque(pressed)
        while presses:
            self._pressed_at = time.monotonic()
            self._pressed.set()
            press = presses.popleft()
            if press.key != Keys.Escape:
                self._edit(press)
            elif not presses or presses[0].key == Keys.Escape:
                if self._stop is not None:
                    self._stop()
            # Esc and another key at once are that key with Alt.
            elif presses.popleft().key == Keys.ControlM:
                self._text += "\n"

    def _edit(self, press: KeyPress) -> None:
        text = self._text
        match press.key:
            case Keys.ControlM if text.endswith("\\"):
                self._text = f"{text[:-1]}\n"
            case Keys.ControlM if text.strip():
                self._waiting.append(text)
                self._text = ""
            case Keys.ControlJ:
                self._text += "\n"
            case Keys.Backspace:
                self._text = text[:-1]
            case Keys.ControlU:
                self._text = text[: text.rfind("\n", 0, -1) + 1]
            case Keys.ControlW:
                self._text = _LAST_WORD.sub("", text)
            case Keys.ControlD if not text:
                self._waiting.append("/exit")
            case Keys.Up if self._waiting and not text:
                self._text = self._waiting.pop()
            case Keys.BracketedPaste:
                self._text += self._pastes.folded(sanitize(press.data))
            case key if not isinstance(key, Keys):
                self._text += sanitize(key)


def _is_for_model(text: str) -> bool:
    return commands.parse(text) is None and commands.parse_shell(text) is None


def _end_of(text: str, cells: int) -> str:
    """As much of the end of a text as fits."""
    text = text[-max(cells, 1) :]
    while cell_len(text) > cells and text:
        text = text[1:]
    return text
