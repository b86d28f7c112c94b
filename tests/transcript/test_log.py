from __future__ import annotations

import os
import resource
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.errors import SessionError, TranscriptError
from agent.transcript.files import private_folder
from agent.transcript.log import Log, read_log
from agent.transcript.records import Entry, UserRecord, encode
from agent.transcript.sessions import find_session, list_sessions, new_id
from agent.transcript.store import Transcript
from tests.strategies import SESSION


def write_log(path: Path, count: int) -> None:
    numbers = range(1, count + 1)
    records = [UserRecord(n, f"message {n} \u2028 with a separator") for n in numbers]
    entries = [Entry(record.turn, 1.0, record) for record in records]
    log, _ = Log.create(path, map(encode, entries))
    log.close()


def texts(path: Path) -> list[str]:
    return [
        entry.record.text
        for entry in read_log(path).entries
        if isinstance(entry.record, UserRecord)
    ]


def test_append_and_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write_log(path, 1)
    log, _ = Log.open(path)
    for number in (2, 3):
        log.append(UserRecord(number, f"message {number}"))
    log.close()
    found = read_log(path)
    assert texts(path)[1:] == ["message 2", "message 3"]
    assert [entry.seq for entry in found.entries] == [1, 2, 3]
    assert found.skipped == 0
    assert not found.torn


@pytest.mark.parametrize("umask", [0, 0o077, 0o777])
def test_files_are_private_under_any_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        folder = private_folder(tmp_path / "transcripts")
        write_log(folder / "a.jsonl", 1)
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


def test_a_log_that_others_could_read_is_made_private(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write_log(path, 1)
    path.chmod(0o644)
    Log.open(path)[0].close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_links_are_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(TranscriptError, match="symbolic link"):
        private_folder(tmp_path / "link")
    write_log(tmp_path / "real" / "a.jsonl", 1)
    (tmp_path / "b.jsonl").symlink_to(tmp_path / "real" / "a.jsonl")
    with pytest.raises(SessionError):
        Log.open(tmp_path / "b.jsonl")


def test_truncated_at_every_byte(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write_log(path, 4)
    whole = path.read_bytes()
    ends = [index + 1 for index, byte in enumerate(whole) if byte == ord("\n")]
    for length in range(len(whole) + 1):
        path.write_bytes(whole[:length])
        complete = sum(end <= length or end - 1 == length for end in ends)
        entries: list[Entry] = []
        log, _ = Log.open(path, follow=entries.append)
        assert len(entries) == complete, length
        log.append(UserRecord(99, "later"))
        log.close()
        assert texts(path)[complete:] == ["later"]


def damage(data: bytes) -> Iterator[bytes]:
    middle = len(data) // 2
    yield data[:middle] + b"\0" * 40 + data[middle:]
    yield data[:middle] + b"\xff\xfe" + data[middle + 2 :]
    yield data.replace(b"message 2", b"message X")
    yield data + data


def test_damage_in_the_middle_costs_only_what_it_hits(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write_log(path, 4)
    for number, data in enumerate(damage(path.read_bytes())):
        path.write_bytes(data)
        found = read_log(path)
        assert found.skipped >= 1, number
        assert len(found.entries) >= 3, number
        assert texts(path)[-1].startswith("message 4")


@given(st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 255)), min_size=1, max_size=6))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
def test_random_damage_raises_nothing(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, int]]
) -> None:
    path = tmp_path_factory.mktemp("log") / "a.jsonl"
    write_log(path, 5)
    data = bytearray(path.read_bytes())
    for position, value in changes:
        data[position % len(data)] = value
    path.write_bytes(data)
    entries: list[Entry] = []
    log, reader = Log.open(path, follow=entries.append)
    log.append(UserRecord(99, "later"))
    log.close()
    assert texts(path)[-1] == "later"
    assert len(entries) + reader.skipped >= 5 - len(changes)


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write_log(path, 1)
    log, _ = Log.open(path)
    with pytest.raises(SessionError, match="another process"):
        Log.open(path)
    log.close()
    second, _ = Log.open(path)
    second.close()


