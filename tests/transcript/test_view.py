"""The view: valid whatever happened, and the same after a restart."""

from __future__ import annotations

from functools import reduce

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.context.validity import history_fault
from agent.messages import (
    Message,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    Usage,
    is_thinking,
)
from agent.transcript.records import (
    AssistantEndRecord,
    BlockRecord,
    CompactionRecord,
    Entry,
    InterruptedRecord,
    PartialRecord,
    Record,
    RewindRecord,
    ToolResultRecord,
    ToolStartRecord,
    UserRecord,
    decode,
    encode,
)
from agent.transcript.store import with_facts
from agent.transcript.turns import NO_ANSWER, NOT_RUN, OUTCOME_UNKNOWN
from agent.transcript.view import (
    SUMMARY_ANSWER,
    SUMMARY_HEADING,
    Anchor,
    View,
    apply,
    build,
)
from agent.wire import message_to_wire
from tests.server.rules import check_history
from tests.strategies import SESSION, Story, damaged_stories, stories


def server_fault(messages: tuple[Message, ...]) -> str | None:
    """What the independent validator of the test server says of a history."""
    wire = [message_to_wire(message) for message in messages]
    return check_history(None, None, wire)


@given(stories())
@settings(max_examples=300)
def test_after_any_history_the_next_request_is_valid(records: list[Record]) -> None:
    view = build([*records, UserRecord(999, "go on")])
    assert history_fault(view.messages) == ""
    assert server_fault(view.messages) is None


@given(damaged_stories())
@settings(max_examples=300)
def test_lost_records_leave_a_valid_history(records: list[Record]) -> None:
    view = build([*records, UserRecord(999, "go on")])
    assert history_fault(view.messages) == ""
    assert server_fault(view.messages) is None


@given(stories())
def test_a_restart_gives_the_same_view(records: list[Record]) -> None:
    reread = [
        decode(encode(Entry(number, 1.0, record))[:-1]).record
        for number, record in enumerate(records, 1)
    ]
    assert build(reread) == build(records)


def counting(records: list[Record]) -> list[Record]:
    """The records without those that a rewind went back over, by the words of the rule."""
    kept: list[Record] = []
    for record in records:
        if isinstance(record, RewindRecord):
            starts = [
                position
                for position, other in enumerate(kept)
                if isinstance(other, UserRecord) and other.turn == record.turn
            ]
            kept = kept[: starts[-1]] if starts else kept
        else:
            kept.append(record)
    return kept


@given(stories(), st.lists(st.tuples(st.integers(0, 99), st.integers(1, 6)), max_size=5))
@settings(max_examples=300)
def test_what_was_rewound_counts_no_more(
    records: list[Record], rewinds: list[tuple[int, int]]
) -> None:
    for position, turn in rewinds:
        records.insert(1 + position % len(records), RewindRecord(turn))
    assert build(records) == reduce(apply, counting(records), View())


@given(stories())
def test_facts_in_a_compaction_are_those_of_its_turns(records: list[Record]) -> None:
    view = View()
    for record in counting(records):
        known = with_facts(view, record) if isinstance(record, CompactionRecord) else record
        without = apply(view, record)
        view = apply(view, known)
        assert view == without


@given(stories())
def test_a_compaction_keeps_turns_word_for_word_but_for_thinking(records: list[Record]) -> None:
    view = build(records)
    if len(view.turns) < 2:
        return
    kept_from = view.turns[-1].number
    after = apply(view, CompactionRecord("manual", "summary", kept_from, "sum", "sum"))
    blocks = [block for message in view.turns[-1].messages for block in message.blocks]
    kept = [block for message in after.turns[-1].messages for block in message.blocks]
    assert kept == [block for block in blocks if not is_thinking(block)]
    assert after.messages[0].text == f"{SUMMARY_HEADING}\nsum"
    assert after.messages[1].text == SUMMARY_ANSWER
    assert after.anchor is None


