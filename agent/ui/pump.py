"""Moves events from a session to a printer, and lets a person stop what runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from agent.events import EventStream
from agent.ui.render import EventPrinter

TICK_SECONDS = 0.08

logger = logging.getLogger(__name__)

Result = TypeVar("Result")


async def pump(events: EventStream, printer: EventPrinter) -> None:
    """Print every event, and keep the screen moving in between.

    Cancelling it reaches the stream, which is closed before this returns.
    """
    with ticking(printer):
        async with aclosing(events):
            async for event in events:
                printer.handle(event)
    printer.finish()


@contextmanager
def ticking(printer: EventPrinter) -> Iterator[None]:
    """Keep the screen moving until the block is left."""
    ticker = asyncio.create_task(_tick(printer))
    try:
        yield
    finally:
        ticker.cancel()


async def _tick(printer: EventPrinter) -> None:
    while True:
        await asyncio.sleep(TICK_SECONDS)
        printer.tick()


@dataclass(frozen=True)
class Outcome(Generic[Result]):
    """How a piece of work ended: with a result, with an error, or interrupted."""

    result: Result | None = None
    error: BaseException | None = None
    interrupted: bool = False


class Foreground:
    """Runs one piece of work at a time, apart from the one who waits for it.

    No failure of the work passes through, so that a screen outlives whatever it shows.
    """

    def __init__(self) -> None:
        self._task: asyncio.Task[Any] | None = None

    def interrupt(self) -> None:
        """Cancel what runs; nothing happens when nothing does."""
        if self._task is not None:
            self._task.cancel()

    async def run(self, work: Coroutine[Any, Any, Result]) -> Outcome[Result]:
        """Run the work to its end. If the caller is cancelled, so is the work, first."""
        task = self._task = asyncio.create_task(work)
        try:
            await asyncio.wait({task})
        finally:
            self._task = None
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
        if task.cancelled():
            return Outcome(interrupted=True)
        error = task.exception()
        if error is not None:
            logger.debug("work on the screen failed", exc_info=error)
            return Outcome(error=error)
        return Outcome(task.result())
