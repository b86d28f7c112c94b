"""Blocks, messages and tools as dictionaries in the shape of the Messages API.

This is the one form that leaves the program: to a server (provider adapters) and
to disk (transcript records). Reading is tolerant: a block of an unknown kind or
with missing fields becomes an :class:`~agent.messages.OpaqueBlock`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import assert_never

from agent.messages import (
    Block,
    MediaBlock,
    Message,
    OpaqueBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolSpec,
    ToolUseBlock,
    Usage,
)

PDF = "application/pdf"

UNKNOWN_MEDIA_TOKENS = 1_600
"""An image of 1,120 x 1,120 pixels, about the largest that servers do not scale down."""


def block_to_wire(block: Block) -> dict[str, object]:
    """A block as the Messages API writes it, without what is ours alone, such as ``defect``."""
    match block:
        case TextBlock(text):
            return {"type": "text", "text": text}
        case ThinkingBlock(thinking, signature):
            return {"type": "thinking", "thinking": thinking, "signature": signature}
        case ToolUseBlock(id=call_id, name=name, input=arguments):
            return {"type": "tool_use", "id": call_id, "name": name, "input": dict(arguments)}
        case ToolResultBlock(tool_use_id, content, is_error, media):
            shown: tuple[Block, ...] = (TextBlock(content), *media) if content.strip() else media
            result: dict[str, object] = {
                "type": "tool_result",
                "tool_use_id": tool_use_id,
                "content": list(map(block_to_wire, shown)) if media else content,
            }
            if is_error:
                result["is_error"] = True
            return result
        case MediaBlock(media_type, data):
            return {
                "type": "document" if media_type == PDF else "image",
                "source": {"type": "base64", "media_type": media_type, "data": data},
            }
        case OpaqueBlock(data):
            return dict(data)
        case _:
            assert_never(block)


def block_from_wire(data: Mapping[str, object]) -> Block:
    """The block that a dictionary describes."""
    match data:
        case {"type": "text", "text": str(text)}:
            return TextBlock(text)
        case {"type": "thinking", "thinking": str(thinking), "signature": str(signature)}:
            return ThinkingBlock(thinking, signature)
        case {"type": "tool_use", "id": str(call_id), "name": str(name), "input": dict(arguments)}:
            return ToolUseBlock(call_id, name, arguments, str(data.get("defect", "")))
        case {"type": "tool_result", "tool_use_id": str(call_id), "content": str(content)}:
            return ToolResultBlock(call_id, content, bool(data.get("is_error", False)))
        case {"type": "tool_result", "tool_use_id": str(call_id), "content": list(parts)}:
            return _result_from_wire(call_id, data, parts)
        case {
            "type": "image" | "document",
            "source": {"type": "base64", "media_type": str(media_type), "data": str(content)},
        }:
            tokens, address = data.get("tokens"), data.get("address")
            return MediaBlock(
                media_type,
                content,
                tokens if isinstance(tokens, int) else UNKNOWN_MEDIA_TOKENS,
                address if isinstance(address, str) else "",
            )
        case _:
            return OpaqueBlock(dict(data))


def _result_from_wire(call_id: str, data: Mapping[str, object], parts: list[object]) -> Block:
    """A result of several parts; opaque if one of them is neither text nor media."""
    blocks = [block_from_wire(part) for part in parts if isinstance(part, dict)]
    texts = [block.text for block in blocks if isinstance(block, TextBlock)]
    media = tuple(block for block in blocks if isinstance(block, MediaBlock))
    if len(texts) + len(media) < len(parts):
        return OpaqueBlock(dict(data))
    return ToolResultBlock(call_id, "\n".join(texts), bool(data.get("is_error", False)), media)


def message_to_wire(message: Message) -> dict[str, object]:
    """A message as the Messages API writes it; its content is always a list of blocks."""
    return {"role": message.role, "content": [block_to_wire(block) for block in message.blocks]}


def tool_to_wire(tool: ToolSpec) -> dict[str, object]:
    """A tool's description as the Messages API writes it."""
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": dict(tool.input_schema),
    }


def tool_from_wire(data: Mapping[str, object]) -> ToolSpec:
    """The tool that a dictionary describes; missing parts are empty."""
    schema = data.get("input_schema")
    return ToolSpec(
        str(data.get("name", "")),
        str(data.get("description", "")),
        schema if isinstance(schema, dict) else {},
    )


def usage_to_wire(usage: Usage) -> dict[str, int]:
    """Token counts under the Messages API's names."""
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_input_tokens": usage.cache_read_input_tokens,
        "cache_creation_input_tokens": usage.cache_creation_input_tokens,
    }


def usage_from_wire(data: Mapping[str, object]) -> Usage:
    """Token counts from a dictionary; missing or null counts are zero."""

    def count(name: str) -> int:
        value = data.get(name)
        return value if isinstance(value, int) else 0

    return Usage(
        count("input_tokens"),
        count("output_tokens"),
        count("cache_read_input_tokens"),
        count("cache_creation_input_tokens"),
    )


def compact_json(value: object) -> str:
    """JSON without spaces, characters kept as they are."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
