"""Ways in which an answer goes wrong on its way, each of them by name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tests.server.replies import (
    ConnectionReset,
    Fault,
    HttpFault,
    Reply,
    StreamFault,
    ToolUse,
    empty_answer,
    overloaded,
    rate_limited,
    redirect,
    server_error,
    unavailable,
)

PLACES = ("thinking", "text", "tool_use")

NO_BYTES_SECONDS, NO_CONTENT_SECONDS = 2.0, 3.0
"""The watchdogs for these faults."""

TEXT = "The answer begins here, and it goes on for a while, until it comes to its end."
THINKING = "First I think about what is asked, then about how it is to be answered well."


def whole(command: str) -> Reply:
    """The answer that is to arrive: thinking, text, and a call of the shell."""
    call = ToolUse("shell", {"command": command})
    return Reply(TEXT, thinking=THINKING, tool_uses=[call], chunk_size=9)


def event(name: str, data: object) -> bytes:
    """An event of a stream, with any data."""
    text = data if isinstance(data, str) else json.dumps(data)
    return f"event: {name}\ndata: {text}\n\n".encode()


def delta(**fields: object) -> bytes:
    """A ``content_block_delta`` with these fields."""
    return event("content_block_delta", {"type": "content_block_delta", **fields})


def raw(data: bytes) -> StreamFault:
    """A stream with other bytes in between."""
    return StreamFault("raw", raw=data)


def stream_error(kind: str) -> StreamFault:
    """An error event of a type."""
    return StreamFault("error", error_type=kind, message="it went wrong")


_TEXT_DELTA = {"type": "text_delta", "text": "stray"}
_NEW_BLOCK = {"type": "text", "text": ""}

STREAM_FAULTS: Mapping[str, StreamFault] = {
    "reset": StreamFault("reset"),
    "connection closed": StreamFault("close"),
    "end without message_stop": StreamFault("eof"),
    "closed within an event": StreamFault("raw_end", raw=b'event: content_block_delta\ndata: {"ty'),
    "closed within a character": StreamFault("raw_end", raw=b'event: x\ndata: {"text": "\xe6\x97'),
    "no chunk": StreamFault("bad_chunk"),
    "gzip cut": StreamFault("gzip_cut"),
    "gzip garbage": StreamFault("gzip_garbage"),
    "short stall": StreamFault("stall", seconds=0.3),
    "stall": StreamFault("stall", seconds=60.0),
    "stall with pings": StreamFault("stall", seconds=60.0, pings=True),
    "overloaded": stream_error("overloaded_error"),
    "rate limited": stream_error("rate_limit_error"),
    "server error": stream_error("api_error"),
    "server timeout": stream_error("timeout_error"),
    "refused": stream_error("invalid_request_error"),
    "unknown error": stream_error("wizardry_error"),
    "error in prose": raw(event("error", "upstream connect error or disconnect/reset")),
    "error as a string": raw(event("error", json.dumps("upstream failed"))),
    "error without a body": raw(event("error", {"type": "error", "error": None})),
    "malformed JSON": StreamFault("malformed_json"),
    "unknown index": StreamFault("bad_index"),
    "negative index": raw(delta(index=-1, delta=_TEXT_DELTA)),
    "index of a wrong type": raw(delta(index="0", delta=_TEXT_DELTA)),
    "no index": raw(delta(delta=_TEXT_DELTA)),
    "no delta": raw(delta(index=0, delta=None)),
    "text of a wrong type": raw(delta(index=0, delta={"type": "text_delta", "text": 3})),
    "lone surrogate": raw(delta(index=0, delta={"type": "text_delta", "text": "\ud83d"})),
    "delta for another kind": raw(
        delta(index=0, delta={"type": "input_json_delta", "partial_json": "{"})
    ),
    "unknown delta": raw(delta(index=0, delta={"type": "hologram_delta", "hologram": "x"})),
    "list as data": raw(event("content_block_delta", [1, 2])),
    "number as data": raw(event("message_delta", 3)),
    "null as data": raw(event("message_delta", None)),
    "nothing in it": raw(event("content_block_delta", {})),
    "unknown event": raw(event("hologram", {"type": "hologram", "x": 1})),
    "duplicate message_start": StreamFault("duplicate_start"),
    "message_start without a message": raw(event("message_start", {"type": "message_start"})),
    "block begun again": raw(
        event(
            "content_block_start",
            {"type": "content_block_start", "index": 0, "content_block": _NEW_BLOCK},
        )
    ),
    "block without content": raw(
        event("content_block_start", {"type": "content_block_start", "index": 9})
    ),
    "stop of an unknown block": raw(
        event("content_block_stop", {"type": "content_block_stop", "index": 7})
    ),
    "early message_stop": raw(event("message_stop", {"type": "message_stop"})),
    "invalid UTF-8": raw(b'event: content_block_delta\ndata: {"x": "\xff\xfe"}\n\n'),
    "web page in between": raw(b"<html><body>502 Bad Gateway</body></html>\n\n"),
    "NUL bytes": raw(b"\0" * 64 + b"\n\n"),
    "half a megabyte": raw(event("content_block_delta", "x" * 500_000)),
}
"""Faults in the middle of a block, which has the index 0 here."""

HARMLESS = frozenset(
    {
        "short stall",
        "unknown event",
        "unknown delta",
        "nothing in it",
        "lone surrogate / text",
        "web page in between",
        "NUL bytes",
    }
)
"""Faults after which the stream can still be read: nothing of the answer is missing."""

DAMAGING = frozenset({"delta for another kind / tool_use"})
"""Faults after which the input of the call is no JSON: it is not run, and the model told so."""

LASTING = frozenset({"refused", *(f"redirect {n}" for n in (301, 302, 303, 307, 308))})
"""Faults that no second try helps against."""


def http_faults(elsewhere: str) -> Mapping[str, Fault]:
    """Faults in place of a stream; redirects point to the URL ``elsewhere``."""
    moved = redirect(f"{elsewhere}/v1/messages")
    message = {"type": "message", "role": "assistant", "content": [], "usage": {}}
    return {
        **{f"redirect {n}": replace(moved, status=n) for n in (301, 302, 303, 307, 308)},
        "rate limited before": rate_limited(0.1),
        "overloaded before": overloaded(),
        "server error before": server_error(),
        "unavailable": unavailable(),
        "request timeout": HttpFault(408, {"error": "slow"}),
        "conflict": HttpFault(409, "[]"),
        "gateway timeout": HttpFault(504, "", content_type="text/plain"),
        "empty answer": empty_answer(),
        "web page": HttpFault(200, "<html>Welcome</html>", content_type="text/html"),
        "JSON instead of a stream": HttpFault(200, message),
        "a stream by another name": HttpFault(
            200, event("ping", {"type": "ping"}).decode(), content_type="application/json"
        ),
        "no content": HttpFault(204),
        "reset before": ConnectionReset(),
        "silence before": HttpFault(200, "", delay=30.0),
    }


@dataclass(frozen=True)
class Case:
    """One fault at one place."""

    name: str
    fault: Fault

    def step(self, command: str) -> Fault:
        """The fault in the answer that calls the shell with a command."""
        if isinstance(self.fault, StreamFault):
            return replace(self.fault, reply=whole(command))
        return self.fault


def at(fault: StreamFault, place: str) -> StreamFault:
    """The fault within the block of a type, which :func:`whole` has at the place's index."""
    index = b'"index": %d' % PLACES.index(place)
    return replace(fault, within=place, raw=fault.raw.replace(b'"index": 0', index))


def cases(elsewhere: str) -> list[Case]:
    """Every fault at every place where it can be."""
    within = [
        Case(f"{name} / {place}", at(fault, place))
        for name, fault in STREAM_FAULTS.items()
        for place in PLACES
    ]
    late = Case("no message_stop", StreamFault("eof", after_events=-1))
    return [*within, late, *(Case(name, f) for name, f in http_faults(elsewhere).items())]
