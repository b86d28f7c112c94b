"""Where a block of Markdown surely ends, found while the text is still coming.

Block structure is decided line by line and never looks ahead, so whatever stands
before the last top-level block of the lines received is final. Lines are handed
to the Markdown parser only when they may have ended a block, and only those that
are not finished yet: the cost does not grow with the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token


@dataclass(frozen=True)
class Prose:
    """One or more finished blocks that are not fenced code, as written."""

    text: str


@dataclass(frozen=True)
class CodeOpened:
    """A code fence began; ``language`` is the first word after it, or empty."""

    language: str


@dataclass(frozen=True)
class CodeLine:
    """One whole line within a fence, without its line end."""

    text: str


@dataclass(frozen=True)
class CodeClosed:
    """The fence ended."""


Piece: TypeAlias = Prose | CodeOpened | CodeLine | CodeClosed

_FENCE_OPENER = re.compile(r"[ \t]{0,3}(?:`{3,}[^`]*|~{3,}.*)\Z")
_FENCE_BEGINNING = re.compile(r"[ \t]*(?:`{1,}|~{1,})[^`~\s]*\Z")
_LIST_ITEM = re.compile(r"(?:[-+*]|\d{1,9}[.)])(?:[ \t]|\Z)")
_LISTS = frozenset({"bullet_list_open", "ordered_list_open"})
_ENDED_BY_BLANK = frozenset({"paragraph_open", "table_open", "blockquote_open"})
_ONE_LINERS = frozenset({"heading_open", "hr"})


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
    marker: str
    indent: int
    language: str

    def is_closed_by(self, line: str) -> bool:
        stripped = line.strip()
        return (
            len(line) - len(line.lstrip(" ")) <= 3
            and len(stripped) >= len(self.marker)
            and set(stripped) == {self.marker[0]}
        )

    def content(self, line: str) -> str:
        own = len(line) - len(line.lstrip(" "))
        return line[min(own, self.indent) :]


@dataclass(frozen=True)
class _Block:
    kind: str
    start: int
    end: int
    token: Token


class BlockScanner:
    """Cuts Markdown that comes in pieces into finished blocks and lines of code."""

    def __init__(self) -> None:
        self._partial = ""
        self._lines: list[str] = []
        self._kind = ""
        self._parsed_lines = 0
        self._fence: _Fence | None = None

    @property
    def in_code(self) -> bool:
        """Whether the text received ends within a fence."""
        return self._fence is not None

    @property
    def partial(self) -> str:
        """The line that has not ended yet."""
        return self._partial

    @property
    def pending(self) -> str:
        """The text outside fences that is not finished, as it may be shown.

        A last line that may become a fence is left out until it is whole.
        """
        if self.in_code:
            return ""
        last = [] if _FENCE_BEGINNING.match(self._partial) else [self._partial]
        return "\n".join(self._lines + last)

    def feed(self, text: str) -> Iterator[Piece]:
        """Take a piece of text and yield what it finished."""
        head, newline, tail = text.rpartition("\n")
        if not newline:
            self._partial += text
            return
        lines = (self._partial + head).split("\n")
        self._partial = tail
        yield from self._take(lines)

    def finish(self) -> Iterator[Piece]:
        """End the text and yield the rest."""
        if self._partial:
            line, self._partial = self._partial, ""
            yield from self._take([line])
        if self._lines:
            yield from self._settle()
        if self._lines:
            yield Prose("\n".join(self._lines))
        if self._fence is not None:
            yield CodeClosed()
        self._lines, self._kind, self._parsed_lines, self._fence = [], "", 0, None

    def _take(self, lines: Sequence[str]) -> Iterator[Piece]:
        for line in lines:
            if self._fence is None:
                if self._lines or line.strip():
                    self._lines.append(line)
                    if self._may_end_block(line):
                        yield from self._settle()
            elif self._fence.is_closed_by(line):
                self._fence = None
                yield CodeClosed()
            else:
                yield CodeLine(self._fence.content(line))

    def _may_end_block(self, line: str) -> bool:
        """Whether parsing now may finish a block. A wrong no only delays it."""
        fresh = len(self._lines) - self._parsed_lines
        if fresh * 32 < self._parsed_lines:
            return False
        if not self._kind or _FENCE_OPENER.match(line):
            return True
        blank = not line.strip()
        if self._kind in _LISTS:
            return not blank and line[0] not in " \t" and not _LIST_ITEM.match(line)
        if self._kind == "blockquote_open":
            return not line.lstrip().startswith(">")
        if self._kind == "table_open":
            return "|" not in line
        if self._kind == "code_block":
            return not blank and not line.startswith(("    ", "\t"))
        return blank or not line[0].isalpha()

    def _settle(self) -> Iterator[Piece]:
        """Parse what is pending and yield the blocks that cannot change any more."""
        lines = self._lines
        blocks = _top_level_blocks("\n".join(lines) + "\n")
        if not blocks:
            # Nothing but link definitions: shown as written, once they have ended.
            if not lines[-1].strip():
                yield Prose("\n".join(lines[:-1]))
                self._lines = []
            return
        start = 0
        for block, following in zip(blocks, [*blocks[1:], None], strict=True):
            if block.kind == "fence":
                # Link definitions are no block.
                if above := "\n".join(lines[start : block.start]).rstrip():
                    yield Prose(above)
                self._fence = _opened_fence(lines[block.start], block.token)
                yield CodeOpened(self._fence.language)
                start = block.start + 1
                break
            if following is not None or self._is_final(block):
                end = following.start if following is not None else block.end
                yield Prose("\n".join(lines[start:end]).rstrip())
                start = end
        self._lines, self._kind, self._parsed_lines = [], "", 0
        rest = lines[start:]
        if self._fence is not None:
            yield from self._take(rest)
        elif any(line.strip() for line in rest):
            self._lines, self._kind, self._parsed_lines = rest, blocks[-1].kind, len(rest)

    def _is_final(self, last: _Block) -> bool:
        if last.kind in _ONE_LINERS:
            return True
        return last.kind in _ENDED_BY_BLANK and not self._lines[-1].strip()


def _top_level_blocks(text: str) -> list[_Block]:
    return [
        _Block(token.type, token.map[0], token.map[1], token)
        for token in parser(inline=False).parse(text)
        if token.level == 0 and token.nesting >= 0 and token.map is not None
    ]


def _opened_fence(line: str, token: Token) -> _Fence:
    indent = len(line) - len(line.lstrip(" "))
    return _Fence(token.markup, indent, token.info.strip().partition(" ")[0])
