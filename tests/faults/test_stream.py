"""Every fault of a stream at every place: told in one line, nothing lost, nothing run twice.

Short here: every fourth of them, and few in a terminal; ``make faults`` plays all.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agent.events import Event, RequestStarted, RetryScheduled, TextDelta, ThinkingDelta
from agent.messages import TextBlock, ThinkingBlock
from agent.session import Session
from agent.transcript.log import read_log
from agent.transcript.records import BlockRecord
from agent.ui import describe
from tests.e2e.support import collect, last_text, open_session
from tests.e2e.test_terminal import terminal
from tests.faults.catalogue import (
    DAMAGING,
    HARMLESS,
    LASTING,
    NO_BYTES_SECONDS,
    NO_CONTENT_SECONDS,
    STREAM_FAULTS,
    Case,
    cases,
    whole,
)
from tests.harness import finished
from tests.server.replies import HttpFault, Reply, Step
from tests.server.server import MessagesServer

LONG = os.environ.get("TEST_PROFILE") == "faults"
STEP = 1 if LONG else 4
STEP_IN_TERMINAL = 1 if LONG else 25
AT_A_TIME = 20
LONGEST_SECONDS = 60.0
COMMAND = "echo once >> runs"


def script(case: Case) -> Any:
    """The fault first; then what a server without faults would have said."""

    def step(body: Mapping[str, Any], number: int) -> Step:
        if number == 0:
            return case.step(COMMAND)
        if body["messages"][-1]["content"][-1]["type"] == "tool_result":
            return Reply("Done.")
        return Reply("Fine.") if last_text(body) == "and now?" else whole(COMMAND)

    return step


def received(events: list[Event]) -> list[tuple[str, str]]:
    """What each request brought: its thinking and its text."""
    answers = [("", "")]
    for event in events:
        thinking, text = answers[-1]
        match event:
            case RequestStarted():
                answers.append(("", ""))
            case ThinkingDelta(piece):
                answers[-1] = (thinking + piece, text)
            case TextDelta(piece):
                answers[-1] = (thinking, text + piece)
            case _:
                pass
    return answers


def check_kept(session: Session, events: list[Event], name: str) -> None:
    """See that what was received is in the log, the answers that were given up included."""
    log = session.transcript.with_suffix(".jsonl")
    blocks = [e.record.block for e in read_log(log).entries if isinstance(e.record, BlockRecord)]
    texts = Counter(block.text for block in blocks if isinstance(block, TextBlock))
    thoughts = Counter(block.thinking for block in blocks if isinstance(block, ThinkingBlock))
    answers = received(events)
    assert not Counter(text for _, text in answers if text) - texts, name
    assert not Counter(thinking for thinking, _ in answers if thinking) - thoughts, name


async def play(case: Case, folder: Path) -> int:
    """One fault, and the turn after it; how often it was asked again."""
    with MessagesServer(script=script(case), thinking_display="summarized") as server:
        async with open_session(
            server,
            folder,
            approval="yolo",
            no_bytes_seconds=NO_BYTES_SECONDS,
            no_content_seconds=NO_CONTENT_SECONDS,
        ) as session:
            events = await collect(session.send("go"))
            end, runs = finished(events), folder / "runs"
            if end.error is None:
                assert end.text == "Done.", case.name
            else:
                assert "unexpected" not in (line := describe.error(end.error)), (case.name, line)
            times = runs.read_text().count("once") if runs.exists() else 0
            retries = sum(isinstance(event, RetryScheduled) for event in events)
            names = {case.name, case.name.split(" / ")[0]}
            assert (end.error is not None) == bool(names & LASTING), (case.name, end.error)
            assert times == (end.error is None and not names & DAMAGING), case.name
            again = not names & (HARMLESS | LASTING | DAMAGING)
            assert (retries > 0) == again, (case.name, retries)
            check_kept(session, events, case.name)
            next_end = finished(await collect(session.send("and now?")))
            assert (next_end.text, next_end.error) == ("Fine.", None), case.name
        refused = [r for r in server.messages_requests if r.status not in (0, 200)]
        expected = 1 if isinstance(case.fault, HttpFault) and case.fault.status != 200 else 0
        assert len(refused) == expected, (case.name, refused)
    return retries


async def test_every_fault_at_every_place(tmp_path: Path) -> None:
    with MessagesServer() as elsewhere:
        played = cases(elsewhere.url)[::STEP]
        folders = [tmp_path / str(number) for number, _ in enumerate(played)]
        for folder in folders:
            folder.mkdir()
        gate = asyncio.Semaphore(AT_A_TIME)

        async def one(number: int, case: Case) -> int:
            async with gate, asyncio.timeout(LONGEST_SECONDS):
                return await play(case, folders[number])

        outcomes = await asyncio.gather(
            *(one(number, case) for number, case in enumerate(played)), return_exceptions=True
        )
        failed = [
            f"{case.name}: {outcome!r}"
            for case, outcome in zip(played, outcomes, strict=True)
            if isinstance(outcome, BaseException)
        ]
        assert failed == []
        assert elsewhere.requests == [], "the conversation and the key went to another host"
        assert len(STREAM_FAULTS) >= 40


class Faulty:
    """A model on a server whose next answer fails in a way of its own."""

    def __init__(self) -> None:
        self.fault: Step | None = None

    def __call__(self, body: Mapping[str, Any], _number: int) -> Step:
        if self.fault is not None:
            fault, self.fault = self.fault, None
            return fault
        if body["messages"][-1]["content"][-1]["type"] == "tool_result":
            return Reply("Done.")
        return whole("true")


@pytest.mark.timeout(3_000)
def test_every_fault_in_a_terminal(tmp_path: Path) -> None:
    faulty = Faulty()
    times = {"AGENT_NO_BYTES_SECONDS": "2", "AGENT_NO_CONTENT_SECONDS": "3"}
    with MessagesServer() as elsewhere, MessagesServer(script=faulty) as server:
        played = cases(elsewhere.url)[::STEP_IN_TERMINAL]
        for first in range(0, len(played), 30):
            with terminal(server, tmp_path, "--approval", "yolo", **times) as chat:
                chat.wait_for_prompt()
                for case in played[first : first + 30]:
                    faulty.fault = case.step("true")
                    done, failed = chat.picture.count("Done."), chat.picture.count("error: ")
                    typed = chat.picture.count(f"> {case.name}")
                    chat.type(f"{case.name}\r")
                    chat.wait_for_count(f"> {case.name}", typed + 1)
                    chat.wait_for_prompt()
                    lasting = bool({case.name, case.name.split(" / ")[0]} & LASTING)
                    assert chat.picture.count("Done.") == done + (not lasting), chat.picture
                    assert chat.picture.count("error: ") == failed + lasting, chat.picture
                for word in ("Traceback", "Warning", "unexpected"):
                    assert word not in chat.picture, chat.picture
        assert elsewhere.requests == []
