"""The price of saving a record for good, and whether it grows with the session.

``python -m bench.append`` appends records to sessions of 10, 1,000 and 20,000 records as a
running chat does (record, sync, view, readable file), and, turn about, the same bytes to a
plain file by ``os.write`` and ``os.fsync``: the floor that the disk sets. Disks are shared
and vary, so what counts is the ratio of the two. CPU time is this program's own part.
"""

from __future__ import annotations

import itertools
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from agent.messages import TextBlock, Usage
from agent.transcript.log import Log
from agent.transcript.records import (
    AssistantEndRecord,
    BlockRecord,
    CompactionRecord,
    Entry,
    Record,
    SessionRecord,
    UserRecord,
    encode,
)
from agent.transcript.store import Transcript
from bench.common import Target, print_table, print_targets, quantile

LENGTHS = (10, 1_000, 20_000)
SAMPLES = 600
FOLDED, KEPT = 100, 5
"""Turns after which a session is folded, and turns that stay."""

FLOOR_RATIO = 3.0
"""Of a disk that syncs in a fifth of a millisecond; slower ones make it smaller."""

GROWTH = 1.5
"""What noise may add to a ratio that is constant."""


@dataclass
class Times:
    """Milliseconds of each append, on the clock and of the CPU."""

    elapsed: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def add(self, action: Callable[[], object]) -> None:
        """Measure something once more."""
        cpu, started = time.process_time(), time.perf_counter()
        action()
        self.elapsed.append((time.perf_counter() - started) * 1_000)
        self.cpu.append((time.process_time() - cpu) * 1_000)


def history(first: SessionRecord) -> Iterator[Record]:
    """The records of a session without an end: turns of 1.5 KB, folded from time to time."""
    yield first
    for turn in itertools.count(1):
        yield UserRecord(turn, f"question {turn} " + "word " * 60)
        yield BlockRecord(TextBlock("answer " * 150))
        yield AssistantEndRecord("end_turn", "model", Usage(1_000, 50), prompt_tokens=1_000)
        if turn % FOLDED == 0:
            yield CompactionRecord("auto", "summary", turn - KEPT, "what was said " * 99)


def begun(folder: Path, length: int) -> tuple[Transcript, Iterator[Record]]:
    """A session of so many records, gone on with, and what comes next."""
    records = history(SessionRecord("s-1", str(folder), "model", "Be brief.", ()))
    lines = [
        encode(Entry(number, 0.0, record))
        for number, record in enumerate(itertools.islice(records, length), 1)
    ]
    folder.mkdir(mode=0o700)
    log, _ = Log.create(folder / "s-1.jsonl", lines)
    log.close()
    return Transcript.open(folder, "s-1", folder.name), records


def measure(folder: Path) -> tuple[dict[int, Times], Times]:
    """Append to sessions of all lengths and to a plain file, in turn."""
    sessions = {length: begun(folder / str(length), length) for length in LENGTHS}
    plain = os.open(folder / "plain", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    found, floor = {length: Times() for length in LENGTHS}, Times()

    def write(data: bytes) -> None:
        os.write(plain, data)
        os.fsync(plain)

    for sample in range(SAMPLES):
        for length, (transcript, records) in sessions.items():
            following = next(records)
            found[length].add(partial(transcript.append, following))
            data = encode(Entry(sample, time.time(), following))
        floor.add(partial(write, data))
    os.close(plain)
    for transcript, _ in sessions.values():
        transcript.close()
    return found, floor


def figures(name: str, times: Times, floor: Times) -> tuple[str, ...]:
    """A row of the table."""
    values = [quantile(times.elapsed, share) for share in (0.5, 0.99)]
    least = [quantile(floor.elapsed, share) for share in (0.5, 0.99)]
    ratios = [value / low for value, low in zip(values, least, strict=True)]
    return (name, *(f"{value:.2f}" for value in (*values, *ratios, quantile(times.cpu, 0.5))))


def main() -> int:
    """Measure, print, and say whether the figures are reached."""
    with tempfile.TemporaryDirectory(dir=".", prefix=".bench-") as folder:
        found, floor = measure(Path(folder))
    rows = [figures(f"{length:,}", times, floor) for length, times in found.items()]
    print_table(
        f"a durable append, {SAMPLES} of each (ms)",
        ("records in the session", "p50", "p99", "ratio p50", "ratio p99", "CPU p50"),
        [*rows, figures("write and fsync alone", floor, floor)],
    )
    middles = {length: quantile(times.elapsed, 0.5) for length, times in found.items()}
    own = {length: quantile(times.cpu, 0.5) for length, times in found.items()}
    shortest, longest = LENGTHS[0], LENGTHS[-1]
    growth = f"at {longest:,} records, times that at {shortest}"
    dearest = max(middles.values()) / quantile(floor.elapsed, 0.5)
    grown = [
        Target(f"p50 {growth}", middles[longest] / middles[shortest], GROWTH),
        Target(f"CPU p50 {growth}", own[longest] / own[shortest], GROWTH),
    ]
    reached = print_targets([Target("p50, times the floor", dearest, FLOOR_RATIO), *grown])
    constant = "constant" if all(target.reached for target in grown) else "NOT constant"
    print(f"\nan append is {constant} in the session's length")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