def test_a_new_log_is_locked_at_once(tmp_path: Path) -> None:
    log, _ = Log.create(tmp_path / "a.jsonl", ())
    with pytest.raises(SessionError) as refused:
        Log.open(tmp_path / "a.jsonl")
    told = str(refused.value)
    assert f"another process ({os.getpid()})" in told or not Path("/proc/locks").exists()
    assert "--fork" in told
    assert "a.md" in told
    log.close()


def test_a_log_is_never_made_over_another(tmp_path: Path) -> None:
    write_log(tmp_path / "a.jsonl", 1)
    before = (tmp_path / "a.jsonl").read_bytes()
    with pytest.raises(TranscriptError, match="File exists"):
        Log.create(tmp_path / "a.jsonl", ())
    assert (tmp_path / "a.jsonl").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]


class FullDisk:
    """A disk on which this process can write only so many bytes of a file."""

    def __init__(self, limit: int) -> None:
        self._limit = limit

    def __enter__(self) -> None:
        self._before = resource.getrlimit(resource.RLIMIT_FSIZE)
        self._signal = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (self._limit, self._before[1]))

    def __exit__(self, *_: object) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, self._before)
        signal.signal(signal.SIGXFSZ, self._signal)


@pytest.mark.parametrize("new", [False, True])
@pytest.mark.parametrize("room", [0, 1, 20, 60])
def test_a_failed_write_is_told_and_later_ones_count(tmp_path: Path, room: int, new: bool) -> None:
    path = tmp_path / "a.jsonl"
    if new:
        log, _ = Log.create(path, (encode(Entry(1, 0.0, UserRecord(1, "message 1"))),))
    else:
        write_log(path, 1)
        log, _ = Log.open(path)
    with FullDisk(path.stat().st_size + room), pytest.raises(TranscriptError, match="cannot write"):
        log.append(UserRecord(2, "lost"))
    log.append(UserRecord(3, "kept"))
    log.append(UserRecord(4, "kept, too"))
    log.close()
    found = read_log(path)
    assert found.skipped == 0
    assert texts(path)[1:] == ["kept", "kept, too"]


def test_a_session_whose_first_record_failed_begins_again(tmp_path: Path) -> None:
    transcript = Transcript.start(tmp_path / "t", "t", SESSION)
    with FullDisk(10), pytest.raises(TranscriptError):
        transcript.append(UserRecord(1, "lost"))
    transcript.append(UserRecord(1, "kept"))
    transcript.close()
    again = Transcript.open(tmp_path / "t", SESSION.id, "t")
    assert again.view.session_id == SESSION.id
    assert again.view.turns[0].messages[0].text == "kept"
    again.close()


def test_finding_sessions(tmp_path: Path) -> None:
    with pytest.raises(SessionError, match="no session"):
        find_session(tmp_path, None)
    for name, when in (("20260101-000000-aaaa", 100), ("20260102-000000-bbbb", 50)):
        write_log(tmp_path / f"{name}.jsonl", 2)
        os.utime(tmp_path / f"{name}.jsonl", (when, when))
    assert find_session(tmp_path, None) == "20260101-000000-aaaa"
    assert find_session(tmp_path, "20260102") == "20260102-000000-bbbb"
    with pytest.raises(SessionError, match="ambiguous"):
        find_session(tmp_path, "2026010")
    for wrong in ("nope", "", "../20260101-000000-aaaa", "20260101-000000-aaaa.jsonl"):
        with pytest.raises(SessionError, match="no session"):
            find_session(tmp_path, wrong)


def test_one_bad_file_hides_no_other(tmp_path: Path) -> None:
    write_log(tmp_path / "good.jsonl", 2)
    (tmp_path / "bad.jsonl").write_bytes(b"\xff\x00 not a log")
    infos = {info.id: info for info in list_sessions(tmp_path)}
    assert infos["good"].turns == 2
    assert infos["good"].first_words.startswith("message 1")
    assert infos["bad"].turns == 0


def test_ids_sort_by_time_and_differ() -> None:
    assert new_id() != new_id()
    assert len(new_id()) == len("20261130-120455-3f9a")
