"""What to do when a request fails: shorten, drop thinking, wait, or give up."""

from __future__ import annotations

import asyncio
import re
from contextlib import aclosing
from dataclasses import dataclass, field

from agent.context import ladder
from agent.context.budget import Budget
from agent.context.engine import ContextEngine
from agent.context.overflow import Overflow
from agent.context.shedding import shed_all
from agent.errors import AgentError, ContextTooLargeError, ProviderError
from agent.events import CompactionFinished, EventStream, Notice, RetryScheduled
from agent.retry import Retries
from agent.transcript.records import DiscardedRecord, ThinkingDroppedRecord

MOST_ATTEMPTS = 3
"""Tries to shorten one request."""

_FOREIGN_THINKING = re.compile(r"invalid .?signature.? in .?thinking|thinking.*different conversa")

_MEDIA = re.compile(r"\b(?:image|document|pdf|vision|multi-?modal|media)s?\b", re.IGNORECASE)


def _refused_media(failure: ProviderError) -> bool:
    """Whether a server does not take an image: a damaged one, or any at all.

    It would be refused again with every later request.
    """
    refused = failure.status in {400, 413, 415, 422}
    return refused and _MEDIA.search(str(failure)) is not None


@dataclass
class Recovery:
    """The recovery of one request. Each step either makes a new try worthwhile or raises."""

    engine: ContextEngine
    retries: Retries
    attempts: int = 0
    thinking_dropped: bool = False
    media_shed: bool = False
    believed: Budget = field(init=False)

    def __post_init__(self) -> None:
        self.believed = self.engine.budget

    async def after_failure(self, failure: ProviderError) -> EventStream:
        """Prepare another try after a failure that is no overflow.

        :raises ProviderError: the failure itself, when another try would not help.
        """
        if _FOREIGN_THINKING.search(str(failure).lower()) and not self.thinking_dropped:
            self.thinking_dropped = True
            self.engine.transcript.append(ThinkingDroppedRecord(str(failure)))
            return
        if _refused_media(failure) and not self.media_shed:
            self.media_shed = True
            self._discard_partial(str(failure))
            for event in shed_all(self.engine):
                yield event
                if isinstance(event, CompactionFinished):
                    yield Notice(f"the server refused an image or document: {failure}", "warning")
                    return
        wait = self.retries.wait(failure)
        if wait is None:
            raise failure
        yield RetryScheduled(str(failure), wait, self.retries.attempt)
        await asyncio.sleep(wait)
        # Not before: who stops the wait keeps what was received.
        self._discard_partial(str(failure))

    async def after_overflow(
        self, overflow: Overflow, failure: ProviderError, max_tokens: int
    ) -> EventStream:
        """Make a refused request fit. No model is called.

        The tries for one request count as one rescue; rescues are bounded per session
        and apart in time. A shorter answer that is enough is no rescue.

        :raises AgentError: nothing more can be done; the message says what a person can.
        """
        self.attempts += 1
        self._discard_partial(str(failure))
        if self.attempts > MOST_ATTEMPTS:
            self.engine.budget = self.believed
            raise AgentError(
                f"the server still finds the conversation too long after {MOST_ATTEMPTS} attempts "
                f"to shorten it ({failure}); {_ADVICE}"
            )
        if overflow.limit:
            # Learnt whatever comes of this request, so that the next one fits.
            self.engine.learn_window(overflow.limit)
        if ladder.lower_output(self.engine, overflow, max_tokens):
            yield Notice("the answer was allowed fewer tokens, to fit the model's window")
            return
        if self.attempts == 1:
            self._allow_rescue(failure)
        try:
            async with aclosing(ladder.rescue(self.engine, overflow, max_tokens)) as events:
                async for event in events:
                    yield event
        except ContextTooLargeError as error:
            if overflow.limit is not None:
                raise
            # The smaller window was a guess, and it did not help.
            self.engine.budget = self.believed
            raise AgentError(
                f"the server finds the conversation too long ({failure}), and nothing more can be "
                "folded; everything is kept: shorten the message, or start anew with /reset"
            ) from error

    def _allow_rescue(self, failure: ProviderError) -> None:
        engine = self.engine
        now, last = engine.clock(), engine.rescued_at
        too_soon = last is not None and now - last < engine.rescue_interval_seconds
        if too_soon or engine.rescues >= engine.max_rescues:
            why = "again within a short time" if too_soon else f"{engine.rescues + 1} times"
            raise AgentError(
                f"the server found the conversation too long {why} ({failure}); {_ADVICE}"
            )
        engine.rescues += 1
        engine.rescued_at = now

    def _discard_partial(self, reason: str) -> None:
        """Leave an unfinished message out of the view; the transcript keeps it."""
        if self.engine.view.pending:
            self.engine.transcript.append(DiscardedRecord(reason))


_ADVICE = "everything is kept: fold it with /compact, or set --max-input-tokens lower"
