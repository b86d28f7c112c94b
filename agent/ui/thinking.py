"""The model's reasoning on the screen: dimmed, and folded once it is over."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from agent.ui.live import Line
from agent.ui.sanitize import StreamSanitizer
from agent.ui.spinner import progress

FIRST_ROWS, LAST_ROWS = 2, 1
"""Rows that are left of reasoning that is over."""

MOVING_ROWS = 3
"""Rows of reasoning that is coming."""

_TAIL_CHARS = 2_000
_INDENT = "  "
_DIM = Style(dim=True)


class Thinking:
    """Reasoning that comes in pieces. ``clock`` counts seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since = clock()
        self._sanitizer = StreamSanitizer()
        self._pieces: list[str] = []
        self._tail = ""

    def feed(self, text: str) -> None:
        """Take a piece. It costs nothing but itself."""
        safe = self._sanitizer.feed(text)
        self._pieces.append(safe)
        self._tail = (self._tail + safe)[-_TAIL_CHARS:]

    def moving(self, console: Console) -> list[Line]:
        """Its last rows, as it comes."""
        return [_line(row) for row in _rows(console, self._tail)[-MOVING_ROWS:]]

    def folded(self, console: Console) -> list[Line]:
        """How much it was, its first and last rows, and how many there are between.

        Nothing when it has no text.
        """
        text = "".join([*self._pieces, self._sanitizer.close()])
        rows = _rows(console, text)
        if not rows:
            return []
        between = len(rows) - FIRST_ROWS - LAST_ROWS
        if between > 1:
            rows[FIRST_ROWS:-LAST_ROWS] = [f"… {between:,} more lines"]
        told = progress("thought", self._clock() - self._since, len(text))
        return [[Segment(told, _DIM)], *map(_line, rows)]


def _line(row: str) -> Line:
    return [Segment(_INDENT + row, _DIM)]


def _rows(console: Console, text: str) -> list[str]:
    """The text in rows that fit the screen behind an indentation, without empty ones."""
    width = max(console.width - len(_INDENT) - 1, 1)
    wrapped = (line.plain.rstrip() for line in Text(text.expandtabs()).wrap(console, width))
    return [row for row in wrapped if row]
