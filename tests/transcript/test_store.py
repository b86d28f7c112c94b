from __future__ import annotations

import shutil
import stat
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings

from agent.errors import SessionError
from agent.transcript.checkup import check_session
from agent.transcript.log import read_log
from agent.transcript.readable import BOUNDARY, Renderer
from agent.transcript.reader import LogReader
from agent.transcript.records import (
    CompactionRecord,
    Entry,
    Record,
    SessionRecord,
    ToolResultRecord,
    UserRecord,
)
from agent.transcript.store import Transcript
from agent.transcript.view import apply
from tests.strategies import SESSION, Story, stories
from tests.transcript.test_log import FullDisk


def lines_at(folder: Path, address: str) -> str:
    """The text that an address names, read the way ``read_file`` counts lines."""
    place = address.split(", ", maxsplit=1)[0]
    path, span = place.rsplit(":", 1)
    first, last = (int(number) for number in span.split("-"))
    lines = (folder.parent / path).read_bytes().decode().split("\n")
    return "\n".join(lines[first - 1 : last])


def make(folder: Path, records: list[Record]) -> Transcript:
    transcript = Transcript.start(folder, folder.name, SESSION)
    for record in records[1:]:
        transcript.append(record)
    return transcript


def test_nothing_is_on_disk_before_something_is_said(tmp_path: Path) -> None:
    transcript = Transcript.start(tmp_path / ".transcripts", ".transcripts", SESSION)
    assert not (tmp_path / ".transcripts").exists()
    transcript.append(UserRecord(1, "hello"))
    assert transcript.saved
    folder = tmp_path / ".transcripts"
    assert (folder / ".gitignore").read_text() == "*\n"
    assert (folder / "latest.txt").read_text() == ".transcripts/s-1.md\n"
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    transcript.close()


@given(records=stories())
@settings(max_examples=60)
def test_addresses_name_the_words_and_survive_a_rebuild(
    tmp_path_factory: pytest.TempPathFactory, records: list[Record]
) -> None:
    folder = tmp_path_factory.mktemp("work") / ".transcripts"
    transcript = make(folder, records)
    turns = [record for record in records if isinstance(record, UserRecord)]
    results = [record for record in records if isinstance(record, ToolResultRecord)]
    addresses = {turn.turn: transcript.address(turn.turn, turn.turn) for turn in turns}
    for turn in turns:
        found = lines_at(folder, addresses[turn.turn])
        assert found.startswith(f"## Turn {turn.turn} ")
        assert turn.text in found
    for result in results:
        assert result.content in lines_at(folder, transcript.result_address(result.tool_use_id))
    view, text = transcript.view, transcript.readable_path.read_bytes()
    transcript.close()
    transcript.readable_path.unlink()
    again = Transcript.open(folder, "s-1", ".transcripts")
    assert again.readable_path.read_bytes() == text
    assert {turn: again.address(turn, turn) for turn in addresses} == addresses
    assert again.view == view
    again.close()


