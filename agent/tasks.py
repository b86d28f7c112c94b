"""Work in a task of its own that tells things while it goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Telling(Generic[Item, Result]):
    """Starts work, yields what it tells, and has its result afterwards.

    ``work`` is given the function to tell with. When :meth:`items` is left, at its end
    or early, the work is over: finished, failed or cancelled.
    """

    def __init__(
        self, work: Callable[[Callable[[Item], None]], Coroutine[Any, Any, Result]]
    ) -> None:
        self._told: asyncio.Queue[Item] = asyncio.Queue()
        self._task = asyncio.create_task(work(self._told.put_nowait))

    async def items(self) -> AsyncGenerator[Item, None]:
        """What is told, until the work is over and all is taken."""
        try:
            while not (self._task.done() and self._told.empty()):
                getting = asyncio.create_task(self._told.get())
                try:
                    await asyncio.wait([getting, self._task], return_when=asyncio.FIRST_COMPLETED)
                    if getting.done():
                        yield getting.result()
                finally:
                    getting.cancel()
        finally:
            self._task.cancel()
            await asyncio.wait([self._task])

    @property
    def result(self) -> Result:
        """What the work came to; raises what it raised."""
        return self._task.result()
