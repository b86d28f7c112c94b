"""Waiting for an answer, in sight: how long nothing has come, and when to give up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass
from typing import TypeVar

from agent.errors import StreamBrokenError
from agent.providers.base import QuietPart

POLL_SECONDS = 1.0

Item = TypeVar("Item")


@dataclass(frozen=True)
class Patience:
    """How long a server may be silent, in seconds.

    ``no_bytes_seconds`` without a single byte, pings included; ``no_content_seconds``
    with nothing but pings.
    """

    no_bytes_seconds: float = 60.0
    no_content_seconds: float = 300.0


class Watch:
    """Watches one answer come. ``received`` tells how many bytes of it have come so far.

    Silence without a byte is ended by the transport's own timeout, which knows whether
    the request is still being sent; here it is only told. Silence with pings is ended here.
    """

    def __init__(self, patience: Patience, clock: Callable[[], float] = time.monotonic) -> None:
        self.received: Callable[[], int] = lambda: 0
        self._patience = patience
        self._clock = clock
        self._content_at = self._bytes_at = clock()
        self._bytes = 0

    async def items(self, source: AsyncIterator[Item]) -> AsyncGenerator[Item | QuietPart, None]:
        """The items of ``source``, and about every second without one a :class:`QuietPart`.

        :raises StreamBrokenError: there was none for ``no_content_seconds``.
        """
        while True:
            waiting = asyncio.create_task(_next(source))
            try:
                while not waiting.done():
                    left = self._content_at + self._patience.no_content_seconds - self._clock()
                    await asyncio.wait({waiting}, timeout=min(max(left, 0.0), POLL_SECONDS))
                    if not waiting.done():
                        yield self._quiet()
            finally:
                waiting.cancel()
                await asyncio.wait({waiting})
            found = waiting.result()
            if not found:
                return
            self._content_at = self._bytes_at = self._clock()
            self._bytes = self.received()
            yield found[0]

    def _quiet(self) -> QuietPart:
        now, patience = self._clock(), self._patience
        seconds = now - self._content_at
        if seconds >= patience.no_content_seconds:
            raise StreamBrokenError(
                f"the server sent no content for {patience.no_content_seconds:g} s"
            )
        if (received := self.received()) > self._bytes:
            self._bytes, self._bytes_at = received, now
        left = patience.no_content_seconds - seconds
        silent = now - self._bytes_at
        alive = self._bytes_at > self._content_at and silent < patience.no_bytes_seconds / 2
        if not alive:
            left = min(left, max(patience.no_bytes_seconds - silent, 0.0))
        return QuietPart(seconds, left, alive)


async def _next(source: AsyncIterator[Item]) -> tuple[Item, ...]:
    """The next item alone, or nothing at the end."""
    try:
        return (await anext(source),)
    except StopAsyncIteration:
        return ()
