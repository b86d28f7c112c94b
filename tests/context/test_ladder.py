"""The ladder: what it does to real conversations, and that it always ends."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.context import ladder
from agent.context.validity import history_fault
from agent.errors import ContextTooLargeError, ProviderError
from agent.events import (
    CompactionFailed,
    CompactionFinished,
    CompactionReport,
    CompactionStarted,
    Event,
    EventStream,
    Notice,
)
from agent.messages import Message, TextBlock, ToolUseBlock, is_thinking
from agent.providers.scripted import Answer, Failure, call, say
from agent.transcript.turns import TOLD_HEADING
from agent.transcript.view import SUMMARY_HEADING
from tests.harness import Harness, finished, make_harness, size_of
from tests.transcript.test_store import lines_at

WORDS = ["amber", "basil", "cedar", "delta", "ember", "fjord", "grove", "heron", "inlet", "jetty"]


async def collect(events: EventStream) -> list[Event]:
    return [event async for event in events]


def reports(events: list[Event]) -> list[CompactionReport]:
    return [event.report for event in events if isinstance(event, CompactionFinished)]


def plain(messages: tuple[Message, ...]) -> list[Message]:
    """Messages without thinking, which a compaction takes from kept turns."""
    return [Message(m.role, tuple(b for b in m.blocks if not is_thinking(b))) for m in messages]


async def talk(harness: Harness, turns: int, size: int = 120) -> None:
    for number in range(1, turns + 1):
        await harness.turn(f"question {number}: " + " ".join(WORDS) * (size // 50))


async def test_nothing_happens_below_the_budget(tmp_path: Path) -> None:
    harness = make_harness(tmp_path, [say("one")])
    await harness.turn("hello")
    assert await collect(ladder.fit(harness.engine)) == []


async def test_sixty_turns_under_a_small_budget(tmp_path: Path) -> None:
    rng = random.Random(7)
    keep, budget = 2, 3_000
    harness = make_harness(tmp_path, [], budget=budget, window=6_000, keep=keep, max_chars=2_000)
    summaries = 0
    for number in range(1, 61):
        call_id = f"toolu_{number}"
        harness.provider.summary = say(f"Written before turn {number}. " + "fact " * 40)
        harness.provider.extend(
            call("number", call_id, lines=rng.randint(1, 40)),
            say(f"Answer {number}: " + " ".join(rng.choices(WORDS, k=30))),
        )
        before = harness.transcript.view
        events = await harness.turn(f"question {number}: " + " ".join(rng.choices(WORDS, k=25)))
        assert finished(events).error is None
        folded = [report for report in reports(events) if report.folded_turns]
        summaries += len(folded)
        view = harness.transcript.view
        headed = [m for m in view.messages if m.text.startswith(SUMMARY_HEADING)]
        assert len(headed) == (1 if view.past else 0)
        if folded:
            kept = before.turns[-keep:]
            assert [turn.number for turn in view.turns] == [t.number for t in kept] + [number]
            for old, new in zip(kept, view.turns, strict=False):
                assert plain(old.messages) == list(new.messages)
    assert summaries >= 3
    harness.check_requests(window=6_000)
    folder = harness.transcript.folder
    for facts in harness.transcript.view.past:
        address = harness.transcript.address(facts.number, facts.number)
        assert f"question {facts.number}:" in lines_at(folder, address)
        assert f"Answer {facts.number}:" in lines_at(folder, address)


async def test_the_summary_request_is_the_live_prefix_and_an_instruction(tmp_path: Path) -> None:
    script = [say("fine " * 60) for _ in range(6)]
    harness = make_harness(tmp_path, script, budget=1_600, window=8_000, keep=1)
    harness.provider.summary = say("The summary.")
    await talk(harness, 5)
    events = await harness.turn("question 6: " + "word " * 500)
    (report,) = reports(events)
    live, asked = harness.provider.requests[report.folded_turns - 1], harness.provider.requests[5]
    assert asked.messages[-1].text.startswith("[Summarise the conversation so far]")
    assert (asked.system, asked.tools, asked.model) == (live.system, live.tools, live.model)
    prefix = asked.messages[:-1]
    assert prefix[: len(live.messages)] == live.messages
    assert harness.transcript.view.summary.startswith("The summary.")
    assert f"turns 1-{report.folded_turns}" in harness.transcript.view.summary
    assert ".transcripts/s-1.md:" in harness.transcript.view.summary
    harness.check_requests(window=8_000)


@pytest.mark.parametrize(
    "failure",
    [
        Answer((TextBlock("cut off in the mid"),), "max_tokens"),
        Answer((TextBlock("   "),)),
        Answer((ToolUseBlock("toolu_9", "number", {"lines": 1}),)),
        say("far too long " * 3_000),
        Failure(ProviderError("it broke", status=400, body="it broke")),
    ],
    ids=["cut off", "empty", "tool call", "larger", "refused"],
)
async def test_a_failed_summary_is_told_and_the_digest_goes_on(
    tmp_path: Path, failure: Answer | Failure
) -> None:
    script = [say("fine " * 60) for _ in range(6)] + [say("Go on.")]
    harness = make_harness(tmp_path, script, budget=1_600, window=60_000, keep=1)
    harness.provider.summary = failure
    await talk(harness, 5)
    assert harness.engine.size().tokens < 1_600
    events = await harness.turn("question 6: " + "word " * 500)
    assert finished(events).text == "fine " * 60
    assert any(isinstance(event, CompactionFailed) for event in events)
    assert [report.method for report in reports(events)] == ["digest"]
    view = harness.transcript.view
    assert "cut off in the mid" not in view.summary
    assert "far too long" not in view.summary
    folded = reports(events)[0].folded_turns
    assert f"turns 1-{folded}" in view.summary
    harness.check_requests()


@pytest.mark.parametrize(
    "failure",
    [
        Answer((TextBlock("cut off in the mid"),), "max_tokens"),
        say("far too long " * 3_000),
        Failure(ProviderError("it broke", status=400)),
    ],
    ids=["cut off", "larger", "refused"],
)
async def test_a_failed_manual_compaction_changes_not_one_byte(
    tmp_path: Path, failure: Answer | Failure
) -> None:
    harness = make_harness(tmp_path, [say("fine " * 60), say("fine " * 60), failure])
    await talk(harness, 2)
    before, log = harness.transcript.view, harness.transcript.log_path.read_bytes()
    events = await collect(ladder.compact(harness.engine))
    assert isinstance(events[0], CompactionStarted)
    assert isinstance(events[-1], CompactionFailed)
    assert harness.transcript.view is before
    assert harness.transcript.log_path.read_bytes() == log


async def test_a_manual_compaction_keeps_none_and_twice_is_a_no_op(tmp_path: Path) -> None:
    script = [say("fine " * 200) for _ in range(3)]
    harness = make_harness(tmp_path, [*script, say("All of it, in short."), say("Yes.")])
    await talk(harness, 3)
    (report,) = reports(await collect(ladder.compact(harness.engine, "the ports")))
    assert (report.trigger, report.method, report.folded_turns) == ("manual", "summary", 3)
    assert report.tokens_after < report.tokens_before
    assert "the ports" in harness.provider.requests[-1].messages[-1].text
    assert harness.transcript.view.turns == ()
    (notice,) = await collect(ladder.compact(harness.engine))
    assert isinstance(notice, Notice)
    assert finished(await harness.turn("still there?")).text == "Yes."
    assert finished(await harness.turn("x")).error is not None
    harness.check_requests()


async def test_cancelling_a_compaction_changes_nothing(tmp_path: Path) -> None:
    slow = Answer((TextBlock("The summary."),), pause_seconds=60.0)
    harness = make_harness(tmp_path, [say("fine " * 60), slow])
    await talk(harness, 1)
    before = harness.transcript.view
    task = asyncio.create_task(collect(ladder.compact(harness.engine)))
    await asyncio.sleep(0.05)
    assert len(harness.provider.requests) == 2
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert harness.transcript.view is before


async def test_stubs_alone_need_no_model_and_name_the_place(tmp_path: Path) -> None:
    script: list[Answer | Failure] = []
    for number in range(5):
        script += [call("number", f"toolu_{number}", lines=250), say("Seen.")]
    harness = make_harness(tmp_path, [*script, say("Yes.")], budget=9_500, keep=1)
    await talk(harness, 5, size=60)
    assert harness.engine.size().tokens < 9_500
    events = await harness.turn("and? " * 900)
    assert [report.method for report in reports(events)] == ["stub"]
    result = harness.transcript.view.turns[0].messages[2].tool_results[0].content
    address = result.split(" at ")[1].rstrip("]")
    assert "line 249 of call 1" in lines_at(harness.transcript.folder, address)
    harness.provider.assert_done()
    harness.check_requests()


async def test_one_turn_of_many_calls_under_a_small_window(tmp_path: Path) -> None:
    count = 200
    script = [call("number", f"toolu_{n}", lines=20) for n in range(count)]
    harness = make_harness(
        tmp_path, [*script, say("Done.")], budget=4_000, window=6_000, max_chars=2_000
    )
    request = "count everything, and remember: the code is 7391"
    end = finished(await harness.turn(request, max_requests=count + 10))
    assert (end.text, end.error) == ("Done.", None)
    assert harness.tool.calls == count
    for sent in harness.provider.requests:
        assert sent.messages[0].blocks[0] == TextBlock(request)
    assert TOLD_HEADING in harness.provider.requests[-1].messages[0].text
    harness.check_requests(window=6_000)


async def test_a_result_larger_than_the_window_is_cut_with_its_address(tmp_path: Path) -> None:
    harness = make_harness(
        tmp_path,
        [call("number", "toolu_1", lines=3_000), say("Long.")],
        budget=4_000,
        window=6_000,
        max_chars=10**9,
    )
    end = finished(await harness.turn("show me"))
    assert (end.text, end.error) == ("Long.", None)
    assert [report.method for report in end.compactions] == ["clip"]
    result = harness.provider.requests[-1].messages[-1].tool_results[0].content
    assert result.startswith("line 0 of call 1")
    assert result.rstrip().endswith("line 2999 of call 1")
    assert ".transcripts/s-1.md:" in result
    harness.check_requests(window=6_000)


async def test_a_request_larger_than_the_window_is_told_with_figures(tmp_path: Path) -> None:
    harness = make_harness(tmp_path, [say("Yes.")], budget=2_000, window=3_000)
    harness.provider.summary = say("A long message.")
    end = finished(await harness.turn("word " * 9_000))
    assert isinstance(end.error, ContextTooLargeError)
    assert "system prompt" in str(end.error)
    assert harness.provider.requests == []
    assert finished(await harness.turn("shorter")).text == "Yes."
    harness.check_requests(window=3_000)


@given(
    seed=st.integers(0, 2**32),
    budget=st.sampled_from([900, 1_500, 3_000]),
    keep=st.integers(0, 6),
    failing=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_it_always_ends_always_shrinks_and_stays_valid(
    tmp_path_factory: pytest.TempPathFactory, seed: int, budget: int, keep: int, failing: bool
) -> None:
    asyncio.run(_random_session(tmp_path_factory.mktemp("work"), seed, budget, keep, failing))


async def _random_session(folder: Path, seed: int, budget: int, keep: int, failing: bool) -> None:
    rng = random.Random(seed)
    harness = make_harness(
        folder, [], budget=budget, window=budget * 2, keep=keep, max_chars=budget
    )
    calls = 0
    for number in range(1, 9):
        steps: list[Answer | Failure] = []
        for _ in range(rng.randint(0, 4)):
            uses = []
            for _ in range(rng.randint(1, 3)):
                calls += 1
                uses.append(ToolUseBlock(f"toolu_{calls}", "number", {"lines": rng.randint(1, 40)}))
            steps.append(Answer((TextBlock("Looking."), *uses)))
        steps.append(say("answer " * rng.randint(1, 80)))
        harness.provider.extend(*steps)
        harness.provider.summary = (
            Failure(ProviderError("it broke"))
            if failing
            else say("the facts " * rng.randint(1, 30))
        )
        events = await harness.turn(f"question {number} " + "word " * rng.randint(1, 100))
        for report in reports(events):
            assert report.tokens_after < report.tokens_before
        end = finished(events)
        assert end.error is None or isinstance(end.error, ContextTooLargeError), end.error
        assert history_fault(harness.transcript.view.messages) == ""
        if end.error is None:
            assert harness.provider.requests[-1].messages[-1].role == "user"
    harness.check_requests(window=budget * 2)
    assert max(map(size_of, harness.provider.requests)) <= budget * 2
