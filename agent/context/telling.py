"""A conversation told as text, in parts, for a summariser (pure).

Every line of what was said begins with ``| ``; headings do not. So text that
imitates a heading, a role or an instruction stays what it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from agent.messages import (
    Block,
    MediaBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from agent.transcript.turns import Turn
from agent.wire import compact_json

MOST_RESULT_CHARS = 4_000
"""Of a tool result, head and tail are told; the whole has its address in the ledger."""


def told_parts(
    turns: Sequence[Turn], tokens: int, measure: Callable[[str], int] = len
) -> list[str]:
    """The turns as transcripts of at most ``tokens`` each, as ``measure`` counts, in order.

    Parts end between blocks where they can; a longer block is continued in the next
    part, under a heading that says so.
    """
    parts: list[str] = []
    current: list[str] = []
    used = 0
    for piece, size in _pieces(turns, tokens, measure):
        if current and used + size > tokens:
            parts.append("".join(current))
            current, used = [], 0
        current.append(piece)
        used += size
    if current:
        parts.append("".join(current))
    return parts


def _pieces(
    turns: Sequence[Turn], tokens: int, measure: Callable[[str], int]
) -> Iterator[tuple[str, int]]:
    """What was said, one block or part of one at a time, with its size."""
    for turn in turns:
        for message in turn.messages:
            for block in message.blocks:
                heading, text = _told(block, message.role, turn.number)
                if not text.strip():
                    continue
                whole = "".join(_split(heading, text, len(heading) + 3 * len(text) + 100))
                size = measure(whole)
                if size <= tokens:
                    yield whole, size
                    continue
                # So many characters that even the densest part of it fits.
                chars = max(len(whole) * tokens // (2 * size), 100)
                for piece in _split(heading, text, chars):
                    yield piece, measure(piece)


def _told(block: Block, role: str, turn: int) -> tuple[str, str]:
    match block:
        case TextBlock(text):
            return f"[{role}, turn {turn}]", text
        case ToolUseBlock(name=name, input=arguments):
            text = compact_json(dict(arguments))
            return f"[tool call {' '.join(name.split())}, turn {turn}]", _shortened(text)
        case ToolResultBlock():
            return f"[tool result, turn {turn}]", _shortened(block.told)
        case MediaBlock():
            return f"[attached by the {role}, turn {turn}]", block.line
        case ThinkingBlock():
            return "", ""
        case _:
            return "", ""


def _shortened(text: str) -> str:
    if len(text) <= MOST_RESULT_CHARS:
        return text
    head, tail = MOST_RESULT_CHARS * 2 // 3, MOST_RESULT_CHARS // 3
    return f"{text[:head]}\n[... {len(text) - head - tail} characters left out ...]\n{text[-tail:]}"


def _split(heading: str, text: str, chars: int) -> Iterator[str]:
    room = max(chars - len(heading) - len(" (continued)\n"), 80)
    lines: list[str] = []
    used = 0
    continued = ""
    for line in _quoted(text, room):
        if lines and used + len(line) > room:
            yield f"{heading}{continued}\n{''.join(lines)}"
            lines, used, continued = [], 0, " (continued)"
        lines.append(line)
        used += len(line)
    yield f"{heading}{continued}\n{''.join(lines)}"


def quoted(text: str) -> str:
    """A text with every line behind ``| ``."""
    return "".join(f"| {line}\n" for line in text.splitlines())


def _quoted(text: str, room: int) -> Iterator[str]:
    """The lines, each behind ``| ``; a line longer than the room is cut into several."""
    width = max(room - len("| \n"), 1)
    for line in text.splitlines() or [""]:
        for start in range(0, max(len(line), 1), width):
            yield f"| {line[start : start + width]}\n"
