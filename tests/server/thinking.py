"""Thinking blocks: signatures, and their binding to the conversation before them.

A signature seals the block's text, the conversation that it was made in, the
thinking block before it, and its place among the thinking blocks of its
response. What the binding compares follows the API's description of preserved
thinking: ``system``, ``tools`` and every message before the block count; cache
markers and other thinking blocks do not. Thinking may be left out from the
start, from the end or altogether, but the blocks that are kept must be an
unbroken run of the original sequence.

Signatures are stateless, so a session may be resumed on another server that
has the same key.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tests.server.wire import THINKING_TYPES, JsonObject, blocks, compact, normalised

BINDING_BETA = "thinking-binding-controls-2026-08-01"


@dataclass(frozen=True)
class Prefix:
    """Digests of what stands before a thinking block."""

    system: str
    tools: str
    messages: str


@dataclass(frozen=True)
class Seal:
    """What a signature vouches for besides the text.

    ``previous`` names the thinking block before this one in the conversation
    (empty for the first); ``response`` the answer it belongs to, in which it is
    number ``position`` of ``total`` thinking blocks.
    """

    prefix: Prefix
    previous: str
    response: str
    position: int
    total: int


@dataclass(frozen=True)
class PlacedThinking:
    """A thinking block in a history, and the digests of what stands before it."""

    message: int
    position: int
    block: JsonObject
    prefix: Prefix

    @property
    def path(self) -> str:
        """The block's place in the words of the API's errors."""
        return f"messages.{self.message}.content.{self.position}"


class Signer:
    """Makes and verifies signatures with a secret key."""

    def __init__(self, key: bytes = b"messages-server") -> None:
        self._key = key

    def sign(self, text: str, seal: Seal) -> str:
        """The signature of a thinking block's text under a seal."""
        payload = compact(asdict(seal)).encode()
        return base64.b64encode(self._code(text, payload) + payload).decode("ascii")

    def verify(self, block: Mapping[str, Any]) -> Seal | None:
        """The seal of a thinking block; ``None`` when this key did not sign it."""
        try:
            raw = base64.b64decode(signature_of(block).encode(), validate=True)
        except (binascii.Error, UnicodeEncodeError):
            return None
        code, payload = raw[:32], raw[32:]
        text = str(block.get("thinking", ""))
        if not hmac.compare_digest(code, self._code(text, payload)):
            return None
        fields = json.loads(payload)
        return Seal(**{**fields, "prefix": Prefix(**fields["prefix"])})

    def _code(self, text: str, payload: bytes) -> bytes:
        message = text.encode("utf-8", "surrogatepass") + b"\0" + payload
        return hmac.new(self._key, message, hashlib.sha256).digest()


def signature_of(block: Mapping[str, Any]) -> str:
    """The signature; redacted thinking carries it as its data."""
    return str(block.get("data" if block.get("type") == "redacted_thinking" else "signature", ""))


def placed_thinking(
    system: object, tools: object, messages: Sequence[Mapping[str, Any]]
) -> Iterator[PlacedThinking]:
    """Every thinking block of a history, in order."""
    system_digest = _digest([normalised(block) for block in blocks(system)])
    tools_digest = _digest([normalised(tool) for tool in blocks(tools)])
    seen = hashlib.sha256()
    for index, message in enumerate(messages):
        own: list[JsonObject] = []
        for position, block in enumerate(blocks(message.get("content"))):
            if block.get("type") in THINKING_TYPES:
                before = seen.copy()
                before.update(compact(own, sort_keys=True).encode("utf-8", "surrogatepass"))
                prefix = Prefix(system_digest, tools_digest, before.hexdigest()[:16])
                yield PlacedThinking(index, position, block, prefix)
            else:
                own.append(normalised(block))
        whole = compact([message.get("role"), own], sort_keys=True)
        seen.update(whole.encode("utf-8", "surrogatepass"))


def sign_response(
    body: Mapping[str, Any], content: list[JsonObject], response: str, signer: Signer
) -> list[JsonObject]:
    """The content of an answer with its thinking blocks signed.

    A block that brings a signature of its own keeps it.
    """
    messages = [*body["messages"], {"role": "assistant", "content": content}]
    placed = list(placed_thinking(body.get("system"), body.get("tools"), messages))
    own = [place for place in placed if place.message == len(messages) - 1]
    earlier = [place for place in placed if place.message < len(messages) - 1]
    previous = tag(earlier[-1].block) if earlier else ""
    signed = list(content)
    for number, place in enumerate(own):
        seal = Seal(place.prefix, previous, response, number, len(own))
        field = "data" if place.block["type"] == "redacted_thinking" else "signature"
        text = str(place.block.get("thinking", ""))
        block = {field: signer.sign(text, seal), **place.block}
        signed[place.position] = block
        previous = tag(block)
    return signed


