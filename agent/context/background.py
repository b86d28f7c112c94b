"""A summary prepared while the user reads and types.

It is swapped in at the threshold if what it covers is still there and enough; else it is
dropped. Until then nothing of the conversation has changed.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from agent.context.plan import FoldPlan
from agent.context.summary import Summary
from agent.messages import Usage
from agent.transcript.turns import Turn

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Prepared:
    """A summary of these turns, which were the oldest of the view when it was asked for."""

    turns: tuple[Turn, ...]
    summary: Summary

    def covers(self, folding: FoldPlan) -> FoldPlan | None:
        """The fold that this summary serves, if it is a part of the one that is due."""
        count = len(self.turns)
        if count > len(folding.fold) or folding.fold[:count] != self.turns:
            return None
        return FoldPlan(self.turns, folding.fold[count:] + folding.keep)


class Background:
    """At most one summary in preparation, or ready.

    ``wasted`` is what summaries have cost that were ready and not used.
    """

    def __init__(self) -> None:
        self.wasted = Usage()
        self._task: asyncio.Task[Prepared] | None = None

    @property
    def idle(self) -> bool:
        """Whether nothing is in preparation or ready."""
        return self._task is None

    def start(self, task: asyncio.Task[Prepared]) -> None:
        """Remember a preparation that has been started."""
        self._task = task

    async def take(self, folding: FoldPlan) -> tuple[FoldPlan, Summary] | None:
        """The prepared summary and the fold it serves; in any case, nothing is left.

        One that is still being written is waited for: asking anew would take longer.
        Cancelling the wait cancels it.
        """
        if self._task is not None:
            await asyncio.wait([self._task])
        prepared = self._finished()
        if prepared is None:
            return None
        served = prepared.covers(folding)
        if served is None:
            self.wasted += prepared.summary.usage
            return None
        return served, prepared.summary

    def drop(self) -> None:
        """Stop preparing, and forget what is ready."""
        prepared = self._finished()
        if prepared is not None:
            self.wasted += prepared.summary.usage

    def _finished(self) -> Prepared | None:
        """What is ready; what is not is cancelled."""
        task, self._task = self._task, None
        if task is None:
            return None
        if not task.done():
            task.cancel()
            return None
        if task.cancelled():
            return None
        error = task.exception()
        if error is not None:
            # The summary is asked for again when it is needed, and a failure told then.
            logger.debug("a prepared summary failed: %s", error)
            return None
        return task.result()
