"""The commands about past sessions, as a person types them."""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.support import Brain, run_agent
from tests.server.replies import Reply
from tests.server.server import MessagesServer


def three_sessions(folder: Path) -> list[str]:
    """Their ids, newest first."""
    ids = []
    with MessagesServer(script=Brain([Reply("Noted.") for _ in range(4)])) as server:
        for number in range(3):
            arguments = ["chat", "-p", f"question {number}", "--output-format", "json"]
            ids.append(json.loads(run_agent(arguments, folder, server).stdout)["session_id"])
        run_agent(["chat", "-p", "one more", "-c"], folder, server)
    return ids[::-1]


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
