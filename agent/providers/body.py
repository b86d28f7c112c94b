"""The bodies of requests, as JSON. What was sent before is not encoded again."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from agent.messages import Message
from agent.providers.base import Request
from agent.wire import compact_json, message_to_wire, tool_to_wire

_CACHED: Mapping[str, object] = {"type": "ephemeral"}


class BodyEncoder:
    """Encodes requests, each message once for as long as requests carry it.

    The SDK would copy and encode the whole conversation at every request, 40 ms for 2,000
    messages, so it is given bytes. ``encoded`` counts the messages encoded so far.
    """

    def __init__(self) -> None:
        self.encoded = 0
        self._known: dict[int, tuple[Message, bytes]] = {}

    def encode(
        self, request: Request, more: Mapping[str, object], without: AbstractSet[str] = frozenset()
    ) -> bytes:
        """The body, with more fields beside those that make up the prompt.

        ``without`` names ``tools`` and ``cache_control`` where a server does not take them.

        The end of the system prompt and the end of the messages are marked for the
        prompt cache: the first outlives compactions, the second is found again by
        the next request.
        """
        cached = "cache_control" not in without
        fields: dict[str, object] = {"model": request.model, **more}
        if request.system:
            block = {"type": "text", "text": request.system}
            fields["system"] = [{**block, "cache_control": _CACHED} if cached else block]
        if request.tools and "tools" not in without:
            fields["tools"] = [tool_to_wire(tool) for tool in request.tools]
        *earlier, last = request.messages
        # Keyed by identity: comparing a long message costs as much as encoding it.
        self._known = {id(message): self._message(message) for message in earlier}
        messages = b",".join((*(text for _, text in self._known.values()), _last(last, cached)))
        return b'%b,"messages":[%b]}' % (_json(fields)[:-1], messages)

    def _message(self, message: Message) -> tuple[Message, bytes]:
        known = self._known.get(id(message))
        if known is not None and known[0] is message:
            return known
        self.encoded += 1
        return message, _json(message_to_wire(message))


def _last(message: Message, cached: bool) -> bytes:
    wire: dict[str, Any] = message_to_wire(message)
    if cached and (content := wire["content"]):
        wire["content"] = [*content[:-1], {**content[-1], "cache_control": _CACHED}]
    return _json(wire)


def _json(value: object) -> bytes:
    return compact_json(value).encode()
