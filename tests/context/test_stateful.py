"""Whole conversations, at random: whatever happens, the rules hold.

A short run is part of ``make test``; ``make faults`` runs 2,000 histories of 30 steps.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agent.context import ladder
from agent.context.budget import Budget
from agent.errors import ContextTooLargeError, ProviderBusyError, ProviderError
from agent.events import CompactionFinished, Event
from agent.messages import (
    Block,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    is_thinking,
    user_text,
)
from agent.providers.scripted import Answer, Failure, say
from agent.transcript.records import ModelRecord, Record, RewindRecord, UserRecord
from agent.transcript.store import Transcript
from agent.transcript.turns import Turn
from agent.transcript.view import SUMMARY_HEADING, View, apply, build
from agent.wire import message_to_wire
from tests.harness import Harness, finished, make_harness, size_of
from tests.server.rules import check_history
from tests.strategies import stories

T = TypeVar("T")
WINDOW = 4_000


def fault(messages: tuple[Message, ...]) -> str | None:
    """What the independent validator of the test server says of a history."""
    return check_history(None, None, [message_to_wire(message) for message in messages])


def plain(turn: Turn) -> tuple[Message, ...]:
    """A turn's messages without thinking, which a compaction takes from kept turns."""
    return tuple(
        Message(m.role, tuple(b for b in m.blocks if not is_thinking(b))) for m in turn.messages
    )


def said(block: Block) -> str:
    """What a block says."""
    match block:
        case TextBlock(text):
            return text
        case ToolResultBlock():
            return block.told
        case _:
            return ""


