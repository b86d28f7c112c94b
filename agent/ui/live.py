"""The lines at the end of the output that may still change.

Everything above the region is final: it is written once and belongs to the
scrollback. Only moves within the region's own lines and erasures of single lines
are used, so that nothing else on the screen can be touched.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from rich.cells import cell_len
from rich.console import Console
from rich.control import Control
from rich.segment import ControlCode, ControlType, Segment, Segments

Line: TypeAlias = list[Segment]

_TAB = 8
_REFLOWING = frozenset(
    {
        "ALACRITTY_WINDOW_ID",
        "KITTY_WINDOW_ID",
        "KONSOLE_VERSION",
        "TERM_PROGRAM",
        "TMUX",
        "VTE_VERSION",
        "WEZTERM_PANE",
        "WT_SESSION",
    }
)
"""Variables of terminals that reflow; others, such as xterm, cut or keep their lines."""

_CARRIAGE_RETURN = Control(ControlType.CARRIAGE_RETURN).segment
_ERASE_LINE = Control((ControlType.ERASE_IN_LINE, 2)).segment


def emit(console: Console, segments: Sequence[Segment]) -> None:
    """Write segments as they are, in one piece: no wrapping, no padding, no cropping."""
    console.print(Segments(segments), end="", crop=False)


def terminal_console(*, plain: bool = False) -> Console:
    """The console of stdout; text only where ``plain`` or the terminal asks for it."""
    # Rich would take these for the size, also after a resize.
    environ = {k: v for k, v in os.environ.items() if k not in {"COLUMNS", "LINES"}}
    console = Console(highlight=False, _environ=environ)
    if plain or console.no_color or console.is_dumb_terminal:
        return Console(highlight=False, color_system=None, no_color=True, _environ=environ)
    return console


def is_live(console: Console) -> bool:
    """Whether lines may be redrawn: a real terminal, and nobody asked for plain output."""
    return console.is_interactive and not console.is_dumb_terminal and not console.no_color


def reflows(environ: Mapping[str, str]) -> bool:
    """Whether the terminal is one that breaks lines anew when its width changes."""
    return not _REFLOWING.isdisjoint(environ)


class LiveRegion:
    """Draws lines that replace what it drew before.

    The cursor rests on the region's last line between calls. Each line takes one
    row: longer ones are cropped. Without a live terminal only :meth:`commit` has an
    effect. ``reflowing`` terminals turn a row into several when they become narrower.
    """

    def __init__(self, console: Console, *, reflowing: bool | None = None) -> None:
        self.console = console
        self._reflowing = reflows(os.environ) if reflowing is None else reflowing
        self.live = is_live(console)
        self._rows: list[Line] = []
        self._width = 0

    @property
    def width(self) -> int:
        """Columns that text may use; the last one stays free.

        A terminal may draw an emoji wider than expected, and the spare column
        keeps such a line from wrapping into a row that is not accounted for.
        """
        return max(self.console.width - 1, 1)

    def draw(self, lines: Sequence[Line]) -> None:
        """Show these lines in place of the ones before; only the last that fit the screen."""
        if not self.live:
            return
        fitting = lines[-max(self.console.height - 2, 1) :]
        rows = [_row(line, self.width) for line in fitting]
        if rows != self._rows or (rows and self._width != self.console.width):
            emit(self.console, self._transition(rows))
            self._remember(rows)

    def erase(self) -> None:
        """Remove the region; the cursor stands where its first line began."""
        self.draw([])

    def commit(self, lines: Sequence[Line]) -> None:
        """Write final lines in place of the region, which is empty afterwards."""
        wraps = any(_cells(line) > self.width for line in lines)
        if len(lines) < len(self._rows) or wraps:
            # A line of several rows would overwrite rows in part only.
            self.erase()
        if lines:
            emit(self.console, [*self._transition(lines), Segment.line()])
        self._remember([])

    def _remember(self, rows: list[Line]) -> None:
        self._rows = rows
        self._width = self.console.width

    def _transition(self, new: Sequence[Line]) -> list[Segment]:
        """What turns the rows on the screen into the new lines, from the first that differs."""
        out: list[Segment] = []
        if self._rows and self._width != self.console.width:
            out = self._erase_resized()
            self._rows = []
        old = self._rows
        same = 0
        while same < min(len(old), len(new)) and old[same] == new[same]:
            same += 1
        cursor = max(len(old) - 1, 0)
        for row in range(same, max(len(old), len(new))):
            out += self._move(cursor, row)
            out += new[row] if row < len(new) else []
            cursor = row
        last = max(len(new) - 1, 0)
        return out + (_up(cursor - last) if cursor > last else [])

    def _erase_resized(self) -> list[Segment]:
        """Erase the rows from the last to the first, as many as they are at this width."""
        rows = len(self._rows)
        if self._reflowing:
            cells = (_cells(row) for row in self._rows)
            rows = sum(max(1, -(-count // self.console.width)) for count in cells)
        rows = min(rows, self.console.height)
        return [_CARRIAGE_RETURN, _ERASE_LINE, *[*_up(1), _ERASE_LINE] * (rows - 1)]

    def _move(self, cursor: int, row: int) -> list[Segment]:
        """Go from one row to the start of another, at most one below, and erase that one."""
        if row > cursor:
            step = [Segment.line()]
        elif self.live:
            step = [_CARRIAGE_RETURN, *_up(cursor - row)]
        else:
            step = []
        return [*step, _ERASE_LINE] if self.live else step


def _cells(line: Line) -> int:
    return cell_len("".join(segment.text for segment in line).expandtabs(_TAB))


def _row(line: Line, width: int) -> Line:
    """The line as it fits one row; tabs become spaces, which cropping can count."""
    spaced = [
        segment
        if "\t" not in segment.text
        else Segment(segment.text.expandtabs(_TAB), segment.style)
        for segment in line
    ]
    if Segment.get_line_length(spaced) <= width:
        return spaced
    return Segment.adjust_line_length(spaced, width, pad=False)


def _up(rows: int) -> list[Segment]:
    code: ControlCode = (ControlType.CURSOR_UP, rows)
    return [Control(code).segment] if rows > 0 else []