def tag(block: Mapping[str, Any]) -> str:
    """A short name of a thinking block, made from its signature."""
    return hashlib.sha256(signature_of(block).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def invalid_signature(
    system: object, tools: object, messages: Sequence[Mapping[str, Any]], signer: Signer
) -> str | None:
    """The API's message when a thinking block was altered, forged or split; else ``None``.

    The thinking of one answer is kept whole or left out as a whole.
    """
    kept: dict[int, list[Seal]] = {}
    for place in placed_thinking(system, tools, messages):
        seal = signer.verify(place.block)
        if seal is None:
            return f"{place.path}: Invalid `signature` in `thinking` block"
        kept.setdefault(place.message, []).append(seal)
    for index, seals in kept.items():
        whole = [(seals[0].response, number) for number in range(seals[0].total)]
        if [(seal.response, seal.position) for seal in seals] != whole:
            return (
                f"messages.{index}.content.0: `thinking` or `redacted_thinking` blocks in the "
                "latest assistant message cannot be modified. These blocks must remain as they "
                "were in the original response."
            )
    return None


def unbound(
    system: object, tools: object, messages: Sequence[Mapping[str, Any]], signer: Signer
) -> tuple[PlacedThinking, str] | None:
    """The first thinking block that is bound to another conversation, and what differs."""
    previous: str | None = None
    for place in placed_thinking(system, tools, messages):
        seal = signer.verify(place.block)
        if seal is not None:
            difference = _difference(place, seal, previous)
            if difference:
                return place, difference
        previous = tag(place.block)
    return None


def unbound_message(
    system: object,
    tools: object,
    messages: Sequence[Mapping[str, Any]],
    signer: Signer,
    *,
    beta: bool = False,
) -> str | None:
    """The API's message for the first block bound to another conversation; else ``None``.

    ``beta`` says whether the request carried the header that allows
    ``block_binding``.
    """
    found = unbound(system, tools, messages, signer)
    if found is None:
        return None
    place, difference = found
    header = f"That setting requires the `{BINDING_BETA}` value in the `anthropic-beta` header. "
    return (
        f"{place.path}: Invalid `signature` in `thinking` block. The block is bound to a "
        "different conversation. Remove the block, or set "
        '`thinking.block_binding.prefix_mismatch_behavior` to "drop_block". '
        f"{'' if beta else header}{difference}"
    )


def drop_unbound(body: Mapping[str, Any], signer: Signer) -> tuple[JsonObject, list[JsonObject]]:
    """The request without the first unbound block and all thinking after it.

    The second value is what the response reports as ``input_transformations``.
    """
    system, tools, messages = body.get("system"), body.get("tools"), body["messages"]
    found = unbound(system, tools, messages, signer)
    if found is None:
        return dict(body), []
    first = (found[0].message, found[0].position)
    dropped = [
        place
        for place in placed_thinking(system, tools, messages)
        if (place.message, place.position) >= first
    ]
    gone = {(place.message, place.position) for place in dropped}
    kept = [
        {
            **message,
            "content": [
                block
                for position, block in enumerate(blocks(message["content"]))
                if (index, position) not in gone
            ],
        }
        for index, message in enumerate(messages)
    ]
    report = [
        {"type": "thinking_dropped", "path": place.path, "reason": "prefix_binding_mismatch"}
        for place in dropped
    ]
    return {**body, "messages": kept}, report


def _difference(place: PlacedThinking, seal: Seal, previous: str | None) -> str:
    if seal.prefix.system != place.prefix.system:
        return "The `system` prompt differs from the one this block was created with."
    if seal.prefix.tools != place.prefix.tools:
        return "The `tools` list differs from the one this block was created with."
    if seal.prefix.messages != place.prefix.messages:
        return "The messages before this block differ from the ones it was created with."
    if previous is not None and seal.previous != previous:
        return (
            "The `thinking` block that preceded this one when it was created is missing from "
            "this request."
        )
    return ""


def _digest(value: object) -> str:
    text = compact(value, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
