"""When to send again, and how long to wait before it (pure)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from random import SystemRandom

from agent.errors import ProviderBusyError, ProviderError, StreamBrokenError

_random = SystemRandom().random

LONGEST_WAIT = 60.0
"""Seconds between two tries at most, whatever a server asks for."""

MOST_BROKEN_STREAMS = 4
"""Tries of one request that may end in the middle of an answer: each of them costs tokens."""


@dataclass
class Retries:
    """The tries of one request.

    ``limit_seconds`` bounds the time from the first failure to the last try, waits and
    tries together; ``None`` never ends.
    """

    limit_seconds: float | None
    clock: Callable[[], float] = time.monotonic
    attempt: int = 0
    broken: int = 0
    failed_at: float | None = None

    def wait(self, error: ProviderError) -> float | None:
        """Seconds to wait before the next try; ``None`` when there shall be none."""
        wish: float | None = None
        if isinstance(error, StreamBrokenError):
            self.broken += 1
            if self.broken >= MOST_BROKEN_STREAMS:
                return None
        elif isinstance(error, ProviderBusyError):
            wish = error.retry_after
        else:
            return None
        now = self.clock()
        if self.failed_at is None:
            self.failed_at = now
        seconds = _pause(self.attempt, wish)
        if self.limit_seconds is not None and now - self.failed_at + seconds > self.limit_seconds:
            return None
        self.attempt += 1
        return seconds


def _pause(attempt: int, wish: float | None) -> float:
    """How long to wait: the server's wish or a bit more; without one, twice as long each time.

    A server that wishes for no wait again and again is asked at growing intervals, too.
    """
    backoff = min(2.0 ** min(attempt, 13), LONGEST_WAIT) * (1 - _random() / 4)
    if wish is None:
        return backoff
    return min(max(wish * (1 + _random() / 4), 2.0 ** min(attempt, 13) / 100), LONGEST_WAIT)
