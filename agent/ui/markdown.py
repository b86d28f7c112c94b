"""An answer's Markdown on the screen while it is still coming.

A finished block is written once and never touched again; only the block in
progress is redrawn, in the lines of a :class:`agent.ui.live.LiveRegion`. Lines of
code are finished one by one and are written as they are, so that a selection
copies clean. On a plain screen the text is appended as it comes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.style import Style

from agent.ui.blocks import BlockScanner, CodeClosed, CodeLines, CodeOpened, Piece, Prose
from agent.ui.live import Line, LiveRegion, emit

if TYPE_CHECKING:
    from agent.ui.code import Highlighter

REDRAWS_PER_SECOND = 12

DRAWING_SHARE = 0.2
"""At most this part of the time is spent parsing and drawing, however long the block."""


class MarkdownStream:
    """Shows one answer that comes in pieces. The pieces must be sanitised.

    ``clock`` counts seconds and is only compared with itself.
    """

    def __init__(self, region: LiveRegion, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._region = region
        self._clock = clock
        self._scanner = BlockScanner()
        self._highlighter: Highlighter | None = None
        self._gap = False
        self._dirty = False
        self._redraw_at = 0.0
        self._at_line_start = True
        self._shown: list[Line] = []
        self._below: list[Line] = []

    def feed(self, text: str) -> None:
        """Take a piece of text; write what it finished and redraw the rest when it is time."""
        if not text:
            return
        if not self._region.live:
            emit(self._region.console, [Segment(text)])
            self._at_line_start = text.endswith("\n")
            return
        self._scanner.feed(text)
        self._dirty = True
        self.tick()

    def show_below(self, lines: list[Line]) -> None:
        """Have these lines below the block in progress, at once: they follow a person's keys."""
        if lines != self._below:
            self._below = lines
            self._region.draw([*self._shown, *lines])

    def tick(self) -> None:
        """Show what has come, if anything has and the last redraw is long enough ago."""
        started = self._clock()
        if not self._dirty or started < self._redraw_at:
            return
        self._dirty = False
        for piece in self._scanner.take():
            self._write(piece)
        self._shown = self._in_progress()
        self._region.draw([*self._shown, *self._below])
        cost = self._clock() - started
        self._redraw_at = started + max(1 / REDRAWS_PER_SECOND, cost / DRAWING_SHARE)

    def close(self) -> None:
        """End the answer: everything is written, the cursor is on a new line."""
        if not self._region.live:
            if not self._at_line_start:
                emit(self._region.console, [Segment.line()])
            self._at_line_start = True
            return
        for piece in self._scanner.take(final=True):
            self._write(piece)
        self._region.erase()
        self._gap = self._dirty = False
        self._redraw_at = 0.0
        self._shown, self._below = [], []

    def _write(self, piece: Piece) -> None:
        match piece:
            case Prose(text):
                self._region.commit([*self._leading(), *self._prose(text)])
                self._gap = True
            case CodeOpened(language):
                from agent.ui.code import Highlighter

                self._highlighter = Highlighter(self._region.console, language)
                self._region.commit(self._leading())
                self._gap = False
            case CodeLines(lines):
                self._region.commit(self._code(lines))
            case CodeClosed():
                self._gap = True

    def _leading(self) -> list[Line]:
        """The blank line between two blocks."""
        return [[]] if self._gap else []

    def _in_progress(self) -> list[Line]:
        console = self._region.console
        text = self._scanner.end_of_pending(console.width * console.height)
        if self._scanner.in_code:
            return [[Segment(text[: console.width])]] if text else []
        return [*self._leading(), *self._prose(text)] if text.strip() else []

    def _prose(self, text: str) -> list[Line]:
        from agent.ui.answer import render

        lines = render(self._region.console, text, self._region.width)
        if lines:
            return lines
        # Link definitions have no rendering, but their addresses must be seen.
        return [[Segment(line, Style(dim=True))] for line in text.split("\n")]

    def _code(self, lines: Sequence[str]) -> list[Line]:
        return self._highlighter.lines(lines) if self._highlighter else []
