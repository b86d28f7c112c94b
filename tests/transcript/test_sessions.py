from __future__ import annotations

import multiprocessing
import stat
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agent.events import SessionEntry
from agent.messages import Usage
from agent.transcript.folders import FolderRegistry
from agent.transcript.records import (
    AssistantEndRecord,
    CompactionRecord,
    Entry,
    Record,
    RewindRecord,
    SessionRecord,
    UncompactRecord,
    UserRecord,
    encode,
)
from agent.transcript.sessions import list_sessions
from tests.strategies import SESSION, stories


def effective(records: Sequence[Record]) -> list[Record]:
    """The records without those that a rewind went back over, and without it."""
    kept: list[Record] = []
    for record in records:
        if not isinstance(record, RewindRecord):
            kept.append(record)
            continue
        starts = [
            position
            for position, earlier in enumerate(kept)
            if isinstance(earlier, UserRecord) and earlier.turn == record.turn
        ]
        del kept[starts[-1] if starts else len(kept) :]
    return kept


def lines(records: Sequence[Record], first: int = 1) -> bytes:
    return b"".join(encode(Entry(seq, 1.5, record)) for seq, record in enumerate(records, first))


def entry(folder: Path, records: Sequence[Record]) -> SessionEntry:
    """How a session with these records is listed."""
    (folder / "s-1.jsonl").write_bytes(lines(records))
    (found,) = list_sessions(folder)
    return found


def answered(prompt: int, output: int = 0) -> AssistantEndRecord:
    return AssistantEndRecord("end_turn", "m", Usage(prompt, output), prompt_tokens=prompt)


FOLDED = CompactionRecord("auto", "summary", 3, tokens_before=900, tokens_after=300)
TALK: list[Record] = [SESSION, UserRecord(1, " first\n words "), answered(100, 7)]


@pytest.mark.parametrize(
    ("more", "turns", "tokens"),
    [
        ([], 1, 107),
        ([UserRecord(2, "not answered yet")], 2, 107),
        ([UserRecord(2, "x"), answered(0, 5)], 2, 107),
        ([UserRecord(2, "x"), answered(200), FOLDED], 2, 300),
        ([UserRecord(2, "x"), FOLDED, answered(310, 5)], 2, 315),
        ([UserRecord(2, "x"), FOLDED, answered(310, 5), UncompactRecord()], 2, 900),
        ([UserRecord(2, "x"), FOLDED, UncompactRecord(), answered(920, 5)], 2, 925),
        ([UserRecord(2, "x"), answered(200), RewindRecord(2)], 2, 107),
        ([UserRecord(2, "x"), answered(200), FOLDED, RewindRecord(2)], 2, 107),
        ([UserRecord(2, "x"), answered(200), RewindRecord(1)], 2, None),
        ([UserRecord(2, "x"), RewindRecord(2), UserRecord(3, "y"), answered(150)], 3, 150),
    ],
)
def test_the_size_is_the_present_views_as_last_recorded(
    tmp_path: Path, more: list[Record], turns: int, tokens: int | None
) -> None:
    found = entry(tmp_path, TALK + more)
    assert (found.id, found.first_words) == ("s-1", "first words")
    assert (found.turns, found.tokens, found.folder) == (turns, tokens, str(tmp_path))


@given(stories())
def test_reading_from_the_end_finds_what_reading_all_finds(
    tmp_path_factory: pytest.TempPathFactory, records: list[Record]
) -> None:
    counting = [record for record in effective(records) if not isinstance(record, SessionRecord)]
    for position, record in enumerate(records):
        # The program goes back to turns that count only.
        if isinstance(record, RewindRecord):
            there = effective(records[:position])
            assume(any(isinstance(r, UserRecord) and r.turn == record.turn for r in there))
    found = entry(tmp_path_factory.mktemp("sessions"), records)
    sizes = [
        record.prompt_tokens + record.usage.output_tokens
        for record in counting
        if isinstance(record, AssistantEndRecord)
    ]
    assert found.tokens == (sizes[-1] if sizes else None)
    assert found.turns == max(r.turn for r in records if isinstance(r, UserRecord))


@given(st.lists(st.integers(0, 600_000), max_size=4))
def test_lines_of_any_length_are_read_from_the_end(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int]
) -> None:
    digits = "".join(map(str, range(120_000)))
    more: list[Record] = [UserRecord(2 + n, digits[:size]) for n, size in enumerate(sizes)]
    found = entry(tmp_path_factory.mktemp("sessions"), [*TALK, *more])
    assert (found.turns, found.tokens) == (1 + len(sizes), 107)


