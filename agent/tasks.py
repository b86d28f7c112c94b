"""Work beside the event loop's own: in a task that tells things, or in a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine
from concurrent.futures import Future
from contextlib import ExitStack
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


async def in_daemon(work: Callable[[], Result]) -> Result:
    """Run work in a thread of its own, which the program's end does not wait for.

    For work that leaves nothing half done, such as an import.
    """
    outcome: Future[Result] = Future()
    outcome.set_running_or_notify_cancel()

    def settle(_kind: object, error: BaseException | None, _trace: object) -> bool:
        if error is not None:
            outcome.set_exception(error)
        return True

    def run() -> None:
        with ExitStack() as stack:
            stack.push(settle)
            outcome.set_result(work())

    threading.Thread(target=run, daemon=True).start()
    return await asyncio.wrap_future(outcome)
