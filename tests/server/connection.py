"""One client's connection: responses, streams, and ways to break them off."""

from __future__ import annotations

import select
import socket
import struct
import time
import zlib
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler

from tests.server.render import Event


class ClientGoneError(Exception):
    """The client hung up before the answer was whole, or the server is stopping."""


class Connection:
    """Writes a response for a request handler.

    Everything is sent at once. Methods raise :class:`ClientGoneError` when the
    client has hung up.
    """

    def __init__(self, handler: BaseHTTPRequestHandler) -> None:
        self._handler = handler
        self._socket: socket.socket = handler.connection
        self._compress: Callable[[bytes], bytes] | None = None

    def respond(
        self, status: int, body: bytes, content_type: str, headers: Mapping[str, str]
    ) -> None:
        """Send a whole response."""
        self._head(status, {"content-type": content_type, **headers}, len(body))
        self._write(body)

    def start_stream(self, headers: Mapping[str, str]) -> None:
        """Begin a 200 event stream, sent in chunks."""
        fixed = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
        self._head(200, {**fixed, **headers, "transfer-encoding": "chunked"}, None)

    def send_event(self, event: Event) -> None:
        """Send one event of a stream."""
        self.send_raw(event.encoded())

    def compress(self) -> None:
        """Compress what is sent of the stream from here on, each piece by itself."""
        packer = zlib.compressobj(wbits=31)
        self._compress = lambda data: packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH)

    def send_raw(self, data: bytes, *, plain: bool = False) -> None:
        """Send any bytes as a piece of a stream; ``plain``: also where it is compressed."""
        self.wait(0)
        if self._compress is not None and not plain:
            data = self._compress(data)
        self._write(b"%x\r\n%s\r\n" % (len(data), data))

    def send_unframed(self, data: bytes) -> None:
        """Send bytes where the next chunk of a stream is expected."""
        self._write(data)

    def end_stream(self) -> None:
        """End a stream properly."""
        self._write(b"0\r\n\r\n")

    def wait(self, seconds: float) -> None:
        """Sleep, but notice at once when the client hangs up."""
        deadline = time.monotonic() + seconds
        while True:
            remaining = deadline - time.monotonic()
            readable, _, _ = select.select([self._socket], [], [], max(0.0, remaining))
            if not readable:
                return
            if not self._peek():
                raise ClientGoneError
            if remaining <= 0:
                return
            # A pipelined request is waiting: nothing to do but to sleep in small pieces.
            time.sleep(min(remaining, 0.01))

    def reset(self) -> None:
        """Break the connection off with a TCP reset."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._handler.rfile.close()
        self._socket.close()
        self._handler.close_connection = True

    def close(self) -> None:
        """Close the connection, whatever was sent so far."""
        self._handler.close_connection = True

    def _peek(self) -> bytes:
        try:
            return self._socket.recv(1, socket.MSG_PEEK)
        except OSError as error:
            raise ClientGoneError from error

    def _head(self, status: int, headers: Mapping[str, str], length: int | None) -> None:
        self._handler.send_response(status)
        for name, value in headers.items():
            self._handler.send_header(name, value)
        if length is not None:
            self._handler.send_header("content-length", str(length))
        try:
            self._handler.end_headers()
        except OSError as error:
            raise ClientGoneError from error

    def _write(self, data: bytes) -> None:
        try:
            self._handler.wfile.write(data)
        except OSError as error:
            raise ClientGoneError from error
