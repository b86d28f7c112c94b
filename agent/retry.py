"""When to send again, and how long to wait before it (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from random import SystemRandom

from agent.errors import ProviderBusyError, ProviderError, StreamBrokenError

_random = SystemRandom().random

LONGEST_WAIT = 60.0
"""Seconds between two tries at most, whatever a server asks for."""

MOST_BROKEN_STREAMS = 4
"""Tries in a row that may end in the middle of an answer."""


@dataclass
class Retries:
    """The tries of one request. ``limit_seconds`` bounds all its waits; ``None`` never ends.

    ``pause`` and ``reason`` are the last wait in seconds, and why.
    """

    limit_seconds: float | None
    attempt: int = 0
    broken: int = 0
    waited: float = 0.0
    pause: float = 0.0
    reason: str = ""

    def wait(self, error: ProviderError) -> float | None:
        """Seconds to wait before the next try; ``None`` when there shall be none."""
        if isinstance(error, StreamBrokenError):
            self.broken += 1
            if self.broken >= MOST_BROKEN_STREAMS:
                return None
        elif not isinstance(error, ProviderBusyError):
            return None
        wish = error.retry_after if isinstance(error, ProviderBusyError) else None
        seconds = min(wish if wish is not None else 2.0 ** min(self.attempt, 6), LONGEST_WAIT)
        seconds = min(seconds * (1 + _random() / 4), LONGEST_WAIT)
        if self.limit_seconds is not None and self.waited + seconds > self.limit_seconds:
            return None
        self.attempt += 1
        self.waited += seconds
        self.pause, self.reason = seconds, str(error)
        return seconds
