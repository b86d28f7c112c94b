"""Writers that are killed, and writers that meet: nothing acknowledged is lost.

Short here; ``make faults`` kills 1,000 writers and lets 1,000 meet.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from agent.context.validity import history_fault
from agent.transcript.log import read_log
from agent.transcript.records import UserRecord
from agent.transcript.store import Transcript
from agent.transcript.view import apply

ROUNDS = 1_000 if os.environ.get("TEST_PROFILE") == "faults" else 12
ROOT = Path(__file__).parents[2]


def start(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.faults.writer", str(folder)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )


def killed_after(process: subprocess.Popen[str], seconds: float) -> list[str]:
    """What a writer had said when it was killed, some time after its first record."""
    assert process.stdout is not None
    said = [process.stdout.readline()]
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    said += process.stdout.readlines()
    process.wait()
    process.stdout.close()
    # The last line may be torn; it was not acknowledged then.
    return [line.strip() for line in said if line.endswith("\n")]


def test_no_acknowledged_record_is_lost_and_every_session_resumes(tmp_path: Path) -> None:
    rng = random.Random(3)
    folder = tmp_path / "transcripts"
    for round_number in range(ROUNDS):
        if round_number % 20 == 0:
            folder = tmp_path / f"transcripts-{round_number}"
        said = killed_after(start(folder), rng.random() * 0.03)
        found = read_log(folder / "s-1.jsonl")
        turns = {e.record.turn for e in found.entries if isinstance(e.record, UserRecord)}
        assert found.skipped <= 1
        assert {int(number) for number in said} <= turns, round_number
        transcript = Transcript.open(folder, "s-1", str(folder))
        view = apply(transcript.view, UserRecord(transcript.next_turn, "go on"))
        assert history_fault(view.messages) == ""
        transcript.close()


def test_two_writers_never_interleave(tmp_path: Path) -> None:
    folder = tmp_path / "transcripts"
    killed_after(start(folder), 0.01)
    first = start(folder)
    assert first.stdout is not None
    first.stdout.readline()
    for _ in range(max(ROUNDS // 4, 3)):
        others = [start(folder) for _ in range(4)]
        assert [other.communicate(timeout=60)[0] for other in others] == ["refused\n"] * 4
    killed_after(first, 0.0)
    found = read_log(folder / "s-1.jsonl")
    assert found.skipped <= 1
    numbers = [entry.seq for entry in found.entries]
    assert numbers == sorted(set(numbers))
    again = start(folder)
    assert killed_after(again, 0.01)[0] != "refused", "a dead holder frees the session"
