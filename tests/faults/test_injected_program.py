"""The whole program on a disk that fails, and in a terminal on one that is full for a while."""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from agent.context.validity import history_fault
from agent.transcript.log import read_log
from agent.transcript.records import Record, ToolStartRecord
from agent.transcript.sessions import session_ids
from agent.transcript.store import Transcript
from tests.e2e.support import Brain, environment, run_agent
from tests.e2e.test_terminal import say, terminal
from tests.faults.injection import Fault, Traced, run_traced, why_not
from tests.server.demo import demo_reply
from tests.server.replies import Reply, ToolUse
from tests.server.server import MessagesServer

WHOLE = os.environ.get("TEST_PROFILE") == "faults"
UNABLE = why_not()
PROMPT, ANSWER = "append a line, please", "One line was appended."


def script() -> Brain:
    call = ToolUse("shell", {"command": "echo ran >> ran.txt"})
    return Brain([Reply("I will.", tool_uses=[call]), Reply(ANSWER), Reply("Going on.")])


def records(folder: Path) -> list[Record]:
    """The records of all sessions."""
    logs = [folder / f"{name}.jsonl" for name in session_ids(folder)]
    return [entry.record for log in logs for entry in read_log(log).entries]


def faults() -> Iterator[tuple[Fault, bool]]:
    """Faults, and whether only in calls on the session's log and readable file."""
    for call, error, most, on_files in (
        ("write", "ENOSPC", 18, True),
        ("write", "EIO", 18, True),
        ("fsync", "EIO", 9, True),
        ("fsync", "EIO", 13, False),
        ("openat", "EIO", 4, True),
    ):
        for number in range(1, most + 1):
            for when in (f"{number}", f"{number}+"):
                yield Fault(call, error, when), on_files


def check(cwd: Path, done: Traced, requests: Sequence[Mapping[str, Any]], about: object) -> None:
    assert done.code in {0, 1, 2}, (about, done.stderr)
    assert "Traceback" not in done.stderr, (about, done.stderr)
    assert not done.grave or "cannot" in done.stderr, (about, done.stderr, done.hit)
    kept = records(cwd / ".transcripts")
    if requests:
        assert PROMPT in repr(kept), "the user's words are on disk before the request"
    ran = (cwd / "ran.txt").read_text().count("ran") if (cwd / "ran.txt").exists() else 0
    assert ran <= 1, about
    assert ran == 0 or any(isinstance(record, ToolStartRecord) for record in kept), about
    if done.code != 0:
        return
    result = json.loads(done.stdout)
    transcript = Transcript.open(cwd / ".transcripts", result["session_id"], ".transcripts")
    assert history_fault(transcript.view.messages) == "", about
    texts = [message.text for message in transcript.view.messages]
    assert texts[-1] == result["result"] == ANSWER, about
    assert PROMPT in texts, about
    transcript.close()


@pytest.mark.skipif(bool(UNABLE), reason=UNABLE or "strace can be used")
def test_a_failing_disk_is_told_and_the_session_goes_on(tmp_path: Path) -> None:
    base = tmp_path / "base"
    base.mkdir()
    arguments = ["chat", "-p", "--approval", "yolo", "--output-format", "json"]
    cases = list(faults())
    if not WHOLE:
        cases = random.Random(7).sample(cases, 3)
    with MessagesServer(script=Brain([Reply("Noted.")])) as server:
        begun = json.loads(run_agent([*arguments, "remember 8123"], base, server).stdout)
        for number, (fault, on_files) in enumerate(cases):
            cwd = tmp_path / str(number)
            shutil.copytree(base, cwd)
            log = cwd / ".transcripts" / f"{begun['session_id']}.jsonl"
            server.script, before = script(), len(server.messages_requests)
            done = run_traced(
                [sys.executable, "-m", "agent", *arguments, "--resume", log.stem, PROMPT],
                [fault.call],
                [fault],
                [log, log.with_suffix(".md")] if on_files else (),
                cwd=cwd,
                env=environment(server, cwd),
            )
            requests = [request.body for request in server.messages_requests[before:]]
            check(cwd, done, requests, (fault, on_files))
            server.script = Brain([Reply("Going on.")])
            again = run_agent([*arguments, "--resume", "--", "still there?"], cwd, server)
            assert again.returncode == 0, (fault, again.stderr)
            assert "remember 8123" in str(server.messages_requests[-1].messages)
            shutil.rmtree(cwd)
        assert {request.status for request in server.messages_requests} == {200}


def test_a_full_disk_in_the_terminal(tmp_path: Path) -> None:
    with (
        MessagesServer(script=demo_reply) as server,
        terminal(server, tmp_path) as chat,
    ):
        chat.wait_for_prompt()
        say(chat, "remember the port is 8123", "context")
        (log,) = (tmp_path / ".transcripts").glob("*.jsonl")
        before = log.read_bytes()
        most = resource.prlimit(chat.process_id, resource.RLIMIT_FSIZE)
        resource.prlimit(chat.process_id, resource.RLIMIT_FSIZE, (len(before) + 50, most[1]))
        sent = len(server.messages_requests)
        for count in (1, 2):
            chat.type("what did I say about port\r" if count == 1 else "\r")
            chat.wait_for_count("cannot write the transcript", count)
            chat.wait_until(lambda: chat.lines[-1] == "> what did I say about port", "the text")
        assert "free some space or check the disk" in chat.picture
        assert len(server.messages_requests) == sent
        assert log.read_bytes() == before
        resource.prlimit(chat.process_id, resource.RLIMIT_FSIZE, most)
        chat.type("\r")
        chat.wait_for("you said")
        chat.wait_for_prompt()
        chat.type("\x04")
        assert chat.exit_code() == 0
        assert "Traceback" not in chat.picture
        assert log.read_bytes().startswith(before)


def test_a_deleted_log_is_written_anew_before_the_next_prompt(tmp_path: Path) -> None:
    with (
        MessagesServer(script=demo_reply) as server,
        terminal(server, tmp_path) as chat,
    ):
        chat.wait_for_prompt()
        say(chat, "remember the port is 8123", "context")
        shutil.rmtree(tmp_path / ".transcripts")
        chat.type("what did I say about port\r")
        chat.wait_for("it was written anew")
        chat.wait_for_prompt()
        assert "8123" in repr(records(tmp_path / ".transcripts"))
        (readable,) = (tmp_path / ".transcripts").glob("2*.md")
        assert "what did I say" in readable.read_text()
        shutil.rmtree(tmp_path / ".transcripts")
        chat.type("/model claude-haiku-4-5\r")
        chat.wait_for_count("it was written anew", 2)
        chat.wait_for_prompt()
