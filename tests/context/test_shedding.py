"""Images leave the view before they make a request too large in bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.context.shedding import MOST_MEDIA
from agent.errors import ContextTooLargeError, ProviderError
from agent.events import CompactionFinished, Event, Notice
from agent.messages import ToolUseBlock
from agent.providers.scripted import Answer, Failure, say
from agent.transcript.store import Transcript
from agent.transcript.view import View
from tests.harness import PICTURE, Harness, finished, make_harness

TOO_LARGE = Failure(ProviderError("413 Request Too Large", status=413, body=""))


def images(view: View) -> list[int]:
    """How many images each turn shows."""
    return [sum(len(message.media) for message in turn.messages) for turn in view.turns]


def methods(events: list[Event]) -> list[str]:
    return [event.report.method for event in events if isinstance(event, CompactionFinished)]


def look(call: str, count: int) -> Answer:
    return Answer((ToolUseBlock(call, "number", {"lines": 2, "images": count}),))


async def talk(harness: Harness, *counts: int) -> None:
    for number, count in enumerate(counts, 1):
        harness.provider.extend(say(f"answer {number}"))
        assert finished(await harness.turn(f"question {number}", images=count)).error is None


async def test_a_refused_body_sheds_the_older_half(tmp_path: Path) -> None:
    harness = make_harness(tmp_path, [])
    await talk(harness, 2, 1, 1)
    harness.provider.extend(TOO_LARGE, say("seen"))
    events = await harness.turn("and these?", images=2)
    assert finished(events).text == "seen"
    assert methods(events) == ["shed"]
    assert images(harness.engine.view) == [0, 0, 1, 2]
    told = harness.engine.view.turns[0].messages[0].text
    assert told.startswith("question 1\n\n[image/png, kept at .transcripts/s-1/0001-image.png]")
    kept = tmp_path / ".transcripts" / "s-1" / "0001-image.png"
    assert kept.read_bytes().startswith(b"\x89PNG")


async def test_the_view_after_it_is_that_of_the_log(tmp_path: Path) -> None:
    harness = make_harness(tmp_path, [])
    await talk(harness, 2, 2)
    harness.provider.extend(look("c-1", 1), TOO_LARGE, say("seen"))
    await harness.turn("go on")
    live = harness.engine.view
    harness.transcript.close()
    assert Transcript.open(tmp_path / ".transcripts", "s-1", ".transcripts").view == live


async def test_results_of_the_running_turn_give_up_theirs(tmp_path: Path) -> None:
    harness = make_harness(tmp_path, [look("c-1", 2), look("c-2", 1), TOO_LARGE, say("seen")])
    events = await harness.turn("look around", images=1)
    assert finished(events).text == "seen"
    assert images(harness.engine.view) == [1]
    shown = harness.engine.view.turns[0].messages[2].tool_results[0]
    assert shown.content.count("[image/png, kept at ") == 2
    assert shown.content.startswith("line 0 of call 1")


async def test_the_request_keeps_its_own_until_nothing_else_helps(tmp_path: Path) -> None:
    harness = make_harness(tmp_path, [TOO_LARGE] * 4)
    error = finished(await harness.turn("these", images=3)).error
    assert error is not None
    assert not isinstance(error, ContextTooLargeError)
    assert "everything is kept" in str(error)
    assert all(
        images == 3
        for images in map(len, (r.messages[-1].media for r in harness.provider.requests))
    )


async def test_there_are_never_more_than_servers_take(tmp_path: Path) -> None:
    harness = make_harness(tmp_path, [], budget=1_000_000)
    await talk(harness, *[9] * 12)
    assert (
        max(sum(len(m.media) for m in r.messages) for r in harness.provider.requests) <= MOST_MEDIA
    )
    assert sum(images(harness.engine.view)) >= MOST_MEDIA // 2
    harness.check_requests()


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "messages.0.content.1.image.source.base64.data: Could not process image"),
        (400, "This model does not support image input."),
        (422, "multimodal content is not supported"),
    ],
)
async def test_a_refused_image_does_not_poison_the_conversation(
    tmp_path: Path, status: int, message: str
) -> None:
    refusal = Failure(ProviderError(message, status=status, body=message))
    harness = make_harness(tmp_path, [])
    await talk(harness, 1)
    harness.provider.extend(refusal, say("I cannot see it"), say("and on"))
    events = await harness.turn("what is it?", images=1)
    assert finished(events).text == "I cannot see it"
    assert [message in event.text for event in events if isinstance(event, Notice)] == [True]
    assert images(harness.engine.view) == [0, 0]
    assert finished(await harness.turn("go on")).text == "and on"


async def test_another_refusal_leaves_the_images_alone(tmp_path: Path) -> None:
    refusal = Failure(ProviderError("temperature: not supported", status=400, body=""))
    harness = make_harness(tmp_path, [refusal])
    assert finished(await harness.turn("what is it?", images=1)).error is not None
    assert images(harness.engine.view) == [1]


async def test_folding_leaves_an_address_for_each(tmp_path: Path) -> None:
    harness = make_harness(tmp_path, [], budget=3_000, window=6_000, keep=1)
    harness.provider.summary = say("They showed pictures.")
    await talk(harness, 3, 3, 3, 3)
    view = harness.engine.view
    assert view.past
    assert sum(images(view)) < 12
    for number in range(1, 4):
        assert f".transcripts/s-1/000{number}-image.png (attached" in view.summary
    assert PICTURE.data not in view.summary
    harness.check_requests(window=6_000)
