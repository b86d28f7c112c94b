"""From a reply to what is sent: signed content, one JSON message, or events."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.server.replies import Reply
from tests.server.thinking import Signer, sign_response
from tests.server.tokens import BLOCK_TOKENS, BYTES_PER_TOKEN, count_block, count_text
from tests.server.wire import JsonObject, compact


class RawJson(str):
    """A tool's input as the text that is streamed, valid JSON or not."""

    __slots__ = ()


@dataclass(frozen=True)
class RenderedBlock:
    """A content block as it is sent: whole, or as a start and deltas."""

    whole: JsonObject
    start: JsonObject
    deltas: tuple[JsonObject, ...]


@dataclass(frozen=True)
class RenderedReply:
    """A reply as it is sent.

    ``envelope`` is the message without its content, stop reason and output
    tokens; ``usage`` the final usage.
    """

    envelope: JsonObject
    blocks: tuple[RenderedBlock, ...]
    stop_reason: str
    usage: JsonObject

    def message(self) -> JsonObject:
        """The whole message, as a request without streaming gets it."""
        content = [block.whole for block in self.blocks]
        return {
            **self.envelope,
            "content": content,
            "stop_reason": self.stop_reason,
            "usage": self.usage,
        }

    def events(self) -> Iterator[Event]:
        """The message as a stream's events, in the API's order."""
        opening = {**self.usage, "output_tokens": min(1, self.usage["output_tokens"])}
        start = {**self.envelope, "content": [], "stop_reason": None, "usage": opening}
        yield Event("message_start", {"message": start})
        for index, block in enumerate(self.blocks):
            yield Event("content_block_start", {"index": index, "content_block": block.start})
            if index == 0:
                yield Event("ping", {})
            for delta in block.deltas:
                yield Event("content_block_delta", {"index": index, "delta": delta})
            yield Event("content_block_stop", {"index": index})
        ending = {"stop_reason": self.stop_reason, "stop_sequence": None}
        usage = {key: self.usage[key] for key in self.usage if key.endswith("_tokens")}
        yield Event("message_delta", {"delta": ending, "usage": usage})
        yield Event("message_stop", {})


@dataclass(frozen=True)
class Event:
    """A server-sent event: its name, and its data without the ``type``."""

    name: str
    fields: JsonObject

    def encoded(self) -> bytes:
        """The event as it stands in the stream."""
        data = compact({"type": self.name, **self.fields})
        return f"event: {self.name}\ndata: {data}\n\n".encode()


def error_event(kind: str, message: str) -> Event:
    """An error in the middle of a stream."""
    return Event("error", {"error": {"type": kind, "message": message}})


@dataclass(frozen=True)
class Content:
    """An answer's unsigned content; its size in tokens; whether it was cut off."""

    blocks: list[JsonObject]
    tokens: int
    cut: bool


def reply_content(reply: Reply, max_tokens: int) -> Content:
    """The reply's content blocks, cut off at ``max_tokens``.

    A tool call that is cut keeps the beginning of its JSON; thinking that is
    cut has an empty signature, as it was never finished.
    """
    kept: list[JsonObject] = []
    used = 0
    for block in _blocks(reply):
        size = _size(block)
        if used + size > max_tokens:
            room = int((max_tokens - used - BLOCK_TOKENS) * BYTES_PER_TOKEN)
            if room > 0:
                kept.append(_shortened(block, room))
            return Content(kept, max_tokens, cut=True)
        kept.append(block)
        used += size
    return Content(kept, used, cut=False)


def signed_content(
    content: Sequence[JsonObject],
    body: Mapping[str, Any],
    message_id: str,
    signer: Signer,
    *,
    omit_thinking: bool,
) -> list[JsonObject]:
    """The content with its thinking signed; with ``omit_thinking`` only the signatures."""
    shown = [
        {**block, "thinking": ""} if omit_thinking and block["type"] == "thinking" else block
        for block in content
    ]
    return sign_response(body, shown, message_id, signer)


def render_block(block: JsonObject, chunk_size: int) -> RenderedBlock:
    """A signed block as it is sent."""
    match block["type"]:
        case "text":
            parts = _chunks(block["text"], chunk_size)
            deltas = [{"type": "text_delta", "text": part} for part in parts]
            return RenderedBlock(block, {**block, "text": ""}, tuple(deltas))
        case "thinking":
            parts = _chunks(block["thinking"], chunk_size)
            deltas = [{"type": "thinking_delta", "thinking": part} for part in parts]
            if block["signature"]:
                deltas.append({"type": "signature_delta", "signature": block["signature"]})
            return RenderedBlock(block, {**block, "thinking": "", "signature": ""}, tuple(deltas))
        case "tool_use":
            text = _input_json(block)
            parts = ["", *_chunks(text, chunk_size)]
            deltas = [{"type": "input_json_delta", "partial_json": part} for part in parts]
            whole = {**block, "input": _parsed(text)}
            return RenderedBlock(whole, {**block, "input": {}}, tuple(deltas))
        case _:
            return RenderedBlock(block, block, ())


def _blocks(reply: Reply) -> Iterator[JsonObject]:
    if reply.thinking:
        yield {"type": "thinking", "thinking": reply.thinking}
    if reply.text:
        yield {"type": "text", "text": reply.text}
    for use in reply.tool_uses:
        value = use.input if use.raw_json is None else RawJson(use.raw_json)
        identifier = use.id or f"toolu_{secrets.token_hex(12)}"
        yield {"type": "tool_use", "id": identifier, "name": use.name, "input": value}
    yield from (dict(block) for block in reply.blocks)


def _size(block: JsonObject) -> int:
    if block["type"] == "tool_use":
        return BLOCK_TOKENS + count_text(block["name"]) + count_text(_input_json(block))
    if block["type"] == "redacted_thinking":
        return BLOCK_TOKENS
    return count_block(block)


def _shortened(block: JsonObject, size: int) -> JsonObject:
    """The block with the first ``size`` bytes of its content."""
    match block["type"]:
        case "text":
            return {**block, "text": _first_bytes(block["text"], size)}
        case "thinking":
            return {**block, "thinking": _first_bytes(block["thinking"], size), "signature": ""}
        case "tool_use":
            return {**block, "input": RawJson(_first_bytes(_input_json(block), size))}
        case _:
            return block


def _input_json(block: JsonObject) -> str:
    value = block["input"]
    return str(value) if isinstance(value, RawJson) else compact(value)


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return {}


def _chunks(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def _first_bytes(text: str, size: int) -> str:
    return text.encode()[:size].decode("utf-8", "ignore")
