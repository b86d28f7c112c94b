"""The whole program in a terminal, killed and interrupted at random points of a turn.

Short here; ``make faults`` kills it 100 times and interrupts it 200 times.
"""

from __future__ import annotations

import os
import random
import re
import signal
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from agent.context.validity import history_fault
from agent.messages import TextBlock
from agent.transcript.log import read_log
from agent.transcript.records import (
    AssistantEndRecord,
    BlockRecord,
    PartialRecord,
    Record,
    ToolResultRecord,
    ToolStartRecord,
    UserRecord,
)
from agent.transcript.turns import OUTCOME_UNKNOWN
from agent.transcript.view import apply, build
from tests.e2e.test_terminal import terminal
from tests.faults.model import model, wait_for_no_child
from tests.server.server import MessagesServer
from tests.ui.terminal import Chat

LONG = os.environ.get("TEST_PROFILE") == "faults"
KILLS = 50 if LONG else 4
INTERRUPTS = 100 if LONG else 6
HALVES = (0, 1) if LONG else (0,)
ROUNDS_PER_SESSION = 10
CHECKPOINT_SECONDS = 2.0
"""What was shown for so long must be on disk; the program's own figure is one second."""

CHILDREN_SECONDS = 2.0
SLOW_MACHINE = 5.0
"""Bounds of times are so many times wider than the promise: the machine may be busy."""

OPTIONS = ("--approval", "yolo", "--max-input-tokens", "6000", "--keep-recent-turns", "2")

Figures = Callable[[str, object], None]


def words_in(records: Sequence[Record]) -> set[str]:
    """The words of all text that was received, checkpoints included."""
    texts: list[str] = []
    for record in records:
        match record:
            case BlockRecord(TextBlock(text)) | PartialRecord(text):
                texts.append(text)
            case _:
                pass
    return set(" ".join(texts).split())


class Killed:
    """One folder in which the program is started, killed, and started again."""

    def __init__(self, server: MessagesServer, folder: Path, rng: random.Random) -> None:
        self.server = server
        self.folder = folder
        self.rng = rng
        self.session_id = ""
        self.at: Counter[str] = Counter()
        self.unknown: set[str] = set()
        self.children_seconds: list[float] = []

    def round(self, number: int) -> None:
        """Go on with the session, say something, and die at a random point of the answer."""
        if number % ROUNDS_PER_SESSION == 0:
            self.session_id = ""
        resume = ("--resume", self.session_id) if self.session_id else ()
        kind = self.rng.choice(["", "", "talk"])
        seconds = self.rng.uniform(0.0, 3.5)
        with terminal(self.server, self.folder, *OPTIONS, *resume) as chat:
            chat.wait_for_prompt()
            before = len(self.server.messages_requests)
            if self.session_id and self.rng.random() < 0.2:
                kind = "compact"
            chat.type("/compact\r" if kind == "compact" else f"round {number} {kind}\r")
            if self.rng.random() < 0.9:
                self._wait_for_request(chat, before)
            chat.read(max(seconds - CHECKPOINT_SECONDS, 0.0))
            shown = set(re.findall(r"r\d+m\d+w\d+\b", chat.picture))
            chat.read(min(seconds, CHECKPOINT_SECONDS))
            chat.signal(signal.SIGKILL)
            killed_at = time.monotonic()
            self.at[self._where(chat, kind)] += 1
            said = chat.picture.rpartition(f"> round {number}")[2]
        wait_for_no_child(number, CHILDREN_SECONDS * SLOW_MACHINE)
        self.children_seconds.append(time.monotonic() - killed_at)
        self._check(number, shown, before)
        if kind != "compact":
            self._check_finished(number, said)

    def _wait_for_request(self, chat: Chat, before: int) -> None:
        """Wait until the server is asked, or there was nothing to ask it for."""
        chat.wait_until(
            lambda: (
                len(self.server.messages_requests) > before or "nothing to fold" in chat.picture
            ),
            "request",
        )

    @property
    def _log(self) -> Path:
        return self.folder / ".transcripts" / f"{self.session_id}.jsonl"

    def _where(self, chat: Chat, kind: str) -> str:
        """What the screen says was going on."""
        last = chat.lines[-1] if chat.lines else ""
        known = ("running shell", "thinking", "waiting for the model", "compacting", "working")
        found = next((name for name in known if name in last), "")
        return found or ("prompt" if last == ">" else "text" if kind != "compact" else kind)

    def _check(self, number: int, shown: set[str], before: int) -> None:
        logs = sorted((self.folder / ".transcripts").glob("*.jsonl"), key=os.path.getmtime)
        if not logs:
            return
        self.session_id = logs[-1].stem
        found = read_log(self._log)
        assert found.skipped <= 1
        records = [entry.record for entry in found.entries]
        missing = {word for word in shown if word.startswith(f"r{number}m")} - words_in(records)
        assert not missing, f"round {number}: shown for seconds and not on disk: {missing}"
        self._check_requests(number, before, records)
        view = apply(build(records), UserRecord(number, "go on"))
        assert history_fault(view.messages) == "", number
        started = {r.tool_use_id for r in records if isinstance(r, ToolStartRecord)}
        ended = {r.tool_use_id for r in records if isinstance(r, ToolResultRecord)}
        self.unknown |= started - ended

    def _check_finished(self, number: int, said: str) -> None:
        """What the screen showed as finished is on disk, to the last moment."""
        if not self.session_id:
            assert "context" not in said
            return
        records = [e.record for e in read_log(self._log).entries]
        typed = [n for n, r in enumerate(records) if isinstance(r, UserRecord)]
        records = records[typed[-1] :] if typed else []
        results = sum(isinstance(r, ToolResultRecord) for r in records)
        assert len(re.findall(r"\d+ lines? · \d+ B · ", said)) <= results, number
        if re.search(r"^in .* · context ", said, re.MULTILINE):
            assert isinstance(records[-1], AssistantEndRecord), number

    def _check_requests(self, number: int, before: int, records: Sequence[Record]) -> None:
        """What the server was sent is on disk; what it was told of lost calls is true."""
        sent = self.server.messages_requests[before:]
        assert [r.error for r in sent if r.status not in (0, 200)] == [], number
        results = {r.tool_use_id: r.content for r in records if isinstance(r, ToolResultRecord)}
        typed = {r.text for r in records if isinstance(r, UserRecord)}
        for request in sent:
            for message in request.messages:
                for block in message["content"]:
                    if block["type"] == "tool_result":
                        known = results.get(block["tool_use_id"])
                        lost = block["tool_use_id"] in self.unknown
                        assert lost == (block["content"] == OUTCOME_UNKNOWN), (number, block)
                        assert lost or known is not None or "Not run" in block["content"], block
                    elif str(block.get("text", "")).startswith("round "):
                        assert block["text"].split("\n")[0].strip() in {t.strip() for t in typed}


