"""Disks that fail: each call on the transcripts folder, once, for a while, and from then on.

Short here; ``make faults`` takes every call of a writer, with every error.
"""

from __future__ import annotations

import os
import random
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.context.validity import history_fault
from agent.transcript.log import read_log
from agent.transcript.records import SessionRecord, UserRecord
from agent.transcript.store import Transcript
from agent.transcript.view import apply
from tests.faults.injection import ROOT, Fault, Traced, places, run_traced, why_not
from tests.faults.steady import digest, message

WHOLE = os.environ.get("TEST_PROFILE") == "faults"
UNABLE = why_not()
TURNS = 4

ERRORS = {
    "openat": ("EIO", "EMFILE", "ENOSPC"),
    "write": ("EIO", "ENOSPC", "EINTR"),
    "fsync": ("EIO", "ENOSPC", "EINTR"),
    "rename": ("EIO", "ENOSPC"),
    "mkdir": ("EIO", "ENOSPC"),
    "fchmod": ("EIO",),
    "flock": ("ENOLCK",),
    "read": ("EIO",),
}

needs_strace = pytest.mark.skipif(bool(UNABLE), reason=UNABLE or "strace can be used")


def command(folder: Path, turns: int = TURNS) -> list[str]:
    return [sys.executable, "-m", "tests.faults.steady", str(folder), str(turns)]


def begun(folder: Path) -> None:
    """A session of some turns, the last line of its log torn."""
    subprocess.run(command(folder, 3), cwd=ROOT, check=True, capture_output=True)
    log = folder / "s-1.jsonl"
    log.write_bytes(log.read_bytes()[:-20])


def faults_in(folder: Path) -> Iterator[Fault]:
    """Every fault that a process like the one that was traced can meet."""
    dry = run_traced(command(folder), list(ERRORS))
    for call, number in places(dry, folder):
        for error in ERRORS[call]:
            for when in (f"{number}", f"{number}..{number + 4}", f"{number}+"):
                # Calls that are interrupted for ever are made for ever, and a process that
                # can open nothing from here on cannot end itself either.
                if "+" not in when or (error != "EINTR" and call not in {"openat", "read"}):
                    yield Fault(call, error, when)


def check(folder: Path, done: Traced, about: object) -> None:
    """Nothing acknowledged is lost, nothing is silent, and the session goes on."""
    said = [line.split(" ", 1) for line in done.stdout.splitlines()]
    words = {kind for kind, _ in said}
    assert (done.code, done.stderr) == (0, ""), (about, done.stderr)
    assert "misplaced" not in words, about
    assert not done.grave or words & {"failed", "warned", "refused"}, (about, done.stdout, done.hit)
    if "refused" in words:
        return
    saved = {int(rest) for kind, rest in said if kind == "saved"}
    session_id, seen = said[-1][1].split()
    if not (folder / f"{session_id}.jsonl").exists():
        assert not saved, about
        return
    transcript = Transcript.open(folder, session_id, str(folder))
    assert digest(transcript) == seen, about
    records = [entry.record for entry in read_log(transcript.log_path).entries]
    turns = {record.turn: record.text for record in records if isinstance(record, UserRecord)}
    assert {number: message(number) for number in saved}.items() <= turns.items(), about
    assert isinstance(records[0], SessionRecord)
    assert session_id == "s-1" or records[0].parent, about
    for number in saved:
        assert message(number) in transcript.readable_path.read_text(), about
    go_on = UserRecord(transcript.next_turn, "go on")
    assert history_fault(apply(transcript.view, go_on).messages) == "", about
    transcript.append(go_on)
    transcript.close()


@needs_strace
@pytest.mark.parametrize("resumed", [False, True])
def test_a_failing_call_is_told_and_costs_nothing_that_was_acknowledged(
    tmp_path: Path, resumed: bool
) -> None:
    base = tmp_path / "base" / "t"
    base.parent.mkdir()
    if resumed:
        begun(base)
    dry = tmp_path / "dry" / "t"
    shutil.copytree(base.parent, dry.parent)
    faults = list(faults_in(dry))
    if not WHOLE:
        faults = random.Random(resumed).sample(faults, 16)
    hit = 0
    for number, fault in enumerate(faults):
        folder = tmp_path / f"{number:05d}" / "t"
        shutil.copytree(base.parent, folder.parent)
        done = run_traced(command(folder), [fault.call], [fault])
        check(folder, done, fault)
        hit += bool(done.hit)
        shutil.rmtree(folder.parent)
    assert hit >= len(faults) * 0.9, f"{hit} of {len(faults)} faults were met"


@needs_strace
def test_what_cannot_be_taken_back_is_left_behind(tmp_path: Path) -> None:
    for number in range(1, 9 if WHOLE else 4):
        folder = tmp_path / str(number) / "t"
        begun(folder)
        log = folder / "s-1.jsonl"
        faults = [Fault("write", "EIO", str(number)), Fault("ftruncate", "EIO", "1+")]
        done = run_traced(command(folder), ["write", "ftruncate"], faults, [log])
        check(folder, done, number)
        assert any("ftruncate" in call for call in done.hit)


