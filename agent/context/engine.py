"""What the context engine works with: one session's transcript, model, budget and meter."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from agent.context.background import Background
from agent.context.breaker import Breaker
from agent.context.budget import Budget, lower_window
from agent.context.summary import Summariser
from agent.context.tokens import Meter
from agent.context.validity import history_fault
from agent.errors import ProviderError
from agent.events import CompactionReport, ContextSize
from agent.providers.base import Provider, Request
from agent.transcript.records import CompactionRecord
from agent.transcript.store import Transcript
from agent.transcript.view import View, apply

MOST_FAILED_COUNTS = 2

COUNT_BAND = 0.15
"""The server is asked for a size when the estimate is within this part of the budget."""


@dataclass
class ContextEngine:
    """The parts that fitting a conversation needs, and what a session has learnt.

    ``summary_model`` writes the summaries, within ``summary_budget``; by default the
    conversation's own model does. ``counts`` turns false when the server turns out to
    have no token counting, or fails to count; ``output_cap`` bounds the answer of the
    present request; ``shown_window`` is a window that a refusal has told, or 0;
    ``rescued_at`` and ``rescues`` bound the rescues after a refusal;
    ``unfoldable_told`` is true once it was said that the budget cannot be kept.
    """

    provider: Provider
    transcript: Transcript
    budget: Budget
    keep_recent_turns: int
    rescue_interval_seconds: float = 60.0
    max_rescues: int = 5
    meter: Meter = field(default_factory=Meter)
    clock: Callable[[], float] = time.monotonic
    summary_model: str | None = None
    summary_budget: Budget | None = None
    breaker: Breaker = field(default_factory=Breaker)
    background: Background = field(default_factory=Background)
    counts: bool = True
    failed_counts: int = 0
    output_cap: int | None = None
    shown_window: int = 0
    rescues: int = 0
    rescued_at: float | None = None
    unfoldable_told: bool = False
    _known: tuple[View, int] | None = None

    @property
    def summariser(self) -> Summariser:
        """The model that writes summaries."""
        if self.summary_model is None:
            return Summariser(self.provider, self.view.model, self.budget)
        return Summariser(self.provider, self.summary_model, self.summary_budget or self.budget)

    @property
    def view(self) -> View:
        """The conversation as it is now."""
        return self.transcript.view

    def size(self) -> ContextSize:
        """How full the window is; asks nobody."""
        if self._known is not None and self._known[0] is self.view:
            return ContextSize(self._known[1], self.budget.tokens, self.budget.window, exact=True)
        tokens = self.meter.size(self.view)
        return ContextSize(tokens, self.budget.tokens, self.budget.window, exact=False)

    async def measure(self) -> ContextSize:
        """How full the window is; near the budget the server is asked, where it can be."""
        size = self.size()
        if abs(size.tokens - size.budget) <= COUNT_BAND * size.budget:
            await self.ask_size()
        return self.size()

    async def ask_size(self) -> None:
        """Let the server count the view, if it can and has not yet."""
        if self.size().exact or not self.counts:
            return
        try:
            counted = await self.provider.count(self.request(1))
        except ProviderError:
            # The estimate serves; if the server is down, the request itself will show it.
            self.failed_counts += 1
            self.counts = self.failed_counts < MOST_FAILED_COUNTS
            return
        self.failed_counts = 0
        if counted is None:
            self.counts = False
        else:
            self.know_size(counted)

    def know_size(self, tokens: int) -> None:
        """A server has said how large the present view is."""
        self._known = (self.view, tokens)

    def max_tokens(self) -> int:
        """How long the answer to the present view may be, in tokens."""
        size, anchor = self.size(), self.view.anchor
        certain = size.tokens if size.exact else anchor.tokens + anchor.output if anchor else 0
        room = self.budget.max_tokens(size.tokens, max(size.tokens - certain, 0))
        return room if self.output_cap is None else max(min(room, self.output_cap), 1)

    def learn_window(self, window: int) -> None:
        """A refusal has told how large the window is."""
        self.shown_window = window
        self.budget = lower_window(self.budget, window)

    def request(self, max_tokens: int) -> Request:
        """The view as a request."""
        view = self.view
        return Request(view.model, view.system, view.tools, view.messages, max_tokens)

    def adopt(self, draft: CompactionRecord, before: int, started: float) -> CompactionReport | str:
        """Record a compaction if it helps; else say in one line why it does not.

        ``before`` is the view's size in tokens, ``started`` the clock at the start.
        Nothing changes unless the new view is smaller and valid.

        :raises TranscriptError: the record could not be saved; nothing has changed.
        """
        candidate = apply(self.view, draft)
        after = self.meter.whole(candidate)
        if after >= before:
            return f"it would not get smaller (about {before} -> {after} tokens)"
        if fault := history_fault(candidate.messages):
            return f"the folded history would not be valid: {fault}"
        record = replace(
            draft,
            tokens_before=before,
            tokens_after=after,
            seconds=round(self.clock() - started, 3),
        )
        self.transcript.append(record)
        self.meter.forget()
        return CompactionReport(
            trigger=record.trigger,
            method=record.method,
            folded_turns=record.folded_turns,
            tokens_before=record.tokens_before,
            tokens_after=record.tokens_after,
            seconds=record.seconds,
            address=record.address,
            usage=record.usage,
            kept_turns=len(candidate.turns),
        )
