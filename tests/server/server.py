"""A strict Messages API server on loopback.

::

    with MessagesServer(window=12_000, script=[Reply("Hello.")]) as server:
        client = anthropic.Anthropic(base_url=server.url, api_key="any", max_retries=0)
        ...
        server.assert_done()
"""

from __future__ import annotations

import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from tests.server.connection import ClientGoneError, Connection
from tests.server.log import RecordedRequest
from tests.server.service import Exchange, Service
from tests.server.settings import ServerSettings

POLL_SECONDS = 0.05
JOIN_SECONDS = 5.0


@dataclass(kw_only=True)
class MessagesServer(ServerSettings):
    """A server with a script. Use it as a context manager, or ``start`` and ``stop`` it."""

    service: Service = field(init=False, repr=False)
    _http: _HttpServer | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        self.service = Service(self)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin to listen; ``port`` is then the real one."""
        self._http = _HttpServer((self.host, self.port), self.service)
        self.port = self._http.server_address[1]
        self._http.start()

    def stop(self) -> None:
        """Break all connections off and release the port."""
        if self._http is not None:
            self._http.stop()
            self._http = None

    @property
    def url(self) -> str:
        """The base URL for a client."""
        return f"http://{self.host}:{self.port}"

    @property
    def requests(self) -> list[RecordedRequest]:
        """All requests so far, in the order of their arrival."""
        return self.service.log.snapshot()

    @property
    def messages_requests(self) -> list[RecordedRequest]:
        """The requests to ``/v1/messages``."""
        return [
            request for request in self.requests if request.path.split("?")[0] == "/v1/messages"
        ]

    def wait_for(
        self, condition: Callable[[list[RecordedRequest]], bool], timeout: float = 5.0
    ) -> list[RecordedRequest]:
        """The requests as soon as they fulfil a condition; :class:`TimeoutError` otherwise."""
        return self.service.log.wait_for(condition, timeout)

    def clear_cache(self) -> None:
        """Let every prompt cache entry expire."""
        self.service.cache.clear()

    def assert_done(self) -> None:
        """Fail when the script was exhausted or not used up, or the server had a fault."""
        failures = self.service.player.failures(self.script)
        if failures:
            raise AssertionError("; ".join(failures))


class _HttpServer(ThreadingHTTPServer):
    """The listener. It knows its open connections, so that it can stop at once."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], service: Service) -> None:
        super().__init__(address, _Handler)
        self.service = service
        self.stopping = False
        self._open: dict[socket.socket, threading.Thread] = {}
        self._lock = threading.Lock()
        self._loop = threading.Thread(
            target=self.serve_forever, args=(POLL_SECONDS,), name="messages-server", daemon=True
        )

    def start(self) -> None:
        self._loop.start()

    def stop(self) -> None:
        self.stopping = True
        self.shutdown()
        self._loop.join(JOIN_SECONDS)
        self.server_close()
        with self._lock:
            connections = dict(self._open)
        for connection in connections:
            # The client may have closed it in this very moment.
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in connections.values():
            thread.join(JOIN_SECONDS)

    def process_request(self, request: Any, client_address: Any) -> None:
        thread = threading.Thread(
            target=self.process_request_thread, args=(request, client_address), daemon=True
        )
        with self._lock:
            self._open[request] = thread
        thread.start()

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        with self._lock:
            self._open.pop(request, None)

    def handle_error(self, _request: Any, _client_address: Any) -> None:
        error = sys.exception()
        if not isinstance(error, ConnectionError):
            self.service.player.fail(f"{type(error).__name__}: {error}")


class _Handler(BaseHTTPRequestHandler):
    """One connection of a client, which may carry many requests."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _HttpServer

    def answer(self) -> None:
        service = self.server.service
        raw = self.rfile.read(int(self.headers.get("content-length", "0")))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = service.log.add(self.command, self.path, headers, raw, time.monotonic())
        request_id = f"req_{secrets.token_hex(12)}"
        try:
            service.handle(Exchange(request, Connection(self), headers, request_id))
        except ClientGoneError:
            self.close_connection = True
            service.log.update(request.number, aborted=not self.server.stopping)

    def log_message(self, *_arguments: object) -> None:
        """Requests are recorded, not printed."""


for _method in ("GET", "POST"):
    # BaseHTTPRequestHandler looks a method's function up by this name.
    setattr(_Handler, f"do_{_method}", _Handler.answer)