def test_a_behind_readable_file_is_rebuilt(tmp_path: Path) -> None:
    folder = tmp_path / ".transcripts"
    story = Story()
    story.user("one")
    story.user("two")
    transcript = make(folder, story.records)
    transcript.close()
    whole = transcript.readable_path.read_bytes()
    transcript.readable_path.write_bytes(whole[: len(whole) // 2])
    again = Transcript.open(folder, "s-1", ".transcripts")
    assert again.readable_path.read_bytes() == whole
    again.append(UserRecord(3, "three"))
    again.close()
    assert again.readable_path.read_bytes().startswith(whole)


def test_damage_is_one_warning(tmp_path: Path) -> None:
    folder = tmp_path / ".transcripts"
    story = Story()
    for number in range(3):
        story.user(f"message {number}")
    make(folder, story.records).close()
    log = folder / "s-1.jsonl"
    log.write_bytes(log.read_bytes().replace(b"message 1", b"message X"))
    again = Transcript.open(folder, "s-1", ".transcripts")
    (warning,) = again.take_warnings()
    assert "1 damaged record" in warning
    assert again.take_warnings() == []
    assert again.view.turns[-1].messages[0].text == "message 2"
    again.close()


def test_damage_takes_nothing_from_the_readable_file_and_moves_no_address(tmp_path: Path) -> None:
    folder = tmp_path / ".transcripts"
    story = Story()
    for number in range(1, 5):
        story.user(f"message {number}")
        story.blocks(thinking=False, text=f"answer {number}", count=0)
        story.end("end_turn")
    transcript = make(folder, story.records)
    before = {turn: transcript.address(turn, turn) for turn in range(1, 5)}
    transcript.close()
    log = folder / "s-1.jsonl"
    log.write_bytes(log.read_bytes().replace(b"answer 1", b"answer X"))
    for number in range(2):
        again = Transcript.open(folder, "s-1", ".transcripts")
        for turn in range(1, 5):
            assert f"answer {turn}" in lines_at(folder, before[turn])
            assert f"message {turn}" in lines_at(folder, again.address(turn, turn))
        again.append(UserRecord(5 + number, "later"))
        assert "later" in lines_at(folder, again.address(5 + number, 5 + number))
        again.close()
    text = transcript.readable_path.read_text()
    assert text.count("message 1") == 2, "the whole is added once, not at each opening"


def test_an_unknown_session_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SessionError, match="cannot open"):
        Transcript.open(tmp_path / ".transcripts", "nope", ".transcripts")


def test_a_boundary_is_written_but_never_decides_anything(tmp_path: Path) -> None:
    folder = tmp_path / ".transcripts"
    story = Story()
    story.user(f"{BOUNDARY} I only typed this")
    story.user("second")
    transcript = make(folder, story.records)
    assert len(transcript.view.turns) == 2
    transcript.append(
        CompactionRecord("auto", "summary", 2, "short", "short", folded_turns=1, address="x:1-2")
    )
    text = transcript.readable_path.read_text()
    assert f"{BOUNDARY} 1 turns folded (auto, summary)" in text
    assert "> short" in text
    transcript.close()


def test_a_fence_is_longer_than_what_it_holds() -> None:
    text = Renderer().feed(Entry(1, 0.0, ToolResultRecord("t", "````\nx\n````", is_error=False)))
    assert "`````\n````\nx\n````\n`````\n" in text


def test_facts_of_folded_turns_are_saved_with_the_compaction(tmp_path: Path) -> None:
    story = Story()
    for number in range(1, 4):
        story.user(f"always use port 812{number}")
        (call,) = story.blocks(thinking=False, text="Looking.", count=1)
        story.end("tool_use")
        story.result(call, "a long result")
    transcript = make(tmp_path / ".transcripts", story.records)
    stubbed, folded = {call: "[stub]"}, tuple(turn.all_facts for turn in transcript.view.turns[:2])
    transcript.append(CompactionRecord("auto", "summary", 3, "sum", "sum", replaced=stubbed))
    transcript.close()
    saved = [entry.record for entry in LogReader(transcript.log_path)][-1]
    assert isinstance(saved, CompactionRecord)
    assert saved.facts[:2] == folded == transcript.view.past
    assert saved.facts[2:] == (transcript.view.turns[0].facts,)
    again = Transcript.open(tmp_path / ".transcripts", "s-1", ".transcripts")
    assert again.view == transcript.view
    again.close()


def test_a_fork_takes_over_what_only_later_versions_know(tmp_path: Path) -> None:
    folder = tmp_path / ".transcripts"
    make(folder, [SESSION, UserRecord(1, "one")]).close()
    log = folder / "s-1.jsonl"
    known = b'{"v":9,"seq":7,"ts":1.0,"type":"user","turn":"second","said":{"x":[1]}}'
    later = known[:-1] + b',"crc":"%08x"}\n' % zlib.crc32(known)
    log.write_bytes(log.read_bytes() + b"damage\n" + later)
    forked = Transcript.fork(folder, "s-1", "s-2", ".transcripts")
    (warning,) = forked.take_warnings()
    assert "1 damaged" in warning
    assert later in forked.log_path.read_bytes()
    found = read_log(forked.log_path)
    assert found.skipped == 0
    assert isinstance(found.entries[0].record, SessionRecord)
    assert found.entries[0].record.parent == "s-1"
    forked.append(UserRecord(2, "two"))
    assert read_log(forked.log_path).entries[-1].seq == 8
    forked.close()


def test_a_deleted_log_is_made_again_under_its_name(tmp_path: Path) -> None:
    folder = tmp_path / ".transcripts"
    transcript = make(folder, [SESSION, UserRecord(1, "one"), UserRecord(2, "two")])
    address, view = transcript.address(1, 1), transcript.view
    shutil.rmtree(folder)
    transcript.append(UserRecord(3, "three"))
    (warning,) = transcript.take_warnings()
    assert "deleted" in warning
    assert "written anew" in warning
    assert transcript.session_id == "s-1"
    assert transcript.view == apply(view, UserRecord(3, "three"))
    assert "one" in lines_at(folder, address)
    assert (folder / ".gitignore").exists()
    assert (folder / "latest.txt").read_text() == ".transcripts/s-1.md\n"
    transcript.close()
    again = Transcript.open(folder, "s-1", ".transcripts")
    assert again.view == transcript.view
    again.close()


@pytest.mark.parametrize("ending", ["a line", "no newline at the end"])
def test_lines_that_are_not_the_logs_stay_above(tmp_path: Path, ending: str) -> None:
    folder = tmp_path / ".transcripts"
    story = Story()
    story.user("one")
    transcript = make(folder, story.records)
    transcript.close()
    whole = transcript.readable_path.read_bytes()
    other = f"# Another title\n\n{ending}".encode() + b"\n" * (ending == "a line")
    transcript.readable_path.write_bytes(other)
    for _ in range(2):
        again = Transcript.open(folder, "s-1", ".transcripts")
        assert again.readable_path.read_bytes() == other.removesuffix(b"\n") + b"\n" + whole
        assert lines_at(folder, again.address(1, 1)).startswith("## Turn 1 ")
        assert [
            problem for problem in check_session(folder, "s-1").problems if "file" in problem
        ] == []
        again.close()
    transcript.readable_path.unlink()
    assert "is missing" in str(check_session(folder, "s-1").problems)


def test_a_session_that_is_open_elsewhere_leaves_no_file_open(tmp_path: Path) -> None:
    folder = tmp_path / ".transcripts"
    transcript = make(folder, [SESSION, UserRecord(1, "one")])
    open_before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(SessionError, match="another process"):
        Transcript.open(folder, "s-1", ".transcripts")
    assert len(list(Path("/proc/self/fd").iterdir())) == open_before
    transcript.close()


def test_a_readable_file_that_missed_something_catches_up(tmp_path: Path) -> None:
    folder = tmp_path / ".transcripts"
    make(folder, [SESSION, UserRecord(1, "one")]).close()
    readable = folder / "s-1.md"
    readable.unlink()
    readable.mkdir()
    transcript = Transcript.open(folder, "s-1", ".transcripts")
    for turn in (2, 3):
        transcript.append(UserRecord(turn, f"message {turn}"))
    assert {"cannot write" in warning for warning in transcript.take_warnings()} == {True}
    readable.rmdir()
    transcript.append(UserRecord(4, "message 4"))
    for turn in (2, 3, 4):
        assert f"message {turn}" in lines_at(folder, transcript.address(turn, turn))
    assert transcript.take_warnings() == []
    transcript.close()


def test_a_readable_file_that_a_full_disk_cut_short_catches_up(tmp_path: Path) -> None:
    folder = tmp_path / ".transcripts"
    make(folder, [SESSION, *(UserRecord(turn, "word " * 200) for turn in (1, 2))]).close()
    log = folder / "s-1.jsonl"
    log.write_bytes(log.read_bytes().replace(b"word", b"Word", 1))
    transcript = Transcript.open(folder, "s-1", ".transcripts")
    transcript.take_warnings()
    size = transcript.readable_path.stat().st_size
    assert size > log.stat().st_size + 500, "it holds what the damage took, too"
    with FullDisk(size + 20):
        transcript.append(UserRecord(3, "three"))
    assert transcript.readable_path.stat().st_size == size + 20
    (warning,) = transcript.take_warnings()
    assert "s-1.md" in warning
    transcript.append(UserRecord(4, "four"))
    for turn, text in ((2, "word"), (3, "three"), (4, "four")):
        assert text in lines_at(folder, transcript.address(turn, turn))
    transcript.close()
