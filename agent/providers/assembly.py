"""Assembles an answer from the events of a Messages API stream.

The SDK's own accumulation accepts cut-off tool input in silence; here every block
knows whether it was finished.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from agent.messages import Block, OpaqueBlock, TextBlock, ThinkingBlock, ToolUseBlock, Usage, scrub
from agent.providers.base import BlockPart, EndPart, Part, TextPart, ThinkingPart
from agent.wire import usage_from_wire

CUT_OFF = "the input was cut off before it was complete"

_BELONGS_TO = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "thinking"}
"""The kinds of block that deltas are for; input goes to any block that is neither."""


@dataclass
class _OpenBlock:
    start: Mapping[str, object]
    text: list[str] = field(default_factory=list)
    signature: str = ""

    @property
    def kind(self) -> str:
        return str(self.start.get("type", ""))


class Assembly:
    """One answer being received. Feed it the events as dictionaries, in order."""

    def __init__(self) -> None:
        self._open: dict[int, _OpenBlock] = {}
        self._usage: dict[str, object] = {}
        self._stop_reason = ""
        self._begun = False

    def feed(self, event: Mapping[str, object]) -> Iterator[Part]:
        """The parts that one event brings.

        :raises ValueError: the event contradicts the ones before it.
        """
        match event:
            case {"type": "message_start"} if self._begun:
                raise ValueError("the stream began a second message within the first")
            case {"type": "message_start", "message": {"usage": usage}}:
                self._count(usage)
            case {"type": "content_block_start", "index": int(index), "content_block": dict(start)}:
                if index in self._open:
                    raise ValueError(f"the stream began the content block {index} twice")
                self._begun = True
                self._open[index] = _OpenBlock(start)
                yield from _deltas(start.get("type"), str(start.get("text") or ""))
            case {"type": "content_block_delta", "index": int(index), "delta": dict(delta)}:
                yield from self._delta(index, delta)
            case {"type": "content_block_stop", "index": int(index)}:
                yield BlockPart(_finished(self._block(index), ""))
                del self._open[index]
            case {"type": "message_delta", "delta": dict(delta)}:
                self._stop_reason = str(delta.get("stop_reason") or "")
                self._count(event.get("usage"))
            case {"type": "message_stop"}:
                yield from self._end()
            case {"type": str(kind)} if kind.startswith("content_block_"):
                # What is missing may be a piece of the answer.
                raise ValueError(f"the stream has a {kind} that cannot be read")
            case _:
                pass

    def _delta(self, index: int, delta: Mapping[str, object]) -> Iterator[Part]:
        block = self._block(index)
        kind = str(delta.get("type"))
        input_elsewhere = kind == "input_json_delta" and block.kind in _BELONGS_TO.values()
        if input_elsewhere or _BELONGS_TO.get(kind, block.kind) != block.kind:
            raise ValueError(f"the stream has a {kind} in a block of {block.kind}")
        match delta:
            case {"type": "text_delta", "text": str(text)}:
                block.text.append(text)
                yield from _deltas("text", text)
            case {"type": "thinking_delta", "thinking": str(text)}:
                block.text.append(text)
                yield from _deltas("thinking", text)
            case {"type": "signature_delta", "signature": str(signature)}:
                block.signature += signature
            case {"type": "input_json_delta", "partial_json": str(text)}:
                block.text.append(text)
            case _ if kind in {*_BELONGS_TO, "input_json_delta"}:
                raise ValueError(f"the stream has a {kind} that cannot be read")
            case _:
                pass

    def _count(self, usage: object) -> None:
        """Take over counts; later ones are totals, and a missing one keeps what was said."""
        if isinstance(usage, dict):
            self._usage.update({name: n for name, n in usage.items() if n is not None})

    def _end(self) -> Iterator[Part]:
        if self._open and not self._stop_reason:
            raise ValueError("the message ended in the middle of a block, without a reason")
        for index in sorted(self._open):
            yield BlockPart(_finished(self._open[index], CUT_OFF))
        self._open.clear()
        yield EndPart(self._stop_reason, self.usage)

    @property
    def usage(self) -> Usage:
        """The tokens reported so far."""
        return usage_from_wire(self._usage)

    def _block(self, index: int) -> _OpenBlock:
        if index not in self._open:
            raise ValueError(f"the stream names a content block {index} that it did not start")
        return self._open[index]


def _deltas(kind: object, text: str) -> Iterator[Part]:
    if text and kind == "text":
        yield TextPart(scrub(text))
    elif text and kind == "thinking":
        yield ThinkingPart(scrub(text))


def _finished(block: _OpenBlock, defect: str) -> Block:
    received = scrub("".join(block.text))
    match block.kind:
        case "text":
            return TextBlock(scrub(str(block.start.get("text") or "")) + received)
        case "thinking":
            signature = block.signature or str(block.start.get("signature") or "")
            return ThinkingBlock(str(block.start.get("thinking") or "") + received, signature)
        case "tool_use":
            return _tool_use(block, received, defect)
        case _:
            return OpaqueBlock(block.start)


def _tool_use(block: _OpenBlock, received: str, defect: str) -> ToolUseBlock:
    call_id, name = (scrub(str(block.start.get(key) or "")) for key in ("id", "name"))
    value: object = block.start.get("input") or {}
    try:
        if received.strip():
            value = json.loads(received)
        value = _clean(value)
    except (ValueError, RecursionError):
        return ToolUseBlock(call_id, name, {}, defect or "the input is not valid JSON")
    if not isinstance(value, dict):
        return ToolUseBlock(call_id, name, {}, defect or "the input is not a JSON object")
    return ToolUseBlock(call_id, name, value, defect)


def _clean(value: object) -> object:
    """A JSON value that can be sent back: no lone surrogates, no NaN or infinity.

    :raises ValueError: it has a number that JSON does not.
    """
    match value:
        case str():
            return scrub(value)
        case float() if not math.isfinite(value):
            raise ValueError(f"{value} is no JSON number")
        case dict():
            return {scrub(str(key)): _clean(item) for key, item in value.items()}
        case list():
            return [_clean(item) for item in value]
        case _:
            return value
