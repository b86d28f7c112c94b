"""The commands about past sessions, as a person types them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from agent.transcript.store import Transcript
from tests.e2e.support import Brain, environment, run_agent, save_turn, three_sessions
from tests.server.replies import Reply
from tests.server.server import MessagesServer


def test_sessions_are_listed_and_one_bad_file_hides_no_other(tmp_path: Path) -> None:
    ids = three_sessions(tmp_path)
    (tmp_path / ".transcripts" / "bad.jsonl").write_bytes(b"\xff\x00 not a log")
    listed = run_agent(["sessions"], tmp_path, None)
    assert listed.returncode == 0, listed.stderr
    assert all(session_id in listed.stdout for session_id in ids)
    assert "question 2" in listed.stdout
    rows = [
        json.loads(line)
        for line in run_agent(["sessions", "--json"], tmp_path, None).stdout.splitlines()
    ]
    found = {row["id"]: row for row in rows}
    assert found[ids[0]]["turns"] == 2
    assert found[ids[0]]["first_words"] == "question 2"
    assert found[ids[0]]["tokens"] > 1_000
    assert found[ids[0]]["folder"] == str(tmp_path / ".transcripts")
    assert "2 turns" in listed.stdout
    assert re.search(r"\d\.\dk tokens", listed.stdout)


def test_the_doctor_says_what_is_wrong_and_changes_nothing(tmp_path: Path) -> None:
    ids = three_sessions(tmp_path)
    folder = tmp_path / ".transcripts"
    assert run_agent(["doctor"], tmp_path, None).returncode == 0
    log = folder / f"{ids[0]}.jsonl"
    log.write_bytes(log.read_bytes().replace(b"Noted", b"Nated", 1)[:-4])
    (folder / f"{ids[1]}.md").unlink()
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    done = run_agent(["doctor"], tmp_path, None)
    assert done.returncode == 1
    assert "2 damaged lines" in done.stdout
    assert "torn" in done.stdout
    assert "readable file is missing" in done.stdout
    assert before == {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    repaired = run_agent(["doctor", ids[0], "--repair"], tmp_path, None)
    new = repaired.stdout.split("--resume ")[1].split()[0]
    assert log.read_bytes() == before[log.name]
    assert "well" in run_agent(["doctor", new], tmp_path, None).stdout
    assert run_agent(["doctor", "nope"], tmp_path, None).returncode == 2


def test_the_sessions_of_every_folder_are_listed_and_missing_ones_skipped(tmp_path: Path) -> None:
    state = str(tmp_path / "state")
    places = [tmp_path / name for name in ("one", "two", "gone")]
    places[0].mkdir()
    three_sessions(places[0])
    with MessagesServer(script=Brain([Reply("Noted."), Reply("Noted.")])) as server:
        for place in places[1:]:
            place.mkdir()
            done = run_agent(
                ["chat", "-p", f"in {place.name}"], place, server, XDG_STATE_HOME=state
            )
            assert done.returncode == 0, done.stderr
    places[2].rename(tmp_path / "moved")

    def listed(*options: str) -> str:
        return run_agent(["sessions", *options], places[0], None, XDG_STATE_HOME=state).stdout

    assert "in two" not in listed()
    shown = listed("--all")
    assert [line for line in shown.splitlines() if line.startswith("/")] == [
        str(places[1] / ".transcripts"),
        str(places[0] / ".transcripts"),
    ]
    assert "question 0" in shown
    assert "in two" in shown
    assert "in gone" not in shown
    rows = [json.loads(line) for line in listed("--all", "--json").splitlines()]
    assert [row["first_words"] for row in rows][:2] == ["in two", "question 2"]
    for path in (tmp_path / "state").rglob("folders.jsonl"):
        path.unlink()
    assert "question 2" in listed("--all"), "this folder needs no list"


def test_a_session_is_shown_from_its_log_alone_also_while_it_is_open(tmp_path: Path) -> None:
    ids = three_sessions(tmp_path)
    folder = tmp_path / ".transcripts"
    (folder / f"{ids[0]}.md").write_text("not what was said")
    (folder / f"{ids[1]}.md").unlink()
    held = Transcript.open(folder, ids[2], str(folder))
    for session_id, words in zip(ids, ("question 2", "question 1", "question 0"), strict=True):
        shown = run_agent(["show", session_id], tmp_path, None)
        assert (shown.returncode, shown.stderr) == (0, "")
        assert shown.stdout.startswith(f"# Session {session_id}\n")
        assert words in shown.stdout
        assert "Noted." in shown.stdout
    held.close()
    assert (folder / f"{ids[0]}.md").read_text() == "not what was said"
    assert not (folder / f"{ids[1]}.md").exists()
    newest = run_agent(["show"], tmp_path, None).stdout
    assert "one more" in newest
    log = folder / f"{ids[0]}.jsonl"
    raw = run_agent(["show", "--raw", ids[0]], tmp_path, None).stdout
    assert raw.encode() == log.read_bytes()


def test_what_is_damaged_is_told_beside_what_is_shown_and_exported(tmp_path: Path) -> None:
    ids = three_sessions(tmp_path)
    log = tmp_path / ".transcripts" / f"{ids[0]}.jsonl"
    log.write_bytes(log.read_bytes().replace(b"Noted", b"Nated", 1))
    shown = run_agent(["show", ids[0]], tmp_path, None)
    assert "one more" in shown.stdout
    assert "1 damaged line left out; agent doctor says more" in shown.stderr
    done = run_agent(["export", ids[0], "out.html"], tmp_path, None)
    assert (done.returncode, done.stdout) == (0, "written to out.html\n")
    assert "1 damaged line left out" in done.stderr
    assert "one more" in (tmp_path / "out.html").read_text()


def test_exports_are_refused_in_one_line(tmp_path: Path) -> None:
    ids = three_sessions(tmp_path)
    assert run_agent(["export", ids[0], "out.json"], tmp_path, None).returncode == 0
    assert json.loads((tmp_path / "out.json").read_text())["session"]["id"] == ids[0]
    for target, why in (
        ("out.json", "exists"),
        ("out.pdf", "must end in"),
        ("no/out.md", "No such"),
    ):
        done = run_agent(["export", ids[0], target], tmp_path, None)
        assert (done.returncode, done.stdout) == (2, "")
        assert re.fullmatch(rf"agent: .*{why}.*\n", done.stderr)


@pytest.mark.parametrize(
    "command",
    [["show"], ["show", "--raw"], ["doctor"], ["export"], ["chat", "-p", "go on", "--resume"]],
    ids=" ".join,
)
def test_an_unknown_or_ambiguous_id_is_one_line_that_says_what_to_do(
    tmp_path: Path, command: list[str]
) -> None:
    ids = three_sessions(tmp_path)
    shortest = next(n for n in range(1, 30) if sum(i.startswith(ids[0][:n]) for i in ids) == 1)
    more = ["out.md"] if command == ["export"] else []
    with MessagesServer(script=Brain([Reply("Going on.")])) as server:
        for wanted, why in ((ids[0][:4], "ambiguous.*type more"), ("nope", "agent sessions lists")):
            done = run_agent([*command, wanted, *more], tmp_path, server)
            assert (done.returncode, done.stdout) == (2, "")
            assert re.fullmatch(rf"agent: .*{why}.*\n", done.stderr)
        done = run_agent([*command, ids[0][:shortest], *more], tmp_path, server)
        assert done.returncode == 0, done.stderr


def test_a_reader_that_leaves_early_meets_no_traceback(tmp_path: Path) -> None:
    ids = three_sessions(tmp_path)
    folder = tmp_path / ".transcripts"
    transcript = Transcript.open(folder, ids[0], ".transcripts")
    save_turn(transcript, "much", "word " * 40_000)
    transcript.close()
    for options in ([], ["--raw"]):
        started = subprocess.Popen(
            [sys.executable, "-m", "agent", "show", ids[0], *options],
            cwd=tmp_path,
            env=environment(None, tmp_path),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert started.stdout is not None
        assert started.stderr is not None
        assert started.stdout.read(10)
        started.stdout.close()
        assert started.stderr.read() == b""
        started.stderr.close()
        started.wait()