@pytest.mark.timeout(3_000)
@pytest.mark.parametrize("half", HALVES)
def test_killed_at_any_moment(tmp_path: Path, half: int, record_property: Figures) -> None:
    with MessagesServer(script=model, thinking_display="summarized") as server:
        killed = Killed(server, tmp_path, random.Random(40 + half))
        for number in range(KILLS):
            killed.round(half * 1_000 + number)
    runs = (tmp_path / "runs").read_text().split() if (tmp_path / "runs").exists() else []
    assert len(runs) == len(set(runs)), "a command was run a second time"
    record_property("killed while", dict(killed.at))
    record_property("commands run, of unknown outcome", (len(runs), len(killed.unknown)))
    record_property("children gone after at most", f"{max(killed.children_seconds):.2f} s")


@pytest.mark.timeout(3_000)
@pytest.mark.parametrize("half", HALVES)
def test_interrupted_at_any_moment_of_a_tool_turn(
    tmp_path: Path, half: int, record_property: Figures
) -> None:
    rng = random.Random(50 + half)
    prompts: list[float] = []
    children: list[float] = []
    rounds = range(half * 1_000 + 500, half * 1_000 + 500 + INTERRUPTS)
    with MessagesServer(script=model, thinking_display="summarized") as server:
        for first in rounds[::ROUNDS_PER_SESSION]:
            mode = "ask" if rng.random() < 0.2 else "yolo"
            with terminal(server, tmp_path, "--approval", mode) as chat:
                chat.wait_for_prompt()
                for number in range(first, min(first + ROUNDS_PER_SESSION, rounds.stop)):
                    chat.type(f"round {number}\r")
                    chat.read(rng.uniform(0.05, 2.5))
                    chat.type("\x03")
                    pressed_at = time.monotonic()
                    prompts.append(chat.wait_for_prompt())
                    wait_for_no_child(number, CHILDREN_SECONDS * SLOW_MACHINE)
                    children.append(time.monotonic() - pressed_at)
                chat.type(f"round {number} briefly\r")
                chat.wait_for("Briefly.")
                assert "Traceback" not in chat.picture
        assert [r.error for r in server.messages_requests if r.status not in (0, 200)] == []
    assert max(prompts) < 0.5 * SLOW_MACHINE
    runs = (tmp_path / "runs").read_text().split()
    assert len(runs) == len(set(runs)), "a command was run a second time"
    ordered = sorted(prompts)
    record_property(
        "prompt back: p50, p99, max",
        f"{statistics.median(prompts):.3f}, {ordered[len(ordered) * 99 // 100]:.3f}, "
        f"{ordered[-1]:.3f} s",
    )
    record_property("children gone after at most", f"{max(children):.2f} s")
