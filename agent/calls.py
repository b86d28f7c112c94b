"""Runs one tool call: approval, a start record, the tool, a result record."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial

from agent.events import EventStream, ToolCallFinished, ToolCallStarted, ToolOutput
from agent.messages import ToolUseBlock
from agent.tasks import Telling
from agent.tools.approval import Approval
from agent.tools.base import ToolContext
from agent.tools.limits import BoundedOutcome
from agent.tools.registry import ToolBox, refused
from agent.transcript.records import ToolResultRecord, ToolStartRecord
from agent.transcript.store import Transcript


@dataclass
class ToolRunner:
    """The tools of a session, and what their calls need."""

    box: ToolBox
    approval: Approval
    transcript: Transcript
    context: Callable[[], ToolContext]
    clock: Callable[[], float] = time.monotonic

    async def run(self, call: ToolUseBlock, refusal: str = "") -> EventStream:
        """Run a call and record its result; a ``refusal`` is recorded in its place.

        A tool's failure is a result. Only cancellation passes through; the call then
        has a start record and no result, if the tool had begun.

        :raises TranscriptError: a record could not be saved.
        """
        summary = self.box.summary(call.name, call.input)
        yield ToolCallStarted(call.id, call.name, call.input, summary)
        outcome, seconds = BoundedOutcome(refusal, is_error=True), 0.0
        if not refusal:
            acting = Telling[str, tuple[BoundedOutcome, float]](partial(self._act, call))
            async with aclosing(acting.items()) as texts:
                async for text in texts:
                    yield ToolOutput(call.id, text)
            outcome, seconds = acting.result
        file = str(outcome.output_file) if outcome.output_file else ""
        # A server may refuse an empty result.
        content = outcome.content or "(no output)"
        self.transcript.append(
            ToolResultRecord(call.id, content, outcome.is_error, seconds, file, outcome.media)
        )
        yield ToolCallFinished(call.id, call.name, content, outcome.is_error, seconds, outcome.diff)

    async def _act(
        self, call: ToolUseBlock, emit: Callable[[str], None]
    ) -> tuple[BoundedOutcome, float]:
        """Ask, record the start, run; the seconds leave out what the person took to answer."""
        context = replace(self.context(), emit=emit, ask=self.approval.ask)
        prepared = self.box.prepare(call, context)
        if isinstance(prepared, BoundedOutcome):
            return prepared, 0.0
        decision = await self.approval.decide(prepared.action)
        if not decision.allowed:
            return refused(decision), 0.0
        self.transcript.append(ToolStartRecord(call.id))
        started = self.clock()
        outcome = await self.box.run(prepared, self.transcript.output_folder)
        return outcome, round(self.clock() - started, 3)
