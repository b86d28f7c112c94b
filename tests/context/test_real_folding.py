"""Real conversations, folded at their turn boundaries under five budgets."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest

from agent.context import ladder
from agent.context.budget import Budget
from agent.context.engine import ContextEngine
from agent.context.tokens import Meter
from agent.errors import ContextTooLargeError, ProviderError
from agent.events import CompactionFinished
from agent.providers.scripted import Failure, ScriptedProvider, say
from agent.transcript.readable import Renderer
from agent.transcript.records import CompactionRecord, Entry, Record, UserRecord
from agent.transcript.store import Transcript
from agent.transcript.view import View, apply
from agent.wire import message_to_wire
from tests.real_sessions import ABSENT, DATA, RealSession, real_sessions
from tests.server.rules import check_history

BUDGETS = (2_000, 6_000, 20_000, 60_000, 140_000)
THOROUGH = os.environ.get("TEST_PROFILE") == "faults"
SESSIONS = real_sessions() if DATA.is_dir() else []


class Rehearsal(Transcript):
    """A transcript that keeps nothing: what a fold would do to a view."""

    def __init__(self, view: View, renderer: Renderer) -> None:
        super().__init__(Path("nowhere"), "s-1", ".transcripts")
        self.view = view
        self._renderer = renderer

    def append(self, record: Record) -> None:
        assert isinstance(record, CompactionRecord)
        self.view = apply(self.view, record)


async def fold(view: View, renderer: Renderer, budget: int, summary: bool) -> View:
    """The view after it was made to fit, with a model that summarises or one that fails."""
    provider = ScriptedProvider([])
    provider.summary = say("What happened. " * 60) if summary else Failure(ProviderError("no"))
    engine = ContextEngine(
        provider=provider,
        transcript=Rehearsal(view, renderer),
        budget=Budget(budget, budget * 10 // 7, 8_000, budget // 8, "a test"),
        keep_recent_turns=5,
        meter=Meter(),
        counts=False,
    )
    try:
        async for event in ladder.fit(engine):
            if isinstance(event, CompactionFinished):
                assert event.report.tokens_after < event.report.tokens_before
    except ContextTooLargeError:
        assert ladder.unfoldable(engine) > engine.budget.window * 0.6
    return engine.view


def boundaries(session: RealSession) -> list[int]:
    """Where turns begin, in records; a few of them unless the run is thorough."""
    found = [n for n, record in enumerate(session.records) if isinstance(record, UserRecord)]
    return found if THOROUGH else found[:: max(len(found) // 4, 1)]


@pytest.mark.skipif(not SESSIONS, reason=ABSENT)
@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session.name)
def test_every_fold_of_a_real_session_is_valid(session: RealSession) -> None:
    cuts = set(boundaries(session))
    view, renderer = View(), Renderer()
    checked = 0
    for number, record in enumerate(session.records):
        view = apply(view, record)
        renderer.feed(Entry(number + 1, 0.0, record))
        if number not in cuts:
            continue
        for position, budget in enumerate(BUDGETS):
            start = replace(view, anchor=None)
            after = asyncio.run(fold(start, renderer, budget, summary=position % 2 == 0))
            wire = [message_to_wire(message) for message in after.messages]
            assert check_history(None, None, wire) is None
            assert after.turns[-1].messages[0].blocks[0] == view.turns[-1].messages[0].blocks[0]
            for facts in after.past:
                assert renderer.turn_span(facts.number) is not None
            checked += 1
    assert checked >= len(cuts) * len(BUDGETS)
