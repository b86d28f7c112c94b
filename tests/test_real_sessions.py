"""Real sessions become records whose views any server would accept."""

from __future__ import annotations

import pytest

from agent.context.validity import history_fault
from agent.messages import ThinkingBlock
from agent.transcript.records import BlockRecord, InterruptedRecord, UserRecord
from agent.transcript.view import apply, build
from agent.wire import message_to_wire
from tests.real_sessions import ABSENT, DATA, RealSession, real_sessions
from tests.server.rules import check_history

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=ABSENT)


def named(sessions: list[RealSession], ending: str) -> RealSession:
    (session,) = (session for session in sessions if session.name.endswith(ending))
    return session


def test_every_session_builds_a_valid_view() -> None:
    sessions = real_sessions()
    assert len(sessions) > 100
    for session in sessions:
        view = build(session.records)
        asked = apply(view, UserRecord(view.last_turn + 1, "and now?"))
        assert history_fault(asked.messages) == "", session.name
        wire = [message_to_wire(message) for message in asked.messages]
        assert check_history(None, None, wire) is None, session.name


def test_turns_are_numbered_and_lines_never_go_back_past_a_turn() -> None:
    for session in real_sessions():
        assert len(session.lines) == len(session.records)
        turns = [record.turn for record in session.records if isinstance(record, UserRecord)]
        assert turns == list(range(1, len(turns) + 1)), session.name
        starts = [
            line
            for line, record in zip(session.lines, session.records, strict=True)
            if isinstance(record, UserRecord)
        ]
        assert starts == sorted(starts), session.name


def test_claude_code_lines_with_one_id_are_one_message() -> None:
    session = named(real_sessions("claude_code"), "258c7280-ae70-4798-800f-63464d01a85d.jsonl")
    view = build(session.records)
    # Two texts (one of them blank, left out), a thought and three calls came on six lines.
    assert [type(block).__name__ for block in view.messages[1].blocks][-3:] == ["ToolUseBlock"] * 3
    assert len(view.messages[2].tool_results) == 3
    (boundary,) = session.boundaries
    assert boundary.line == 351
    assert boundary.tokens_before == 167_094
    assert boundary.kept_from == boundary.records
    assert boundary.summary.startswith("This session is being continued")
    assert max(session.lines[: boundary.records]) < 351 < session.lines[boundary.records]
    assert not any(
        boundary.summary in record.text
        for record in session.records
        if isinstance(record, UserRecord)
    )


def test_a_cut_off_pi_answer_is_an_interruption() -> None:
    (session,) = real_sessions("pi_sessions")
    assert sum(isinstance(record, InterruptedRecord) for record in session.records) == 18
    first, second = session.boundaries
    assert (first.line, second.line) == (360, 629)
    assert session.lines[first.kept_from] == 294
    signed = [
        record.block
        for record in session.records
        if isinstance(record, BlockRecord) and isinstance(record.block, ThinkingBlock)
    ]
    assert signed
    assert any(block.signature for block in signed)


def test_annotated_facts_come_with_their_dialogue() -> None:
    dialogues = real_sessions("crosswoz_zh")
    assert len(dialogues) == 30
    assert "北京亚太花园酒店" in named(dialogues, ":10").facts
    trajectories = real_sessions("tau_bench_airline")
    assert len(trajectories) == 50
    assert "credit_card_4421486" in trajectories[0].facts
