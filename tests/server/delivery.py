"""Sending a script's step to a client, faults included."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from tests.server.connection import Connection
from tests.server.errors import ApiError
from tests.server.render import Event, RenderedReply, error_event
from tests.server.replies import HttpFault, StreamFault

PING_INTERVAL = 0.05
BROKEN_EVENT = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"de\n\n'
GARBAGE = b"zz: this is neither a chunk nor compressed\r\n\xff\xfe"
ERROR_STATUS = {
    "api_error": 500,
    "invalid_request_error": 400,
    "overloaded_error": 529,
    "rate_limit_error": 429,
}


def send_json(
    connection: Connection, status: int, body: object, headers: Mapping[str, str]
) -> None:
    """Send a JSON response."""
    connection.respond(status, json.dumps(body).encode(), "application/json", headers)


def send_http_fault(connection: Connection, fault: HttpFault, headers: Mapping[str, str]) -> None:
    """Send a scripted HTTP response."""
    connection.wait(fault.delay)
    body = fault.body if isinstance(fault.body, str) else json.dumps(fault.body)
    content = body.encode()
    connection.respond(fault.status, content, fault.content_type, {**headers, **fault.headers})


def send_stream(
    connection: Connection,
    reply: RenderedReply,
    delay: float,
    fault: StreamFault | None,
    headers: Mapping[str, str],
) -> None:
    """Send a reply as an event stream, with a fault where it has one."""
    events = list(reply.events())
    gzip = fault is not None and fault.kind.startswith("gzip")
    connection.start_stream({**headers, "content-encoding": "gzip"} if gzip else headers)
    if gzip:
        connection.compress()
    broken_at = -1 if fault is None else _position(fault, events)
    for number, event in enumerate([*events, None]):
        if fault is not None and number == broken_at and not _break(connection, fault, events[0]):
            return
        if event is None:
            connection.end_stream()
            return
        if event.name == "content_block_delta":
            connection.wait(delay)
        connection.send_event(event)


def _position(fault: StreamFault, events: Sequence[Event]) -> int:
    """How many events are sent before the fault."""
    position = fault.after_events
    if not fault.within:
        return position % len(events) if position < 0 else min(position, len(events))
    kinds = [event.fields.get("content_block", {}).get("type") for event in events]
    deltas = [
        number
        for number, event in enumerate(events)
        if event.name == "content_block_delta" and number > kinds.index(fault.within)
    ]
    return deltas[1] + 1


def send_message(
    connection: Connection,
    reply: RenderedReply,
    fault: StreamFault | None,
    headers: Mapping[str, str],
) -> int:
    """Send a reply as one JSON message; the status that was answered.

    A stream's fault takes the form that it has without a stream: an HTTP error,
    a body that ends early, or one that is not JSON.
    """
    kind = fault.kind if fault is not None else None
    body = json.dumps(reply.message()).encode()
    if fault is not None and kind == "error":
        error = ApiError(ERROR_STATUS.get(fault.error_type, 500), fault.error_type, fault.message)
        send_json(connection, error.status, error.body(headers["request-id"]), headers)
        return error.status
    if fault is not None and kind == "stall":
        connection.wait(fault.seconds)
    if kind in ("malformed_json", "eof"):
        body = body[: len(body) // 2]
    if kind in ("reset", "close"):
        connection.start_stream({**headers, "content-type": "application/json"})
        connection.send_raw(body[: len(body) // 2])
        _break_off(connection, kind)
        return 200
    connection.respond(200, body, "application/json", headers)
    return 200


def _break(connection: Connection, fault: StreamFault, opening: Event) -> bool:
    """Do what a fault does to a stream; whether the stream goes on after it."""
    going_on: dict[str, Callable[[], None]] = {
        "stall": lambda: _stall(connection, fault),
        "malformed_json": lambda: connection.send_raw(BROKEN_EVENT),
        "bad_index": lambda: connection.send_event(_stray_delta()),
        "duplicate_start": lambda: connection.send_event(opening),
        "raw": lambda: connection.send_raw(fault.raw),
    }
    if fault.kind in going_on:
        going_on[fault.kind]()
        return True
    if fault.kind == "error":
        connection.send_event(error_event(fault.error_type, fault.message))
    if fault.kind in ("raw_end", "gzip_garbage"):
        connection.send_raw(fault.raw or GARBAGE, plain=True)
    if fault.kind == "bad_chunk":
        connection.send_unframed(GARBAGE)
    if fault.kind in ("error", "eof", "gzip_cut", "gzip_garbage"):
        connection.end_stream()
    else:
        _break_off(connection, fault.kind)
    return False


def _break_off(connection: Connection, kind: str | None) -> None:
    if kind == "reset":
        connection.reset()
    else:
        connection.close()


def _stall(connection: Connection, fault: StreamFault) -> None:
    remaining = fault.seconds
    while fault.pings and remaining > PING_INTERVAL:
        connection.wait(PING_INTERVAL)
        connection.send_event(Event("ping", {}))
        remaining -= PING_INTERVAL
    connection.wait(remaining)


def _stray_delta() -> Event:
    delta = {"type": "text_delta", "text": "stray"}
    return Event("content_block_delta", {"index": 99, "delta": delta})
