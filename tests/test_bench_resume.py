"""The short form of the resume bench: what a long session costs is counted, not timed."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from agent.providers.scripted import call, say
from agent.transcript.reader import LogReader
from agent.transcript.records import Entry, UserRecord, encode
from agent.transcript.store import Transcript
from agent.transcript.view import build
from agent.wire import message_to_wire
from bench.resume import QUESTION, SESSION, WINDOW, resumed, run_turn, without_cache_marks
from bench.sessions import write_session
from tests.e2e.support import Brain
from tests.harness import finished, make_harness
from tests.server.replies import Reply
from tests.server.server import MessagesServer
from tests.strategies import Story

SHORT, LONG = 18, 66
"""Turns. Both are as many beyond the last fold, so that the views are as large."""


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """The logs of a short and of a long session, each opened once."""
    made = {
        turns: write_session(tmp_path_factory.mktemp("work"), SESSION, turns)
        for turns in (SHORT, LONG)
    }
    for log in made.values():
        reopened(log).close()
    return made


def reopened(log: Path) -> Transcript:
    return Transcript.open(log.parent, log.stem, log.parent.name)


class Count:
    """How many functions were called."""

    calls = 0

    def note(self, _frame: object, event: str, _argument: object) -> None:
        self.calls += event in {"call", "c_call"}


@contextmanager
def counted() -> Iterator[Count]:
    count, before = Count(), sys.getprofile()
    sys.setprofile(count.note)
    try:
        yield count
    finally:
        sys.setprofile(before)


def test_the_view_is_what_all_records_lead_to(logs: dict[int, Path]) -> None:
    for log in logs.values():
        with closing(reopened(log)) as transcript:
            assert transcript.view == build(entry.record for entry in LogReader(log))
            assert transcript.take_warnings() == []


def test_opening_costs_as_much_for_each_record_however_many_there_are(
    logs: dict[int, Path],
) -> None:
    each = {}
    for turns, log in logs.items():
        with counted() as count:
            reopened(log).close()
        each[turns] = count.calls / sum(1 for _ in LogReader(log))
    assert each[LONG] < 1.1 * each[SHORT]


def test_turns_that_stay_in_view_cost_no_more_each(tmp_path: Path) -> None:
    each = {}
    for turns in (100, 400):
        story = Story()
        for number in range(turns):
            story.user(f"question {number}")
            story.blocks(thinking=False, text="yes, no", count=0)
            story.end("end_turn")
        entries = [Entry(number, 1.0, record) for number, record in enumerate(story.records, 1)]
        (tmp_path / f"{turns}.jsonl").write_bytes(b"".join(map(encode, entries)))
        with counted() as count:
            reopened(tmp_path / f"{turns}.jsonl").close()
        each[turns] = count.calls / turns
    assert each[400] < 1.1 * each[100]


def test_opening_does_not_hold_the_log(logs: dict[int, Path]) -> None:
    peaks = {}
    for turns, log in logs.items():
        tracemalloc.start()
        with closing(reopened(log)):
            peaks[turns] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    added = logs[LONG].stat().st_size - logs[SHORT].stat().st_size
    assert peaks[LONG] - peaks[SHORT] < added / 2


async def test_a_turn_costs_the_same_after_many_others(
    logs: dict[int, Path], tmp_path: Path
) -> None:
    calls = {}
    for turns, log in logs.items():
        answers = [call("number", "", lines=30), say("Thirty lines.")] * 3
        harness = make_harness(tmp_path / str(turns), answers, budget=300_000)
        with closing(reopened(log)) as transcript:
            harness.transcript = transcript
            harness.engine.transcript = harness.tools.transcript = transcript
            await harness.turn("measures the view")
            with counted() as count:
                events = [await harness.turn(QUESTION) for _ in range(2)]
            assert [finished(turn).compactions for turn in events] == [(), ()]
        calls[turns] = count.calls
    assert calls[LONG] < 1.05 * calls[SHORT]


def test_the_program_sends_what_the_records_say(tmp_path: Path) -> None:
    log = write_session(tmp_path, SESSION, SHORT)
    records = [entry.record for entry in LogReader(log)]
    view = build([*records, UserRecord(SHORT + 1, QUESTION)])
    script = Brain([Reply("Nothing.")])
    with MessagesServer(script=script, window=WINDOW) as server:
        with resumed(server, tmp_path) as (chat, _):
            run_turn(server, chat)
        (request,) = server.messages_requests
    assert without_cache_marks(request.messages) == [*map(message_to_wire, view.messages)]
