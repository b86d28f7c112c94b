"""Logs that were damaged on the disk: whatever is whole is read, and nothing is lost in silence.

Short here; ``make faults`` cuts at every byte and damages 10,000 logs.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from agent.context.validity import history_fault
from agent.transcript.log import Log, read_log
from agent.transcript.records import Entry, UserRecord, decode, encode
from agent.transcript.store import Transcript
from agent.transcript.view import apply, build
from tests.strategies import Story

WHOLE = os.environ.get("TEST_PROFILE") == "faults"
ROUNDS = 10_000 if WHOLE else 200

Mutation: TypeAlias = Callable[[bytes, random.Random], bytes]


def original() -> bytes:
    """A log of 50 records of all kinds."""
    story = Story()
    while len(story.records) < 50:
        story.user(f"question {story.turn} \u2028 \x85 with separators")
        for call in story.blocks(thinking=True, text="Let me see. " * 3, count=2):
            story.result(call, f"line\n{call}\n")
        story.end("tool_use")
        story.blocks(thinking=False, text="Done.", count=0)
        story.end("end_turn")
        if story.turn == 3:
            story.compaction(1, stub=True, shed=0)
    return b"".join(
        encode(Entry(number, 1.0, record)) for number, record in enumerate(story.records[:50], 1)
    )


DATA = original()
LINES = DATA.removesuffix(b"\n").split(b"\n")


def flip_bits(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.randint(1, 5)):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def delete(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + data[at + rng.choice((1, 2, 30, 400)) :]


def insert(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice((b"\n", b"{}", b"}\n{", rng.randbytes(50))) + data[at:]


def duplicate_lines(data: bytes, rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    first = rng.randrange(len(lines))
    copied = lines[first : first + rng.randint(1, 5)]
    at = rng.randrange(len(lines))
    return b"\n".join(lines[:at] + copied + lines[at:])


def swap_lines(data: bytes, rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    first, second = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[first], lines[second] = lines[second], lines[first]
    return b"\n".join(lines)


def put_nuls(data: bytes, rng: random.Random) -> bytes:
    at, count = rng.randrange(len(data)), rng.choice((1, 40, 512))
    return data[:at] + b"\0" * count + data[at + rng.choice((0, count)) :]


def overwrite(data: bytes, rng: random.Random) -> bytes:
    at, source, count = rng.randrange(len(data)), rng.randrange(len(data)), rng.randint(1, 512)
    return data[:at] + data[source : source + count] + data[at + count :]


MUTATIONS: tuple[Mutation, ...] = (
    flip_bits,
    delete,
    insert,
    duplicate_lines,
    swap_lines,
    put_nuls,
    overwrite,
)


def check(path: Path, data: bytes, about: object) -> None:
    """Every record that is whole is read, every other line is counted, and writing goes on."""
    path.write_bytes(data)
    present = [line for line in data.split(b"\n") if line]
    expected = {decode(line).seq: decode(line) for line in set(present) & set(LINES)}
    entries: list[Entry] = []
    log, found = Log.open(path, entries.append)
    assert {entry.seq: entry for entry in entries} == expected, about
    assert len(entries) + found.skipped == len(present), about
    view = build(entry.record for entry in entries)
    later = UserRecord(view.last_turn + 1, "later")
    assert history_fault(apply(view, later).messages) == "", about
    log.append(later)
    log.close()
    again = read_log(path)
    assert [entry.record for entry in again.entries[:-1]] == [e.record for e in entries]
    assert again.entries[-1].record == later, about
    assert again.skipped == found.skipped, about


def test_truncated_at_every_byte(tmp_path: Path) -> None:
    for length in range(0, len(DATA) + 1, 1 if WHOLE else 53):
        check(tmp_path / "a.jsonl", DATA[:length], length)


@pytest.mark.parametrize("mutate", MUTATIONS)
def test_random_damage(tmp_path: Path, mutate: Mutation) -> None:
    rng = random.Random(mutate.__name__)
    for number in range(-(-ROUNDS // len(MUTATIONS))):
        data = DATA
        for _ in range(rng.choice((1, 1, 2))):
            data = mutate(data, rng) or b"\n"
        check(tmp_path / "a.jsonl", data, (mutate.__name__, number))


def test_a_damaged_session_resumes_with_one_warning(tmp_path: Path) -> None:
    rng = random.Random(4)
    for number in range(ROUNDS // 20):
        folder = tmp_path / str(number)
        folder.mkdir()
        first, rest = DATA.split(b"\n", 1)
        (folder / "s-1.jsonl").write_bytes(first + b"\n" + rng.choice(MUTATIONS)(rest, rng))
        skipped = read_log(folder / "s-1.jsonl").skipped
        transcript = Transcript.open(folder, "s-1", str(folder))
        transcript.settle()
        warnings = transcript.take_warnings()
        assert len(warnings) == (skipped > 0), number
        assert not skipped or f"{skipped} damaged" in warnings[0]
        turn = transcript.next_turn
        transcript.append(UserRecord(turn, "later"))
        assert transcript.typed(turn) == "later"
        transcript.close()