@needs_strace
def test_neither_is_half_a_record_gone_on_with(tmp_path: Path) -> None:
    begun(tmp_path / "base" / "t")
    size = (tmp_path / "base" / "t" / "s-1.jsonl").stat().st_size
    for room in range(30, 700, 40 if WHOLE else 150):
        folder = tmp_path / str(room) / "t"
        shutil.copytree(tmp_path / "base", folder.parent)
        limited = ["prlimit", f"--fsize={size + room}:unlimited", *command(folder)]
        done = run_traced(limited, ["ftruncate"], [Fault("ftruncate", "EIO", "1+")])
        check(folder, done, room)
        assert done.hit
        assert done.stdout.count("failed") == 1
        assert done.stdout.count("goes on as") >= 1


@needs_strace
def test_a_log_that_cannot_be_synced_is_not_written_again(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    begun(folder)
    log = folder / "s-1.jsonl"
    before = log.read_bytes()
    done = run_traced(command(folder), ["write", "fsync"], [Fault("fsync", "EIO", "4")], [log])
    check(folder, done, "fsync")
    after = [call for call in done.calls[done.calls.index(done.hit[0]) + 1 :] if str(log) in call]
    assert after == []
    assert log.read_bytes().startswith(before)
    assert done.stdout.count("goes on as") == 1
    assert "failed" not in done.stdout, "the record itself is saved in the fresh log"


@needs_strace
def test_neither_is_it_while_nothing_can_be_synced(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    begun(folder)
    syncs = places(run_traced(command(folder), ["fsync"]), folder)
    last_of_a_record = str(syncs[-1][1])
    shutil.rmtree(folder)
    begun(folder)
    until = int(last_of_a_record) - 4
    fault = Fault("fsync", "EIO", f"{until}..{until + 2}")
    done = run_traced(command(folder), ["write", "fsync"], [fault])
    check(folder, done, fault)
    first = next(call for call in done.hit if "s-1.jsonl>" in call)
    after = done.calls[done.calls.index(first) + 1 :]
    assert not any(f"{folder}/s-1.jsonl>" in call for call in after), after
    assert "failed" in done.stdout
    assert done.stdout.count("goes on as") == 1


@needs_strace
def test_records_and_names_are_synced_before_they_count(tmp_path: Path) -> None:
    folder = tmp_path / "above" / "t"
    folder.parent.mkdir()
    done = run_traced(command(folder), ["mkdir", "write", "writev", "fsync", "rename"])
    check(folder, done, "order")
    unsynced: set[str] = set()
    for call in done.calls:
        if named := re.search(r'mkdir\("([^"]+)", \d+\) += 0', call):
            unsynced.add(str(Path(named[1]).parent))
        elif named := re.search(r'rename\("([^"]+)", "([^"]+)"', call):
            assert named[1] not in unsynced, "a file has its name before it is whole"
            if named[2].endswith(".jsonl"):
                unsynced.add(str(folder))
        elif named := re.search(r"write\(\d+<([^>]+)>", call):
            if not named[1].endswith(".md"):
                unsynced.add(named[1])
        elif named := re.search(r"fsync\(\d+<([^>]+)>", call):
            unsynced.discard(named[1])
        elif "writev(1" in call and "saved" in call:
            assert unsynced == set(), call
    assert done.stdout.count("saved") == TURNS


class Limit:
    """The most bytes that a file of a process may have: writes are short, then fail."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __call__(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (self._size, self._size))


def test_short_writes_are_gone_on_with_or_taken_back(tmp_path: Path) -> None:
    sizes = range(0, 6_000, 31 if WHOLE else 900)
    begun(tmp_path / "base" / "t")
    for size in sizes:
        folder = tmp_path / str(size) / "t"
        shutil.copytree(tmp_path / "base", folder.parent)
        done = subprocess.run(
            command(folder, 12),
            cwd=ROOT,
            preexec_fn=Limit(size),
            capture_output=True,
            text=True,
            check=False,
        )
        check(folder, Traced(done.returncode, done.stdout, done.stderr, ()), size)
        assert "failed" in done.stdout or "refused" in done.stdout or size > 5_000, size


_ON_A_SMALL_DISK = """
set -e
mount -t tmpfs -o size=64k tmpfs "$1"
dd if=/dev/zero of="$1/filler" bs=1k count=30 2>/dev/null
cd "$1"
shift
"$@"
cp -a t ../kept
"""


def test_a_full_disk_and_space_that_returns(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    in_namespace = ["unshare", "--user", "--map-root-user", "--mount"]
    if subprocess.run([*in_namespace, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no namespace of one's own: a small disk cannot be made")
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    script = ["sh", "-c", _ON_A_SMALL_DISK, "sh", str(disk)]
    done = subprocess.run(
        [*in_namespace, *script, *command(Path("t"), 30), str(disk / "filler")],
        cwd=disk,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = [line.split(" ", 1)[0] for line in done.stdout.splitlines()]
    assert 0 < said.index("failed") < len(said) - 1
    assert "saved" in said[said.index("failed") :]
    assert said.count("failed") == 1
    check(tmp_path / "kept", Traced(0, done.stdout, done.stderr, ()), "tmpfs")
