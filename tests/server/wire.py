"""The JSON of the Messages API, as far as the server's modules share it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, TypeAlias

JsonObject: TypeAlias = dict[str, Any]

THINKING_TYPES = frozenset({"thinking", "redacted_thinking"})


def blocks(content: object) -> list[JsonObject]:
    """A message's or system prompt's content as blocks.

    A string is short for one text block; anything else that is not a list of
    objects has no blocks.
    """
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if isinstance(content, list):
        return [block for block in content if isinstance(block, dict)]
    return []


def normalised(block: Mapping[str, Any]) -> JsonObject:
    """The block without cache markers and null fields, which carry no content."""
    return {
        key: value for key, value in block.items() if key != "cache_control" and value is not None
    }


def compact(value: object, *, sort_keys: bool = False) -> str:
    """The value as JSON without spaces, non-ASCII characters as they are."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=sort_keys)


def result_text(block: Mapping[str, Any]) -> str:
    """The text of a ``tool_result`` block."""
    content = block.get("content") or ""
    return "\n".join(part.get("text", "") for part in blocks(content))


def message_text(message: Mapping[str, Any]) -> str:
    """The text blocks of a message, one below the other; tool results are left out."""
    return "\n".join(
        block["text"] for block in blocks(message.get("content")) if block.get("type") == "text"
    )


def last_user_text(body: Mapping[str, Any]) -> str:
    """The text of the request's last user message; empty when it only carries results."""
    for message in reversed(body.get("messages", [])):
        if message.get("role") == "user":
            return message_text(message)
    return ""


def has_consecutive_roles(messages: object) -> bool:
    """Whether two neighbouring messages have the same role."""
    if not isinstance(messages, list):
        return False
    roles = [message.get("role") for message in messages if isinstance(message, dict)]
    return any(first == second for first, second in pairwise(roles))