class Conversations(RuleBasedStateMachine):
    """One conversation: turns, tools, interrupts, failures, compactions, restarts."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.loop = asyncio.new_event_loop()
        self.calls = 0
        self.checked = 0
        self.harness: Harness = make_harness(
            self.folder, [], budget=2_400, window=WINDOW, keep=2, max_chars=1_500
        )

    def teardown(self) -> None:
        self.harness.transcript.close()
        self.loop.close()
        shutil.rmtree(self.folder)

    def run_now(self, work: Coroutine[object, object, T]) -> T:
        return self.loop.run_until_complete(work)

    @property
    def view(self) -> View:
        return self.harness.transcript.view

    def answers(self, steps: list[tuple[int, bool]], words: int) -> list[Answer | Failure]:
        """Tool rounds of so many calls each, with or without thinking, then an answer.

        Every fifth call shows an image.
        """
        script: list[Answer | Failure] = []
        for count, thinks in steps:
            blocks: list[Block] = [ThinkingBlock("hm", "signed")] if thinks else []
            for _ in range(count):
                self.calls += 1
                wanted = {"lines": self.calls % 40, "images": int(self.calls % 5 == 0)}
                blocks.append(ToolUseBlock(f"toolu_{self.calls}", "number", wanted))
            script.append(Answer(tuple(blocks)))
        script.append(say("answer " * words))
        return script

    async def play(self, text: str, stop_after: int | None = None, images: int = 0) -> list[Event]:
        """Run a turn, or stop listening after so many events."""
        received: list[Event] = []
        async with aclosing(self.harness.events(text, images=images)) as events:
            async for event in events:
                received.append(event)
                if stop_after is not None and len(received) > stop_after:
                    break
        return received

    @rule(
        steps=st.lists(st.tuples(st.integers(1, 3), st.booleans()), max_size=4),
        words=st.integers(1, 120),
        asked=st.integers(1, 120),
        summary=st.sampled_from(["good", "empty", "refused", "larger"]),
        images=st.sampled_from([0, 0, 0, 1, 2]),
    )
    def turn(
        self, steps: list[tuple[int, bool]], words: int, asked: int, summary: str, images: int
    ) -> None:
        kinds: dict[str, Answer | Failure] = {
            "good": say("What happened. " * 10),
            "empty": say("  "),
            "refused": Failure(ProviderError("no")),
            "larger": say("far too long " * 2_000),
        }
        self.harness.provider.clear()
        self.harness.provider.summary = kinds[summary]
        self.harness.provider.extend(*self.answers(steps, words))
        before = self.view
        words_asked = f"question {self.calls} " + "word " * asked
        events = self.run_now(self.play(words_asked, images=images))
        end = finished(events)
        assert end.error is None or isinstance(end.error, ContextTooLargeError), end.error
        for event in events:
            if isinstance(event, CompactionFinished):
                assert event.report.tokens_after < event.report.tokens_before
        self.check_kept(before)

    @rule(stop_after=st.integers(0, 12), steps=st.integers(0, 3))
    def interrupted_turn(self, stop_after: int, steps: int) -> None:
        self.harness.provider.clear()
        self.harness.provider.summary = say("What happened.")
        self.harness.provider.extend(*self.answers([(2, True)] * steps, 30))
        self.run_now(self.play("stop me", stop_after))

    @rule(received=st.booleans(), times=st.integers(1, 3))
    def broken_turn(self, received: bool, times: int) -> None:
        blocks = (TextBlock("The beginning of"),) if received else ()
        self.harness.provider.clear()
        self.harness.provider.extend(
            *[Failure(ProviderBusyError("cut", retry_after=0.0), blocks)] * times, say("whole")
        )
        self.run_now(self.play("break"))

    @rule(figures=st.booleans())
    def overflow(self, figures: bool) -> None:
        told = ": 2500 tokens > 2400 maximum" if figures else ""
        message = f"prompt is too long{told}"
        self.harness.provider.clear()
        self.harness.provider.extend(
            Failure(ProviderError(message, status=400, body=message)), say("rescued")
        )
        self.harness.engine.rescued_at = None
        self.harness.engine.rescues = 0
        self.run_now(self.play("too long?"))
        self.harness.engine.budget = Budget(2_400, WINDOW, 4_000, 400, "a test")

    @rule(
        refusal=st.sampled_from([(413, "Request too large"), (400, "Could not process image")]),
        images=st.integers(0, 3),
    )
    def refused_media(self, refusal: tuple[int, str], images: int) -> None:
        status, message = refusal
        self.harness.provider.clear()
        self.harness.provider.summary = say("Pictures were shown.")
        self.harness.provider.extend(
            Failure(ProviderError(message, status=status, body=message)), say("rescued")
        )
        self.harness.engine.rescued_at = None
        self.harness.engine.rescues = 0
        before = len(self.harness.provider.requests)
        end = finished(self.run_now(self.play("look", images=images)))
        requests = self.harness.provider.requests[before:]
        if status == 400:
            # A summary may have been asked for first, and what it folds had the images.
            refused = requests[-1] if end.error is not None else requests[-2]
            had_media = any(message.media for message in refused.messages)
            assert (end.error is None) == had_media, end.error
            assert not any(message.media for message in self.view.messages)
        self.harness.engine.budget = Budget(2_400, WINDOW, 4_000, 400, "a test")

    @rule(good=st.booleans())
    def compact(self, good: bool) -> None:
        self.harness.provider.clear()
        self.harness.provider.summary = say("All of it.") if good else say(" ")
        before, log = self.view, self.harness.transcript.log_path
        size = log.stat().st_size if log.exists() else 0

        async def play() -> list[Event]:
            return [event async for event in ladder.compact(self.harness.engine)]

        events = self.run_now(play())
        if not any(isinstance(event, CompactionFinished) for event in events):
            assert self.view is before
            assert (log.stat().st_size if log.exists() else 0) == size

    @rule()
    def uncompact(self) -> None:
        before = self.view
        told = ladder.uncompact(self.harness.engine)
        assert ("was taken back" in told) == (self.view is not before)

    @rule(back=st.integers(1, 5))
    @precondition(lambda self: bool(self.view.turns))
    def rewind(self, back: int) -> None:
        turns = [*(f.number for f in self.view.past), *(t.number for t in self.view.turns)]
        wanted = turns[-min(back, len(turns))]
        self.harness.transcript.append(RewindRecord(wanted))
        assert self.view.last_turn == max([turn for turn in turns if turn < wanted], default=0)
        assert self.harness.transcript.next_turn > max(turns)

    @rule()
    @precondition(lambda self: self.harness.transcript.saved)
    def change_model(self) -> None:
        self.harness.transcript.append(ModelRecord("other-model"))

    @rule()
    @precondition(lambda self: self.harness.transcript.saved)
    def restart(self) -> None:
        live = self.view
        self.harness.transcript.close()
        again = Transcript.open(self.harness.transcript.folder, "s-1", ".transcripts")
        assert again.view == live
        assert again.take_warnings() == []
        self.harness.engine.transcript = self.harness.tools.transcript = again
        self.harness.transcript = again

    def check_kept(self, before: View) -> None:
        """Turns that are still in the view are word for word what they were, or name a place."""
        old = {turn.number: turn for turn in before.turns}
        for turn in self.view.turns:
            was = old.get(turn.number)
            if was is None or turn.number == before.last_turn:
                continue
            for new, earlier in zip(plain(turn), plain(was), strict=True):
                for block, was_block in zip(new.blocks, earlier.blocks, strict=True):
                    assert block == was_block or ".transcripts/" in said(block)

    @invariant()
    def the_next_request_is_valid(self) -> None:
        view = apply(self.view, UserRecord(self.view.last_turn + 1, "go on"))
        assert fault(view.messages) is None
        headed = [m for m in view.messages if m.text.startswith(SUMMARY_HEADING)]
        assert len(headed) <= 1
        assert not headed or view.messages[0] is headed[0] or view.messages[0] == headed[0]

    @invariant()
    def every_request_was_valid_and_fitted(self) -> None:
        requests = self.harness.provider.requests
        for request in requests[self.checked :]:
            assert fault(request.messages) is None
            assert size_of(request) <= WINDOW
        self.checked = len(requests)

    @invariant()
    def every_folded_turn_has_an_address(self) -> None:
        for facts in self.view.past:
            assert self.harness.transcript.address(facts.number, facts.number)


TestConversations = Conversations.TestCase


def keep_last(view: View, count: int) -> tuple[Message, ...]:
    """What many programs do: the newest messages, wherever that cuts."""
    return view.messages[-count:]


def test_the_same_check_catches_a_naive_cut() -> None:
    @given(stories(), st.integers(1, 6))
    @settings(max_examples=300, database=None)
    def naive(records: list[Record], count: int) -> None:
        view = build([*records, UserRecord(999, "go on")])
        assert fault(keep_last(view, count)) is None

    with pytest.raises(AssertionError):
        naive()


@given(stories(), st.integers(0, 6))
def test_and_passes_a_cut_between_turns(records: list[Record], count: int) -> None:
    view = build([*records, UserRecord(999, "go on")])
    cut = replace(view, summary="before", turns=view.turns[-count - 1 :])
    assert fault(cut.messages) is None
    assert cut.messages[-1] == user_text("go on")
