"""Work in a thread that stops when its call is cancelled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


class StoppedError(Exception):
    """The work was cancelled. It ends the thread and reaches nobody."""


class Stop:
    """Tells work in a thread that nobody waits for it any more."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        """Ask the work to stop."""
        self._event.set()

    def check(self) -> None:
        """Raise :class:`StoppedError` when the work should stop. Call it often."""
        if self._event.is_set():
            raise StoppedError


async def in_thread(work: Callable[[Stop], Result]) -> Result:
    """Run ``work`` off the event loop. When cancelled, the work is told to stop."""
    stop = Stop()
    try:
        return await asyncio.to_thread(work, stop)
    finally:
        stop.set()
