"""The record of every request that reached the server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tests.server.wire import JsonObject

SECRET_HEADERS = frozenset({"authorization", "x-api-key"})


@dataclass(frozen=True)
class RecordedRequest:
    """A request and how it was answered.

    ``status`` is 0 while there is no answer, and stays 0 when the connection
    was reset instead. ``usage`` is what a successful answer reports. ``started``
    is :func:`time.monotonic` at its arrival. ``aborted``: the client hung up
    before the answer was whole. The API key is not among the ``headers``, whose
    names are in lower case.
    """

    number: int
    method: str
    path: str
    headers: Mapping[str, str]
    raw: bytes
    started: float
    body: JsonObject = field(default_factory=dict)
    prompt_tokens: int = 0
    status: int = 0
    error: str = ""
    usage: Mapping[str, Any] = field(default_factory=dict)
    consecutive_roles: bool = False
    aborted: bool = False

    @property
    def messages(self) -> list[JsonObject]:
        """The request's messages."""
        messages: list[JsonObject] = self.body.get("messages", [])
        return messages


class RequestLog:
    """Requests in the order of their arrival; safe to use from any thread."""

    def __init__(self) -> None:
        self._requests: list[RecordedRequest] = []
        self._changed = threading.Condition()

    def add(
        self, method: str, path: str, headers: Mapping[str, str], raw: bytes, started: float
    ) -> RecordedRequest:
        """Record an arrival."""
        public = {
            name.lower(): value
            for name, value in headers.items()
            if name.lower() not in SECRET_HEADERS
        }
        with self._changed:
            number = len(self._requests)
            request = RecordedRequest(number, method, path, public, raw, started)
            self._requests.append(request)
            self._changed.notify_all()
        return request

    def update(self, number: int, **changes: Any) -> None:
        """Replace fields of a recorded request."""
        with self._changed:
            self._requests[number] = replace(self._requests[number], **changes)
            self._changed.notify_all()

    def snapshot(self) -> list[RecordedRequest]:
        """The requests so far."""
        with self._changed:
            return list(self._requests)

    def wait_for(
        self, condition: Callable[[list[RecordedRequest]], bool], timeout: float
    ) -> list[RecordedRequest]:
        """The requests as soon as they fulfil a condition.

        Raises :class:`TimeoutError` when they do not within ``timeout`` seconds.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: condition(self._requests), timeout):
                raise TimeoutError(f"no such requests within {timeout:g} s: {self._requests}")
            return list(self._requests)