def test_what_stands_between_is_not_read(tmp_path: Path) -> None:
    log = tmp_path / "s-1.jsonl"
    with log.open("wb") as file:
        file.write(lines(TALK))
        # A hole that would take minutes and gigabytes.
        file.seek(1 << 36)
        file.write(b"\n" + lines([UserRecord(5_000, "x"), answered(4_000)], 20_000))
    started = time.process_time()
    (found,) = list_sessions(tmp_path)
    assert time.process_time() - started < 1.0
    assert (found.first_words, found.turns, found.tokens) == ("first words", 5_000, 4_000)


def test_damage_hides_neither_the_rest_nor_other_sessions(tmp_path: Path) -> None:
    good = lines(TALK)
    (tmp_path / "a-good.jsonl").write_bytes(good)
    (tmp_path / "b-empty.jsonl").write_bytes(b"")
    (tmp_path / "c-noise.jsonl").write_bytes(b"\xff\x00 not a log\n" * 3)
    (tmp_path / "d-torn.jsonl").write_bytes(good + lines([UserRecord(2, "x")], 4)[:-9])
    (tmp_path / "e-altered.jsonl").write_bytes(good.replace(b"first", b"furst"))
    (tmp_path / "f-folder.jsonl").mkdir()
    (tmp_path / "g-link.jsonl").symlink_to(tmp_path / "a-good.jsonl")
    (tmp_path / "h-nowhere.jsonl").symlink_to(tmp_path / "missing")
    found = {one.id[0]: (one.turns, one.tokens, one.first_words) for one in list_sessions(tmp_path)}
    assert found == {
        "a": (1, 107, "first words"),
        "b": (0, None, ""),
        "c": (0, None, ""),
        "d": (1, 107, "first words"),
        "e": (0, 107, ""),
    }


def test_the_open_session_is_marked(tmp_path: Path) -> None:
    (tmp_path / "s-1.jsonl").write_bytes(lines(TALK))
    (tmp_path / "s-2.jsonl").write_bytes(lines(TALK))
    assert {one.id: one.current for one in list_sessions(tmp_path, "s-2")} == {
        "s-1": False,
        "s-2": True,
    }


def test_folders_are_kept_once_and_looked_at_again(tmp_path: Path) -> None:
    registry = FolderRegistry(tmp_path / "state" / "folders.jsonl")
    assert registry.folders() == ()
    named = [tmp_path / "a", tmp_path / "line\nend", tmp_path / "b"]
    for folder in named:
        folder.mkdir()
        assert registry.add(folder)
        assert registry.add(folder)
    file = tmp_path / "state" / "folders.jsonl"
    assert file.read_text().count(str(tmp_path)) == 3
    assert registry.folders() == tuple(named)
    named[0].rmdir()
    assert registry.folders() == tuple(named[1:])
    named[0].symlink_to(named[1])
    assert registry.folders() == tuple(named[1:])
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_a_damaged_list_of_folders_costs_the_damaged_lines_only(tmp_path: Path) -> None:
    file = tmp_path / "folders.jsonl"
    file.write_bytes(
        b'"relative"\n\xff\xfe\n{"a": 1}\n"/no/such/folder"\n"/nul\\u0000"\n'
        + b"[" * 9_999
        + b'\n"/t'
    )
    registry = FolderRegistry(file)
    assert registry.folders() == ()
    assert registry.add(tmp_path)
    assert registry.folders() == (tmp_path,)
    assert not FolderRegistry(tmp_path / "folders.jsonl" / "below").add(tmp_path)


def name_folders(file: Path, folders: Sequence[Path]) -> None:
    for folder in folders:
        FolderRegistry(file).add(folder)


def test_processes_lose_no_folder_of_each_other(tmp_path: Path) -> None:
    folders = [tmp_path / f"folder-{number}" for number in range(60)]
    for folder in folders:
        folder.mkdir()
    context = multiprocessing.get_context("spawn")
    file = tmp_path / "folders.jsonl"
    writers = [
        context.Process(target=name_folders, args=(file, folders[part::3])) for part in range(3)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert set(FolderRegistry(file).folders()) == set(folders)
