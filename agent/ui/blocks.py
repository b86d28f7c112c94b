"""Where a block of Markdown surely ends, found while the text is still coming.

Block structure is decided line by line and never looks ahead, so whatever stands
before the last top-level block of the lines received is final. So is every line
within a fence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from markdown_it import MarkdownIt


@dataclass(frozen=True)
class Prose:
    """A finished block that is not fenced code, as written."""

    text: str


@dataclass(frozen=True)
class CodeOpened:
    """A code fence began; ``language`` is the first word after it, or empty."""

    language: str


@dataclass(frozen=True)
class CodeLines:
    """Whole lines within a fence, without their line ends."""

    lines: tuple[str, ...]


@dataclass(frozen=True)
class CodeClosed:
    """The fence ended."""


Piece: TypeAlias = Prose | CodeOpened | CodeLines | CodeClosed

_FENCE_BEGINNING = re.compile(r"[ \t]*(?:`{1,}|~{1,})[^`~\s]*\Z")


@cache
def parser(*, inline: bool = True) -> MarkdownIt:
    """The Markdown parser.

    HTML counts as text, so that ``<name>`` is never swallowed. What is nested
    deeper than ``maxNesting`` levels is dropped by the parser.
    """
    from markdown_it import MarkdownIt

    options = {"html": False, "maxNesting": 60}
    rules = MarkdownIt("commonmark", options).enable(["strikethrough", "table"])
    return rules if inline else rules.disable("inline")


@dataclass(frozen=True)
class _Fence:
    """What ends a fence, and how far its lines are indented at most."""

    closing: re.Pattern[str]
    indent: re.Pattern[str]


def _fence(opening: str, marker: str) -> _Fence:
    indent = len(opening) - len(opening.lstrip(" "))
    closing = rf" {{0,3}}{re.escape(marker[0])}{{{len(marker)},}}\s*"
    return _Fence(re.compile(closing), re.compile(rf"\A {{0,{indent}}}"))


class BlockScanner:
    """Cuts Markdown that comes in pieces into finished blocks and lines of code."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._partial = ""
        self._fence: _Fence | None = None

    @property
    def in_code(self) -> bool:
        """Whether what was taken ends within a fence."""
        return self._fence is not None

    @property
    def pending(self) -> str:
        """What is not finished, as it may be shown.

        A last line that may become a fence is left out until it is whole.
        """
        may_be_shown = self.in_code or not _FENCE_BEGINNING.match(self._partial)
        return "\n".join([*self._lines, self._partial] if may_be_shown else self._lines)

    def feed(self, text: str) -> None:
        """Add a piece of text. It costs nothing but itself."""
        *lines, self._partial = (self._partial + text).split("\n")
        self._lines += lines

    def take(self, *, final: bool = False) -> Iterator[Piece]:
        """Yield what is finished; with ``final``, the text ends here, and all is.

        What is pending is parsed as a whole.
        """
        if final and self._partial:
            self._lines.append(self._partial)
            self._partial = ""
        while self._lines:
            if self._fence is not None:
                yield from self._take_code(self._fence)
                continue
            yield from self._take_blocks(final=final)
            if self._fence is None:
                break
        if final and self._fence is not None:
            self._fence = None
            yield CodeClosed()

    def _take_code(self, fence: _Fence) -> Iterator[Piece]:
        closed = (n for n, line in enumerate(self._lines) if fence.closing.fullmatch(line))
        end = next(closed, len(self._lines))
        if end:
            yield CodeLines(tuple(fence.indent.sub("", line) for line in self._lines[:end]))
        if end < len(self._lines):
            self._fence = None
            yield CodeClosed()
        self._lines = self._lines[end + 1 :]

    def _take_blocks(self, *, final: bool) -> Iterator[Piece]:
        """Yield the blocks up to a fence, or all but the last, which may go on."""
        lines = self._lines
        tokens = [token for token in parser(inline=False).parse("\n".join(lines)) if token.map]
        blocks = [token for token in tokens if token.level == 0 and token.nesting >= 0]
        done = 0
        for block in blocks:
            start, end = block.map or (done, done)
            # Lines that belong to no block define links.
            yield from _prose(lines[done:start])
            done = start
            if block.type == "fence":
                self._fence = _fence(lines[start], block.markup)
                yield CodeOpened(block.info.strip().partition(" ")[0])
                done += 1
                break
            if final or block is not blocks[-1]:
                yield from _prose(lines[start:end])
                done = end
        if final and self._fence is None:
            yield from _prose(lines[done:])
            done = len(lines)
        self._lines = lines[done:]


def _prose(lines: list[str]) -> Iterator[Prose]:
    if any(map(str.strip, lines)):
        yield Prose("\n".join(lines).strip("\n").rstrip())