def test_interrupted_calls_say_what_is_known_of_them() -> None:
    story = Story()
    story.user("do it")
    started, waiting = story.blocks(thinking=False, text="Trying.", count=2)
    story.end("tool_use")
    story.records.append(ToolStartRecord(started))
    story.user("and now?")
    view = build(story.records)
    results = view.turns[0].messages[2].tool_results
    assert results == (
        ToolResultBlock(started, OUTCOME_UNKNOWN, is_error=True),
        ToolResultBlock(waiting, NOT_RUN, is_error=True),
    )
    assert view.turns[0].messages[-1].text == NO_ANSWER
    assert view.turns[1].messages[0].text == "and now?"


def test_partial_text_is_kept_and_trailing_thinking_is_not() -> None:
    records: list[Record] = [
        SESSION,
        UserRecord(1, "hello"),
        BlockRecord(TextBlock("Half an ans")),
        BlockRecord(ThinkingBlock("hm", "s")),
        InterruptedRecord("by the user"),
    ]
    view = build(records)
    assert view.messages[-1] == Message("assistant", (TextBlock("Half an ans"),))
    assert not view.running


def test_usage_anchors_the_size_and_a_compaction_drops_it() -> None:
    story = Story()
    story.user("hello")
    story.blocks(thinking=False, text="hi", count=0)
    story.records.append(
        AssistantEndRecord("end_turn", "m", Usage(100, 7, 20, 3), prompt_tokens=123)
    )
    view = build(story.records)
    assert view.anchor == Anchor(messages=1, tokens=123, output=7, answered=True)
    assert build([*story.records, CompactionRecord("auto", "summary", 2, "s", "s")]).anchor is None


def test_parallel_results_share_one_message_whatever_their_order() -> None:
    story = Story()
    story.user("look")
    first, second = story.blocks(thinking=False, text="", count=2)
    story.end("tool_use")
    story.records.append(ToolResultRecord(second, "two", is_error=False))
    story.records.append(ToolResultRecord(first, "one", is_error=False))
    last = build(story.records).messages[-1]
    assert [result.content for result in last.tool_results] == ["two", "one"]


def test_a_result_without_its_call_changes_nothing() -> None:
    story = Story()
    story.user("look")
    view = build(story.records)
    assert apply(view, ToolResultRecord("toolu_404", "?", is_error=False)) == view
    assert apply(View(), ToolResultRecord("toolu_404", "?", is_error=False)) == View()


def test_told_calls_stand_below_the_users_words() -> None:
    story = Story()
    story.user("look everywhere")
    for _ in range(3):
        (call,) = story.blocks(thinking=False, text="", count=1)
        story.end("tool_use")
        story.result(call, "found nothing")
    record = CompactionRecord("auto", "clip", 1, told=("- whole", "- a", "- b"), told_messages=4)
    turn = build([*story.records, record]).turns[0]
    assert turn.messages[0].blocks[0] == TextBlock("look everywhere")
    assert turn.messages[0].text.endswith("- a\n- b")
    assert isinstance(turn.messages[1].blocks[0], ToolUseBlock)
    assert len(turn.messages) == 3
    assert history_fault(turn.messages) == ""


def test_text_in_progress_survives_a_crash_and_gives_way_to_its_block() -> None:
    records: list[Record] = [
        SESSION,
        UserRecord(1, "tell me"),
        PartialRecord("Once upon "),
        PartialRecord("a time"),
    ]
    crashed = build([*records, UserRecord(2, "go on")])
    assert crashed.turns[0].messages[1].text == "Once upon a time"
    finished = build([*records, BlockRecord(TextBlock("Once upon a time, there")), END])
    assert [m.text for m in finished.messages] == ["tell me", "Once upon a time, there"]


END = AssistantEndRecord("end_turn", "m", Usage(100, 7), prompt_tokens=100)
