"""What the flags and commands of permission do, in the whole program."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.support import open_session, run_agent, send
from tests.server.replies import Reply, ToolUse
from tests.server.server import MessagesServer


def shell(*commands: str) -> list[Reply]:
    calls = [ToolUse("shell", {"command": command}) for command in commands]
    return [Reply("", tool_uses=calls), Reply("Done.")]


def test_an_allowed_command_is_run_unasked_and_no_other(tmp_path: Path) -> None:
    with MessagesServer(script=shell("touch a b", "touch a b; touch c", "touch d")) as server:
        arguments = ["chat", "--allow", "touch a b", "--allow", "touch d", "-p", "go"]
        assert run_agent(arguments, tmp_path, server).returncode == 0
        told = str(server.messages_requests[-1].body["messages"][-1])
    assert {path.name for path in tmp_path.iterdir()} >= {"a", "b", "d"}
    assert not (tmp_path / "c").exists()
    assert told.count("nobody can be asked") == 1


def test_allowing_does_not_widen_read_only(tmp_path: Path) -> None:
    with MessagesServer(script=shell("touch a")) as server:
        arguments = ["chat", "--approval", "read-only", "--allow", "touch a", "-p", "go"]
        assert run_agent(arguments, tmp_path, server).returncode == 0
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("flag", ["--sandbox", "--no-sandbox"])
def test_the_sandbox_is_the_users_choice(tmp_path: Path, flag: str) -> None:
    # Where the working folder is the home there is none that works.
    with MessagesServer(script=shell("touch a")) as server:
        arguments = ["chat", "--approval", "yolo", flag, "-p", "go"]
        assert run_agent(arguments, tmp_path, server).returncode == 0
        told = str(server.messages_requests[-1].body["messages"][-1])
    assert (tmp_path / "a").exists() is (flag == "--no-sandbox")
    assert ("no sandbox works here" in told) is (flag == "--sandbox")


async def test_an_edit_is_undone_also_after_resuming(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("before\n")
    edit = ToolUse("edit_file", {"path": "a.txt", "old_text": "before", "new_text": "after"})
    with MessagesServer(script=[Reply("", tool_uses=[edit]), Reply("Done.")]) as server:
        async with open_session(server, tmp_path, approval="auto-edit") as session:
            await send(session, "go")
            session_id = session.id
        assert (tmp_path / "a.txt").read_text() == "after\n"
        async with open_session(server, tmp_path, session_id) as session:
            assert session.undo_edit() == "a.txt is as it was before the last edit"
            assert session.undo_edit() == "there is no edit to undo"
    assert (tmp_path / "a.txt").read_text() == "before\n"


async def test_a_file_changed_by_somebody_else_is_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one\n")
    read = ToolUse("read_file", {"path": "a.txt"})
    write = ToolUse("write_file", {"path": "a.txt", "content": "mine\n"})
    script = [
        *(Reply("", tool_uses=[read]), Reply("Read.")),
        *(Reply("", tool_uses=[write]), Reply("Oh.")),
    ]
    with MessagesServer(script=script) as server:
        async with open_session(server, tmp_path, approval="yolo") as session:
            await send(session, "read")
            file.write_text("the user's\n")
            await send(session, "write")
            (result,) = session.messages()[-2].tool_results
    assert "has changed since it was last read" in result.content
    assert file.read_text() == "the user's\n"
