"""What a session has cost: requests, tokens, and dollars where prices are known."""

from __future__ import annotations

from dataclasses import replace

from agent.context.engine import ContextEngine
from agent.events import CompactionFailed, CompactionFinished, Event, SessionTotals
from agent.loop import Turn
from agent.messages import Usage
from agent.models import Models


class Spending:
    """The account of one session since it was started or resumed here."""

    def __init__(self, models: Models, engine: ContextEngine) -> None:
        self._models = models
        self._engine = engine
        self._totals = SessionTotals(0, Usage(), None)

    def totals(self) -> SessionTotals:
        """Everything so far, summaries that were prepared and never used among it."""
        wasted = self._engine.background.wasted
        if wasted.prompt_tokens:
            self._engine.background.wasted = Usage()
            self._count(1, wasted, self._engine.summariser.model)
        return self._totals

    def turn(self, turn: Turn) -> None:
        """Count a turn and the summaries that were written in it."""
        self._count(turn.requests, turn.usage, self._engine.view.model)
        self._count(turn.summaries, turn.summary_usage, self._engine.summariser.model)

    def compaction(self, event: Event) -> Event:
        """Count what a manual compaction has cost, and say it where prices are known."""
        model = self._engine.summariser.model
        if isinstance(event, CompactionFinished):
            cost = self._count(1, event.report.usage, model)
            return replace(event, report=replace(event.report, cost=cost))
        if isinstance(event, CompactionFailed):
            self._count(1, event.usage, model)
        return event

    def _count(self, requests: int, usage: Usage, model: str) -> float | None:
        """Add to the totals; what it has cost, where prices are known."""
        before = self._totals
        spent = self._models.cost(model, usage)
        cost = before.cost if spent is None else (before.cost or 0.0) + spent
        self._totals = SessionTotals(before.requests + requests, before.usage + usage, cost)
        return spent
