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

LEAST_UNPARSED = 4_000
"""Pending text of fewer characters is parsed whenever it is asked for."""

_TABLE = re.compile(r"\A[^\n]*\|[^\n]*\n[ |:-]*-[ |:-]*\n")
_LINE_WITHOUT_INDENT = re.compile(r"\n(?=\S)")

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
        self._pieces: list[str] = []
        self._size = 0
        self._parse_at = 0
        self._hidden = 0
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
        partial = self._partial
        may_be_shown = self.in_code or not _FENCE_BEGINNING.match(partial)
        return "\n".join([*self._lines, partial] if may_be_shown else self._lines)

    def end_of_pending(self, characters: int) -> str:
        """At least the last so many characters of :attr:`pending`, and at most twice as many.

        It begins with a line, at best one without indentation, or with a word, and
        begins there again until it would be too long. A table keeps its headings.
        """
        text = self.pending
        if len(text) - self._hidden > 2 * characters:
            self._hidden = _place_to_cut(text, len(text) - characters)
        headings = _TABLE.match(text) if self._hidden else None
        return (headings.group() if headings else "") + text[self._hidden :]

    @property
    def _partial(self) -> str:
        """The last line as far as it has come."""
        self._pieces = ["".join(self._pieces)]
        return self._pieces[0]

    def feed(self, text: str) -> None:
        """Add a piece of text. It costs nothing but itself."""
        self._size += len(text)
        first, *others = text.split("\n")
        self._pieces.append(first)
        if others:
            self._lines += [self._partial, *others[:-1]]
            self._pieces = [others[-1]]

    def take(self, *, final: bool = False) -> Iterator[Piece]:
        """Yield what is finished; with ``final``, the text ends here, and all is.

        What is pending is parsed as a whole. A long block is parsed again only when it
        has grown by an eighth, so that each character costs the same.
        """
        if final and (partial := self._partial):
            self._lines.append(partial)
            self._pieces = []
        if not final and self._fence is None and self._size < self._parse_at:
            return
        while self._lines:
            if self._fence is not None:
                yield from self._take_code(self._fence)
                continue
            yield from self._take_blocks(final=final)
            if self._fence is None:
                break
        left = sum(map(len, self._lines)) + len(self._partial)
        if left < self._size:
            self._hidden = 0
        self._size = left
        self._parse_at = left + left // 8 if left > LEAST_UNPARSED else 0
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


def _place_to_cut(text: str, end: int) -> int:
    """Where to begin, at or before ``end``: a line without indentation, a line, or a word."""
    window = text[max(end - LEAST_UNPARSED, 0) : end]
    start = end - len(window)
    lines = [found.end() for found in _LINE_WITHOUT_INDENT.finditer(window)]
    place = lines[-1] if lines else (window.rfind("\n") + 1 or window.rfind(" ") + 1)
    return start + place if place else end
