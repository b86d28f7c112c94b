"""The shapes of messages, blocks, tools and the system prompt.

Each check yields the API's messages for what it finds. What follows in
:mod:`tests.server.rules` may take the shapes for granted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tests.server.wire import THINKING_TYPES, JsonObject, blocks

ALLOWED_FIELDS: dict[str, frozenset[str]] = {
    "text": frozenset({"type", "text", "citations", "cache_control"}),
    "thinking": frozenset({"type", "thinking", "signature"}),
    "redacted_thinking": frozenset({"type", "data"}),
    "tool_use": frozenset(
        {"type", "id", "name", "input", "caller", "toolset_name", "cache_control"}
    ),
    "tool_result": frozenset({"type", "tool_use_id", "content", "is_error", "cache_control"}),
    "image": frozenset({"type", "source", "cache_control"}),
    "document": frozenset({"type", "source", "title", "context", "citations", "cache_control"}),
}
REQUIRED_STRINGS: dict[str, tuple[str, ...]] = {
    "text": ("text",),
    "thinking": ("thinking", "signature"),
    "redacted_thinking": ("data",),
    "tool_use": ("id", "name"),
    "tool_result": ("tool_use_id",),
}
PLACES: dict[str, str] = {
    "thinking": "assistant",
    "redacted_thinking": "assistant",
    "tool_use": "assistant",
    "tool_result": "user",
    "image": "user",
    "document": "user",
}
IDENTIFIER = re.compile(r"[a-zA-Z0-9_-]+")
TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")


def message_shapes(messages: object) -> Iterator[str]:
    """A non-empty list of messages with known roles, non-empty content and known blocks."""
    if not isinstance(messages, list):
        yield "messages: Input should be a valid list"
        return
    if not messages:
        yield "messages: at least one message is required"
    for index, message in enumerate(messages):
        yield from _message_shape(f"messages.{index}", message)


def system_shape(system: object) -> Iterator[str]:
    """A string or a list of text blocks with something in them."""
    if system is None or isinstance(system, str):
        return
    if not isinstance(system, list):
        yield "system: Input should be a valid list"
        return
    for index, block in enumerate(system):
        where = f"system.{index}"
        if not isinstance(block, dict) or block.get("type") != "text":
            yield f"{where}.type: Input should be 'text'"
        else:
            yield from block_shape(where, block)
    yield from blank_texts("system", blocks(system))


def tools_shape(tools: object) -> Iterator[str]:
    """Client tools with unique, well-formed names and an object schema."""
    if tools is None:
        return
    if not isinstance(tools, list):
        yield "tools: Input should be a valid list"
        return
    for index, tool in enumerate(tools):
        where = f"tools.{index}.custom"
        if not isinstance(tool, dict):
            yield f"{where}: Input should be a valid dictionary"
        elif not TOOL_NAME.fullmatch(str(tool.get("name", ""))):
            yield f"{where}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
        elif not isinstance(tool.get("input_schema"), dict):
            yield f"{where}.input_schema: Field required"
        elif tool["input_schema"].get("type") != "object":
            yield f"{where}.input_schema.type: Field required"
    names = [tool["name"] for tool in tools]
    if len(set(names)) != len(names):
        yield "tools: Tool names must be unique."


def blank_texts(where: str, content: list[JsonObject]) -> Iterator[str]:
    """Text blocks, also those within tool results, that are empty or only whitespace."""
    for block in content:
        if block["type"] == "text":
            if not block["text"]:
                yield f"{where}: text content blocks must be non-empty"
            elif not block["text"].strip():
                yield f"{where}: text content blocks must contain non-whitespace text"
        elif block["type"] == "tool_result" and isinstance(block.get("content"), list):
            yield from blank_texts(where, blocks(block["content"]))


def block_shape(where: str, block: JsonObject) -> Iterator[str]:
    """A block's own fields: all it needs, of the right type, and none besides."""
    kind = block["type"]
    path = f"{where}.{kind}"
    for field in REQUIRED_STRINGS.get(kind, ()):
        if field not in block:
            yield f"{path}.{field}: Field required"
        elif not isinstance(block[field], str):
            yield f"{path}.{field}: Input should be a valid string"
    if kind == "tool_use":
        yield from _tool_use_shape(path, block)
    if kind == "tool_result":
        yield from _tool_result_shape(path, block)
    for field in block:
        if field not in ALLOWED_FIELDS[kind]:
            yield f"{path}.{field}: Extra inputs are not permitted"


def _message_shape(where: str, message: Any) -> Iterator[str]:
    if not isinstance(message, dict):
        yield f"{where}: Input should be a valid dictionary"
        return
    role = message.get("role")
    if role == "system":
        yield (
            'messages: Unexpected role "system". The Messages API accepts a top-level `system` '
            'parameter, not "system" as an input message role.'
        )
    elif role not in ("user", "assistant"):
        yield (
            f'messages: Unexpected role "{role}". Allowed roles are "user" or "assistant". '
            "For more information, see https://docs.claude.com/en/api/messages"
        )
    for field in message:
        if field not in ("role", "content"):
            yield f"{where}.{field}: Extra inputs are not permitted"
    content = message.get("content")
    if not isinstance(content, str | list):
        yield f"{where}.content: Input should be a valid list"
    elif not content:
        yield (
            f"{where}: all messages must have non-empty content except for the optional final "
            "assistant message"
        )
    elif isinstance(content, list):
        for position, block in enumerate(content):
            yield from _placed_block(where, f"{where}.content.{position}", role, block)


def _placed_block(message: str, where: str, role: object, block: Any) -> Iterator[str]:
    if not isinstance(block, dict):
        yield f"{where}: Input should be a valid dictionary"
        return
    kind = block.get("type")
    if kind not in ALLOWED_FIELDS:
        known = ", ".join(f"'{name}'" for name in sorted(ALLOWED_FIELDS))
        yield (
            f"{where}: Input tag '{kind}' found using 'type' does not match any of the expected "
            f"tags: {known}"
        )
        return
    place = PLACES.get(kind, role)
    if place != role:
        yield f"{message}: `{kind}` blocks can only be in `{place}` messages"
    if kind in THINKING_TYPES and "cache_control" in block:
        yield f"{where}.{kind}.cache_control: Extra inputs are not permitted"
    yield from block_shape(where, block)


def _tool_use_shape(path: str, block: JsonObject) -> Iterator[str]:
    if not IDENTIFIER.fullmatch(block["id"]):
        yield f"{path}.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
    if not TOOL_NAME.fullmatch(block["name"]):
        yield f"{path}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
    if "input" not in block:
        yield f"{path}.input: Field required"
    elif not isinstance(block["input"], dict):
        yield f"{path}.input: Input should be a valid dictionary"


def _tool_result_shape(path: str, block: JsonObject) -> Iterator[str]:
    content = block.get("content")
    if content is None or content in ("", []):
        if block.get("is_error"):
            yield f"{path}: content cannot be empty if `is_error` is true"
        return
    if isinstance(content, str):
        return
    if not isinstance(content, list):
        yield f"{path}.content: Input should be a valid list"
        return
    for position, part in enumerate(content):
        if not isinstance(part, dict) or part.get("type") not in ("text", "image", "document"):
            yield f"{path}.content.{position}.type: Input should be 'text', 'image' or 'document'"
        else:
            yield from block_shape(f"{path}.content.{position}", part)
