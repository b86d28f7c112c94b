"""What is told of a session that is gone on with."""

from __future__ import annotations

from pathlib import Path

from agent.events import (
    CompactionFinished,
    Notice,
    Recap,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
)
from agent.messages import TextBlock, ToolUseBlock, Usage
from agent.recap import make_recap
from agent.tools.registry import ToolBox
from agent.transcript.records import (
    AssistantEndRecord,
    BlockRecord,
    CompactionRecord,
    DiscardedRecord,
    InterruptedRecord,
    PartialRecord,
    Record,
    RewindRecord,
    ToolResultRecord,
    ToolStartRecord,
    UserRecord,
)
from agent.transcript.store import Transcript
from tests.harness import NumberTool
from tests.strategies import SESSION

BOX = ToolBox((NumberTool(),))


def end(reason: str = "end_turn", prompt: int = 1_000) -> AssistantEndRecord:
    return AssistantEndRecord(reason, "m", Usage(prompt, 10), prompt_tokens=prompt)


def turn(number: int, *records: Record) -> list[Record]:
    answer = BlockRecord(TextBlock(f"answer {number}"))
    return [UserRecord(number, f"question {number}"), *records, answer, end()]


def call(name: str) -> list[Record]:
    return [
        BlockRecord(ToolUseBlock(name, "number", {"lines": 2})),
        end("tool_use"),
        ToolStartRecord(name),
        ToolResultRecord(name, "line 1\nline 2", is_error=False, seconds=0.5),
    ]


def recap_of(folder: Path, records: list[Record]) -> Recap:
    transcript = Transcript.start(folder / ".transcripts", ".transcripts", SESSION)
    for record in records:
        transcript.append(record)
    recap = make_recap(transcript, BOX)
    transcript.close()
    return recap


def shown(recap: Recap) -> list[str]:
    """The events of the turns, a word each."""
    words = []
    for past in recap.turns:
        words.append(f"> {past.text}")
        for event in past.events:
            match event:
                case TextDelta(text) | Notice(text):
                    words.append(text)
                case ToolCallStarted():
                    words.append(f"{event.name} {event.summary}")
                case ToolCallFinished():
                    words.append(f"{event.content!r} {event.seconds}")
                case CompactionFinished(report):
                    words.append(f"folded {report.folded_turns}, kept {report.kept_turns}")
    return words


def test_nothing_is_told_of_a_new_session(tmp_path: Path) -> None:
    assert recap_of(tmp_path, []) == Recap()


def test_the_last_turns_come_with_their_tools(tmp_path: Path) -> None:
    recap = recap_of(tmp_path, [*turn(1), *turn(2, *call("a")), *turn(3)])
    assert shown(recap) == [
        "> question 2",
        "number 2",
        "'line 1\\nline 2' 0.5",
        "answer 2",
        "> question 3",
        "answer 3",
    ]
    assert recap.tokens == 1_010


def test_what_was_interrupted_or_came_again_looks_as_it_did(tmp_path: Path) -> None:
    void: list[Record] = [BlockRecord(TextBlock("half an ans")), DiscardedRecord("overloaded")]
    broken: list[Record] = [
        UserRecord(2, "question 2"),
        BlockRecord(ToolUseBlock("a", "number", {"lines": 1})),
        end("tool_use"),
        ToolStartRecord("a"),
        InterruptedRecord("the program ended"),
    ]
    torn: list[Record] = [
        UserRecord(3, "question 3"),
        PartialRecord("as far as "),
        PartialRecord("it came"),
        InterruptedRecord("the user interrupted"),
    ]
    recap = recap_of(tmp_path, [*turn(1, *void), *broken])
    assert shown(recap) == [
        "> question 1",
        "answer 1",
        "> question 2",
        "number 1",
        "interrupted: the program ended",
    ]
    recap = recap_of(tmp_path / "other", [*turn(1), *broken, *torn])
    assert shown(recap)[-2:] == ["as far as it came", "interrupted: the user interrupted"]


def test_folded_turns_are_told_and_counted(tmp_path: Path) -> None:
    fold = CompactionRecord(
        "manual", "summary", 4, "What matters.", folded_turns=3, tokens_before=900, tokens_after=90
    )
    recap = recap_of(tmp_path, [*turn(1), *turn(2), *turn(3), fold])
    assert shown(recap) == [
        "> question 2",
        "answer 2",
        "> question 3",
        "answer 3",
        "folded 3, kept 0",
    ]
    assert (recap.folded_turns, recap.tokens) == (3, 90)
    assert recap.folded_address.endswith("turns 1-3")


def test_what_was_gone_back_over_is_not_told(tmp_path: Path) -> None:
    records = [*turn(1), *turn(2), *turn(3), RewindRecord(2), *turn(4)]
    recap = recap_of(tmp_path, records)
    assert [past.text for past in recap.turns] == ["question 1", "question 4"]


def test_a_long_turn_is_told_from_its_end(tmp_path: Path) -> None:
    calls = [record for number in range(60) for record in call(f"c{number}")]
    recap = recap_of(tmp_path, turn(1, *calls))
    (past,) = recap.turns
    assert len(past.events) < 50
    assert isinstance(past.events[0], Notice)
    assert "earlier steps" in past.events[0].text


def test_a_log_that_is_gone_tells_no_turns(tmp_path: Path) -> None:
    transcript = Transcript.start(tmp_path / ".transcripts", ".transcripts", SESSION)
    for record in turn(1):
        transcript.append(record)
    transcript.log_path.unlink()
    assert make_recap(transcript, BOX) == Recap()
    transcript.close()
