"""One turn, on a scripted provider."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from agent.errors import ProviderBusyError, ProviderError, StreamBrokenError
from agent.events import (
    CompactionFinished,
    Event,
    Notice,
    RetryScheduled,
    TextDelta,
    ToolCallFinished,
    ToolOutput,
    TurnFinished,
    TurnStarted,
)
from agent.loop import CHECKPOINT_SECONDS
from agent.messages import TextBlock, ThinkingBlock, ToolUseBlock, Usage
from agent.providers.scripted import Answer, Failure, call, say
from agent.retry import Retries
from agent.transcript.log import read_log
from agent.transcript.records import PartialRecord
from agent.transcript.store import Transcript
from agent.transcript.turns import NO_ANSWER, OUTCOME_UNKNOWN
from tests.harness import finished, make_harness, size_of
from tests.transcript.test_log import FullDisk


async def test_a_plain_answer(tmp_path: Path) -> None:
    harness = make_harness(tmp_path, [say("Hello there.")])
    events = await harness.turn("hi")
    assert events[0] == TurnStarted(1)
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "Hello there."
    end = finished(events)
    assert (end.text, end.stop_reason, end.error, end.requests) == (
        "Hello there.",
        "end_turn",
        None,
        1,
    )
    assert end.usage == Usage(size_of(harness.provider.requests[0]), 20)
    harness.provider.assert_done()


async def test_tools_run_and_their_results_go_back(tmp_path: Path) -> None:
    harness = make_harness(
        tmp_path,
        [
            Answer((TextBlock("Looking."), ToolUseBlock("toolu_1", "number", {"lines": 2}))),
            say("Two lines."),
        ],
    )
    events = await harness.turn("how many?")
    assert ToolOutput("toolu_1", "working\n") in events
    (result,) = [event for event in events if isinstance(event, ToolCallFinished)]
    assert result.content == "line 0 of call 1\nline 1 of call 1"
    assert harness.provider.requests[1].messages[-1].tool_results[0].content == result.content
    assert finished(events).text == "Two lines."
    harness.check_requests()


@pytest.mark.parametrize(
    ("stop_reason", "defect"),
    [("max_tokens", ""), ("tool_use", "the input was cut off"), ("refusal", "")],
)
async def test_a_call_that_is_not_whole_is_answered_and_not_run(
    tmp_path: Path, stop_reason: str, defect: str
) -> None:
    broken = ToolUseBlock("toolu_1", "number", {}, defect)
    harness = make_harness(
        tmp_path, [Answer((TextBlock("So:"), broken), stop_reason), say("Again.")]
    )
    events = await harness.turn("go")
    assert harness.tool.calls == 0
    (result,) = [event for event in events if isinstance(event, ToolCallFinished)]
    assert result.is_error
    assert result.content.startswith("Not run")
    harness.check_requests()


async def test_unknown_tools_and_bad_arguments_are_results(tmp_path: Path) -> None:
    harness = make_harness(
        tmp_path,
        [call("teleport", "toolu_1"), call("number", "toolu_2", lines="many"), say("Sorry.")],
    )
    events = await harness.turn("go")
    results = [event for event in events if isinstance(event, ToolCallFinished)]
    assert [result.is_error for result in results] == [True, True]
    assert finished(events).error is None
    harness.check_requests()


async def test_repeated_and_missing_ids_are_made_unique(tmp_path: Path) -> None:
    same = ToolUseBlock("call_0", "number", {"lines": 1})
    harness = make_harness(
        tmp_path,
        [Answer((same, same)), Answer((same, ToolUseBlock("", "number", {}))), say("Done.")],
    )
    await harness.turn("go")
    assert harness.tool.calls == 4
    harness.check_requests()


async def test_a_busy_server_is_asked_again(tmp_path: Path) -> None:
    busy = ProviderBusyError("overloaded", status=529, retry_after=0.01)
    harness = make_harness(tmp_path, [Failure(busy), Failure(busy), say("Here.")])
    events = await harness.turn("hi")
    waits = [event for event in events if isinstance(event, RetryScheduled)]
    assert [wait.attempt for wait in waits] == [1, 2]
    assert finished(events).text == "Here."


async def test_a_server_that_stays_busy_ends_the_turn_with_everything_kept(tmp_path: Path) -> None:
    busy = ProviderBusyError("overloaded", status=529, retry_after=40.0)
    harness = make_harness(tmp_path, [Failure(busy)])
    end = finished(await harness.turn("remember the port 8123"))
    assert isinstance(end.error, ProviderBusyError)
    view = harness.transcript.view
    assert view.turns[0].messages[0].text == "remember the port 8123"
    assert view.turns[0].messages[-1].text == NO_ANSWER


async def test_a_cut_answer_is_asked_for_again_and_its_text_is_on_disk(tmp_path: Path) -> None:
    cut = Failure(StreamBrokenError("connection reset"), (TextBlock("The first half of"),))
    harness = make_harness(tmp_path, [cut, say("All of it.")])
    events = await harness.turn("tell me")
    assert finished(events).text == "All of it."
    assert [event.attempt for event in events if isinstance(event, RetryScheduled)] == [1]
    assert "The first half of" in harness.transcript.readable_path.read_text()
    assert harness.transcript.view.turns[0].messages[1].text == "All of it."
    harness.check_requests()


async def test_an_error_ends_the_turn_and_the_next_one_works(tmp_path: Path) -> None:
    harness = make_harness(
        tmp_path, [Failure(ProviderError("no such model", status=404)), say("Fine.")]
    )
    first = finished(await harness.turn("one"))
    assert first.error is not None
    second = finished(await harness.turn("two"))
    assert (second.text, second.error) == ("Fine.", None)
    harness.check_requests()


async def test_requests_of_a_turn_are_bounded(tmp_path: Path) -> None:
    script = [call("number", f"toolu_{n}", lines=1) for n in range(3)]
    harness = make_harness(tmp_path, [*script, say("Next turn.")])
    end = finished(await harness.turn("loop", max_requests=3))
    assert "3 requests" in str(end.error)
    assert finished(await harness.turn("and now")).text == "Next turn."
    harness.check_requests()


async def test_foreign_thinking_is_dropped_once(tmp_path: Path) -> None:
    refusal = ProviderError(
        "messages.1.content.0: Invalid signature in thinking block. The block is bound to a "
        "different conversation.",
        status=400,
    )
    thinker = Answer((ThinkingBlock("hm", "sig"), TextBlock("First.")))
    harness = make_harness(tmp_path, [thinker, Failure(refusal), say("Second."), Failure(refusal)])
    await harness.turn("one")
    assert finished(await harness.turn("two")).text == "Second."
    blocks = [b for m in harness.provider.requests[-1].messages for b in m.blocks]
    assert not any(isinstance(block, ThinkingBlock) for block in blocks)


async def test_odd_stop_reasons_are_told_and_keep_the_text(tmp_path: Path) -> None:
    harness = make_harness(tmp_path, [Answer((TextBlock("Cut"),), "max_tokens")])
    events = await harness.turn("go")
    assert any(isinstance(event, Notice) and "cut" in event.text for event in events)
    assert finished(events).text == "Cut"


@pytest.mark.parametrize("inside", [True, False])
async def test_cancelling_keeps_what_was_received(tmp_path: Path, inside: bool) -> None:
    """Whether the loop or its consumer is waiting when the task is cancelled."""
    harness = make_harness(
        tmp_path,
        [
            Answer((TextBlock("A long answer that is cut"),), pause_seconds=60.0 * inside),
            say("Again."),
        ],
    )
    received: list[Event] = []
    begun = asyncio.Event()

    async def consume() -> None:
        async with aclosing(harness.events("tell me")) as events:
            async for event in events:
                received.append(event)
                if isinstance(event, TextDelta):
                    begun.set()
                    await asyncio.sleep(60.0 * (not inside))

    task = asyncio.create_task(consume())
    await begun.wait()
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not any(isinstance(event, TurnFinished) for event in received)
    kept = harness.transcript.view.turns[0].messages
    assert kept[1].text == "A long answe"
    assert finished(await harness.turn("go on")).text == "Again."
    harness.check_requests()


async def test_cancelling_a_tool_records_that_its_outcome_is_unknown(tmp_path: Path) -> None:
    harness = make_harness(tmp_path, [call("number", "toolu_1", lines=-1), say("Again.")])
    begun = asyncio.Event()

    async def consume() -> None:
        async with aclosing(harness.events("run it")) as events:
            async for event in events:
                if isinstance(event, ToolOutput):
                    begun.set()

    task = asyncio.create_task(consume())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    results = harness.transcript.view.turns[0].messages[2].tool_results
    assert results[0].content == OUTCOME_UNKNOWN
    assert finished(await harness.turn("go on")).text == "Again."
    assert harness.tool.calls == 1
    harness.check_requests()


async def test_a_resumed_session_sends_the_very_same_request(tmp_path: Path) -> None:
    script = [call("number", "toolu_1", lines=3), say("One."), say("Two.")]
    harness = make_harness(tmp_path, [*script, say("Three.")])
    await harness.turn("first")
    await harness.turn("second")
    live = harness.transcript.view
    harness.transcript.close()
    again = Transcript.open(harness.transcript.folder, "s-1", ".transcripts")
    assert again.view == live
    harness.engine.transcript = harness.tools.transcript = again
    await harness.turn("third")
    harness.check_requests()
    again.close()


def overflow(message: str) -> Failure:
    return Failure(ProviderError(message, status=400, body=message))


async def test_an_overflow_is_rescued_within_the_turn(tmp_path: Path) -> None:
    script: list[Answer | Failure] = [say(f"Item {n}: " + "fact " * 200) for n in range(8)]
    script += [overflow("prompt is too long: 9000 tokens > 5000 maximum"), say("Recovered.")]
    harness = make_harness(tmp_path, script)
    for number in range(8):
        await harness.turn(f"Tell me about item {number}, please. " * 12)
    events = await harness.turn("and the last one")
    end = finished(events)
    assert (end.text, end.error) == ("Recovered.", None)
    (report,) = [event.report for event in events if isinstance(event, CompactionFinished)]
    assert (report.trigger, report.method) == ("overflow", "digest")
    assert harness.engine.budget.window == 5000
    assert harness.transcript.view.window == 5000
    harness.check_requests()


async def test_a_rescue_is_bounded_and_the_session_lives(tmp_path: Path) -> None:
    refused = overflow("prompt is too long")
    script = [say("x " * 500) for _ in range(3)] + [say("Alive.")]
    harness = make_harness(tmp_path, [*script[:3], *([refused] * 4), script[3]])
    for number in range(3):
        await harness.turn(f"turn {number} " + "word " * 300)
    end = finished(await harness.turn("last"))
    assert end.error is not None
    assert len(harness.provider.requests) <= 3 + 4
    view = harness.transcript.view
    assert view.turns[-1].messages[0].text == "last"
    harness.check_requests()


async def test_a_blank_answer_ends_the_turn_and_the_next_one_works(tmp_path: Path) -> None:
    blank = Answer((TextBlock("  "),), "end_turn")
    harness = make_harness(tmp_path, [call("number", "toolu_1", lines=1), blank, say("Yes.")])
    end = finished(await harness.turn("run it"))
    assert (end.text, end.error) == ("", None)
    assert not harness.transcript.view.running
    assert finished(await harness.turn("and?")).text == "Yes."
    harness.check_requests()


async def test_a_failed_turn_has_no_answer(tmp_path: Path) -> None:
    harness = make_harness(tmp_path, [Failure(ProviderError("no", status=400))])
    assert finished(await harness.turn("x")).text == ""


async def test_a_paused_turn_goes_on_and_is_never_folded(tmp_path: Path) -> None:
    paused = Answer((TextBlock("Half " * 200),), "pause_turn")
    harness = make_harness(
        tmp_path, [paused, paused, say("Whole.")], budget=900, window=60_000, keep=0
    )
    harness.provider.summary = say("In short.")
    end = finished(await harness.turn("search the world"))
    assert (end.text[-6:], end.error) == ("Whole.", None)
    assert harness.transcript.view.turns[0].messages[0].text == "search the world"


async def test_busy_answers_do_not_count_against_the_bound(tmp_path: Path) -> None:
    busy = Failure(ProviderBusyError("overloaded", status=529, retry_after=0.001))
    harness = make_harness(tmp_path, [busy, busy, busy, say("Here.")])
    assert finished(await harness.turn("hi", max_requests=2)).text == "Here."


async def test_output_that_is_not_sent_back_does_not_distort_the_sizes(tmp_path: Path) -> None:
    """Hidden reasoning is reported as output and is no part of the next prompt."""
    harness = make_harness(tmp_path, [])
    for number in range(30):
        harness.provider.extend(say("fact " * 40))
        await harness.turn(f"question {number} " + "word " * 30)
        view = harness.transcript.view
        assert view.anchor is not None
        inflated = replace(view, anchor=replace(view.anchor, output=5_000))
        honest, meter = harness.engine.meter.size(view), harness.engine.meter
        assert abs(meter.size(inflated) - honest) < 100
        assert 0.8 < harness.transcript.view.factor < 2.0


async def test_a_nonsense_report_is_not_believed(tmp_path: Path) -> None:
    harness = make_harness(tmp_path, [say("fact " * 100) for _ in range(5)], measure=lambda _: 1)
    for number in range(5):
        await harness.turn(f"question {number} " + "word " * 100)
    assert harness.transcript.view.anchor is None
    assert harness.engine.size().tokens > 800


async def test_a_budget_that_cannot_be_kept_is_told_once_and_costs_nothing(tmp_path: Path) -> None:
    harness = make_harness(tmp_path, [say("Fine.") for _ in range(6)], budget=200, window=50_000)
    told = 0
    for number in range(6):
        events = await harness.turn(f"question {number}")
        told += sum(isinstance(event, Notice) for event in events)
        assert finished(events).text == "Fine."
        assert finished(events).compactions == ()
    assert told == 1
    harness.provider.assert_done()


@pytest.mark.parametrize("attempt", [0, 5, 2_000])
def test_waits_stay_bounded(attempt: int) -> None:
    retries = Retries(None, attempt=attempt)
    wait = retries.wait(ProviderBusyError("busy"))
    assert wait is not None
    assert 0 < wait <= 60


async def test_calls_of_a_paused_message_are_answered_before_it_goes_on(tmp_path: Path) -> None:
    paused = Answer(
        (TextBlock("So:"), ToolUseBlock("toolu_1", "number", {"lines": 1})), "pause_turn"
    )
    harness = make_harness(tmp_path, [paused, say("Done.")])
    end = finished(await harness.turn("go"))
    assert (end.text, end.error) == ("Done.", None)
    assert harness.provider.requests[1].messages[-1].tool_results[0].is_error
    harness.check_requests()


async def test_text_is_saved_within_a_second_also_while_nothing_more_comes(tmp_path: Path) -> None:
    answer = Answer((TextBlock("first half, second half"),), pause_seconds=20)
    harness = make_harness(tmp_path, [answer])
    turn = asyncio.create_task(harness.turn("go"))
    await asyncio.sleep(CHECKPOINT_SECONDS + 0.5)
    found = [entry.record for entry in read_log(harness.transcript.log_path).entries]
    assert PartialRecord("first half,") in found
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    last = harness.transcript.view.turns[-1].messages[-1]
    assert last.text == "first half,"
    again = harness.transcript.view
    harness.transcript.close()
    assert Transcript.open(harness.transcript.folder, "s-1", ".transcripts").view == again


async def test_a_full_disk_is_told_also_when_the_turn_is_stopped(tmp_path: Path) -> None:
    harness = make_harness(tmp_path, [say("Hello there.")])
    async with aclosing(harness.events("hi")) as events:
        assert await anext(events) == TurnStarted(1)
        before = harness.transcript.view
        with FullDisk(harness.transcript.log_path.stat().st_size + 9):
            await events.aclose()
    (warning,) = harness.transcript.take_warnings()
    assert "cannot write the transcript" in warning
    assert harness.transcript.view == before
    await harness.turn("again")
    texts = [message.text for message in harness.transcript.view.messages]
    assert texts == ["hi", NO_ANSWER, "again", "Hello there."]


async def test_a_message_that_cannot_be_saved_is_not_sent(tmp_path: Path) -> None:
    harness = make_harness(tmp_path, [say("One."), say("Two.")])
    await harness.turn("first")
    before = harness.transcript.view
    with FullDisk(harness.transcript.log_path.stat().st_size + 9):
        events = await harness.turn("second")
    assert [type(event) for event in events] == [TurnFinished]
    assert "free some space" in str(finished(events).error)
    assert len(harness.provider.requests) == 1
    assert harness.transcript.view == before
    assert finished(await harness.turn("second")).text == "Two."
    harness.check_requests()
    harness.provider.assert_done()
