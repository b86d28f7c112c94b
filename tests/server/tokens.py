"""The server's own token count.

It is deterministic and shares no code with the program's estimator. Every
string costs its UTF-8 bytes divided by three, rounded up: about a third more
than "four characters a token", which is what Claude's tokenizer takes on code
and JSON. A CJK character has three bytes and so costs a whole token, which is
more than the real 0.5 to 0.8. On top of the strings come fixed costs for the
prompt, each message, each block and each tool.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from tests.server.media import media_tokens
from tests.server.wire import JsonObject, blocks, compact

BYTES_PER_TOKEN = 3.0
PROMPT_TOKENS = 8
MESSAGE_TOKENS = 4
BLOCK_TOKENS = 3
TOOL_TOKENS = 12

Section: TypeAlias = Literal["tools", "system", "messages"]


@dataclass(frozen=True)
class Piece:
    """One block of a prompt in the order of the prompt, with its size in tokens.

    ``role`` is empty for tools and system; ``index`` numbers tools, system
    blocks and messages, each from 0. A prompt's size is the sum of its pieces.
    """

    section: Section
    index: int
    role: str
    block: JsonObject
    tokens: int


def count_text(text: str) -> int:
    """The tokens of a string; 0 for an empty one."""
    return math.ceil(len(text.encode("utf-8", "surrogatepass")) / BYTES_PER_TOKEN)


def count_block(block: Mapping[str, Any]) -> int:
    """The tokens of a content block, its fixed cost included."""
    return BLOCK_TOKENS + _block_content(block)


def count_prompt(body: Mapping[str, Any], factor: float = 1.0) -> int:
    """The prompt of a request (tools, system, messages) in tokens."""
    return sum(piece.tokens for piece in pieces(body, factor))


def pieces(body: Mapping[str, Any], factor: float = 1.0) -> list[Piece]:
    """The prompt's blocks in cache order: tools, system, messages.

    ``factor`` scales every piece, rounded up.
    """
    found: list[Piece] = []

    def add(section: Section, index: int, role: str, block: JsonObject, tokens: int) -> None:
        fixed = tokens if found else tokens + PROMPT_TOKENS
        found.append(Piece(section, index, role, block, math.ceil(fixed * factor)))

    for index, tool in enumerate(body.get("tools") or ()):
        add("tools", index, "", tool, TOOL_TOKENS + count_text(compact(_without_marker(tool))))
    for index, block in enumerate(blocks(body.get("system"))):
        add("system", index, "", block, count_block(block))
    for index, message in enumerate(body.get("messages") or ()):
        for position, block in enumerate(blocks(message.get("content"))):
            fixed = 0 if position else MESSAGE_TOKENS
            add("messages", index, message["role"], block, fixed + count_block(block))
    return found


def _without_marker(tool: Mapping[str, Any]) -> JsonObject:
    return {key: value for key, value in tool.items() if key != "cache_control"}


def _block_content(block: Mapping[str, Any]) -> int:
    match block.get("type"):
        case "text":
            return count_text(block["text"])
        case "thinking":
            return count_text(block["thinking"])
        case "redacted_thinking":
            return count_text(block["data"])
        case "tool_use":
            return count_text(block["name"]) + count_text(compact(block["input"]))
        case "tool_result":
            return sum(count_block(part) for part in blocks(block.get("content") or ""))
        case "image" | "document":
            return media_tokens(block)
        case _:
            return count_text(compact(dict(block)))
