"""What the server answers: replies, and faults in their place.

A script is made of these values. A :class:`Reply` is a whole answer of the
model; the other kinds are ways in which an answer fails.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

StreamFaultKind: TypeAlias = Literal[
    "bad_chunk",
    "bad_index",
    "close",
    "duplicate_start",
    "eof",
    "error",
    "gzip_cut",
    "gzip_garbage",
    "malformed_json",
    "raw",
    "raw_end",
    "reset",
    "stall",
]


@dataclass(frozen=True)
class ToolUse:
    """A call of a tool.

    ``input`` is any JSON value, also one that is no object. ``raw_json`` is
    streamed instead of it, so that it can be cut off or broken. An empty ``id``
    becomes a new one.
    """

    name: str
    input: object = field(default_factory=dict)
    id: str = ""
    raw_json: str | None = None


@dataclass(frozen=True)
class Reply:
    """An answer of the model: thinking, then text, then tool calls, then ``blocks``.

    ``blocks`` are content blocks as they are, of any type and in any order;
    thinking among them is signed by the server unless it has a signature.
    ``stop_reason`` is ``tool_use`` or ``end_turn`` unless given. An answer that
    exceeds the request's ``max_tokens`` is cut off there. ``usage`` overrides
    fields of the reported usage. ``delay`` is the pause before each delta in
    seconds, ``first_delay`` the one before the response begins; ``chunk_size``
    the characters of a delta.
    """

    text: str = ""
    thinking: str = ""
    tool_uses: Sequence[ToolUse] = ()
    blocks: Sequence[Mapping[str, Any]] = ()
    stop_reason: str | None = None
    usage: Mapping[str, int] = field(default_factory=dict)
    delay: float = 0.0
    first_delay: float = 0.0
    chunk_size: int = 24


@dataclass(frozen=True)
class HttpFault:
    """Any HTTP response instead of an answer. A mapping is sent as JSON."""

    status: int
    body: str | Mapping[str, Any] = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    delay: float = 0.0


@dataclass(frozen=True)
class ConnectionReset:
    """The connection is reset before any response, after ``delay`` seconds."""

    delay: float = 0.0


@dataclass(frozen=True)
class StreamFault:
    """A reply whose stream goes wrong after ``after_events`` events.

    A negative number counts from the end: -1 is before ``message_stop``. With
    ``within``, it goes wrong after the second delta of the first block of that type.

    - ``reset``: the connection is reset
    - ``close``: the connection is closed in the middle of the response
    - ``eof``: the response ends properly, but too early
    - ``error``: an error event, then the end
    - ``stall``: nothing comes for ``seconds`` (with ``pings``: only pings), then the rest
    - ``malformed_json``: an event that is not JSON, then the rest
    - ``bad_index``: a delta for a block that does not exist, then the rest
    - ``duplicate_start``: another ``message_start``, then the rest
    - ``raw``: the bytes of ``raw``, then the rest
    - ``raw_end``: the bytes of ``raw``, then the connection is closed
    - ``bad_chunk``: bytes that are no chunk, then the connection is closed
    - ``gzip_cut``, ``gzip_garbage``: the stream is compressed, and ends too early or
      goes on with what is no gzip
    """

    kind: StreamFaultKind
    reply: Reply = field(default_factory=lambda: Reply(text="This answer is not going to end."))
    after_events: int = 4
    seconds: float = 60.0
    pings: bool = False
    error_type: str = "overloaded_error"
    message: str = "Overloaded"
    within: str = ""
    raw: bytes = b""


Fault: TypeAlias = HttpFault | ConnectionReset | StreamFault
Step: TypeAlias = Reply | Fault


def rate_limited(retry_after: float | None = None) -> HttpFault:
    """A 429, with ``retry-after`` in seconds if given."""
    message = "This request would exceed your organization's rate limit."
    return _api_fault(429, "rate_limit_error", message, retry_after)


def overloaded(retry_after: float | None = None) -> HttpFault:
    """A 529, with ``retry-after`` in seconds if given."""
    return _api_fault(529, "overloaded_error", "Overloaded", retry_after)


def server_error() -> HttpFault:
    """A 500 of the API."""
    return _api_fault(500, "api_error", "Internal server error", None)


def unavailable() -> HttpFault:
    """A proxy's 503 in HTML."""
    page = "<!doctype html><html><head><title>503</title></head><body>Unavailable</body></html>"
    return HttpFault(503, page, content_type="text/html")


def redirect(location: str) -> HttpFault:
    """A 307, which asks for the same body to be posted elsewhere."""
    return HttpFault(307, headers={"location": location})


def empty_answer() -> HttpFault:
    """A 200 event stream without a single event."""
    return HttpFault(200, content_type="text/event-stream; charset=utf-8")


def cut_off_tool_call(name: str, raw_json: str, text: str = "") -> Reply:
    """A tool call whose input ends too early because the output limit was reached."""
    return Reply(text, tool_uses=(ToolUse(name, raw_json=raw_json),), stop_reason="max_tokens")


def with_delay(step: Step, seconds: float) -> Step:
    """The step with its deltas ``seconds`` apart, if it is a reply."""
    return replace(step, delay=seconds) if isinstance(step, Reply) else step


def _api_fault(status: int, kind: str, message: str, retry_after: float | None) -> HttpFault:
    headers = {} if retry_after is None else {"retry-after": f"{retry_after:g}"}
    body = {"type": "error", "error": {"type": kind, "message": message}}
    return HttpFault(status, body, headers)
