"""AGENTS.md in a session: told from the start, frozen, and its changes mentioned once."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.events import Notice
from tests.e2e.support import Brain, collect, open_session, run_agent, send
from tests.e2e.test_terminal import say, terminal
from tests.server.replies import Reply
from tests.server.server import MessagesServer

LARGE = 100_000


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    own = tmp_path / "config" / "agent-chat"
    own.mkdir(parents=True)
    (own / "AGENTS.md").write_text("Answer in verse.")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with instructions."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "AGENTS.md").write_text("Use tabs.")
    return project


async def test_the_system_prompt_stays_the_same_to_the_byte(folder: Path) -> None:
    with MessagesServer(script=Brain([Reply(f"Noted {n}.") for n in range(9)])) as server:
        async with open_session(server, folder) as session:
            for number in range(3):
                await send(session, f"question {number} " + "word " * 300)
            (folder / "AGENTS.md").write_text("Use spaces.")
            await collect(session.compact())
            await send(session, "after the compaction")
            started_as = session.id
        async with open_session(server, folder, started_as) as session:
            await send(session, "after resuming")
            session.fork()
            await send(session, "in a fork")
            session.reset()
            await send(session, "in a new session")
        *before, fresh = [str(request.body["system"]) for request in server.messages_requests]
    assert len(before) == 7
    assert len(set(before)) == 1
    assert before[0].index("Answer in verse.") < before[0].index("Use tabs.")
    assert fresh == before[0].replace("Use tabs.", "Use spaces.")


async def test_a_change_is_mentioned_once(folder: Path) -> None:
    with MessagesServer(script=Brain([Reply("Noted.")] * 5)) as server:
        async with open_session(server, folder) as session:

            async def notices(text: str) -> list[str]:
                events = await collect(session.send(text))
                return [event.text for event in events if isinstance(event, Notice)]

            assert session.take_warnings() == []
            assert await notices("one") == []
            (folder / "AGENTS.md").write_text("Use spaces.")
            (told,) = await notices("two")
            assert told.startswith("AGENTS.md changed since this session began")
            (folder / "AGENTS.md").write_text("Use nothing.")
            assert await notices("three") == []
            session.reset()
            assert await notices("four") == []
            (folder / "AGENTS.md").unlink()
            assert len(await notices("five")) == 1
            session_id = session.id
        async with open_session(server, folder) as session:
            (told,) = session.resume(session_id)
            assert "/reset" in told
            assert session.take_warnings() == []


async def test_too_long_a_file_is_told_and_cut(folder: Path) -> None:
    (folder / "AGENTS.md").write_text("x" * LARGE)
    with MessagesServer(script=Brain([])) as server:
        async with open_session(server, folder) as session:
            (told,) = session.take_warnings()
            assert told.startswith("AGENTS.md is too long")
            assert len(session.system) < LARGE
            assert session.take_warnings() == []


async def test_another_prompt_keeps_them_and_none_leaves_them_out(folder: Path) -> None:
    (folder / "prompt.md").write_text("You are a poet.")
    with MessagesServer(script=Brain([Reply("Yes.")])) as server:
        async with open_session(server, folder, system_file=folder / "prompt.md") as session:
            assert session.system.startswith("You are a poet.\n\n# Standing instructions")
            assert "Use tabs." in session.system
        async with open_session(server, folder, no_system=True) as session:
            assert session.system == ""
            await send(session, "hello")
            (folder / "AGENTS.md").write_text("Use spaces.")
            assert session.take_warnings() == []
        assert "system" not in server.messages_requests[0].body


def test_one_shot_mode_tells_it_on_stderr(folder: Path) -> None:
    with MessagesServer(script=Brain([Reply("One."), Reply("Two.")])) as server:
        first = run_agent(["chat", "-p", "hello"], folder, server)
        (folder / "AGENTS.md").write_text("Use spaces.")
        second = run_agent(["chat", "-p", "-c", "hello"], folder, server)
    assert (first.stdout, first.stderr) == ("One.\n", "")
    assert second.stdout == "Two.\n"
    assert second.stderr.count("AGENTS.md changed since this session began") == 1


def test_it_is_seen_on_the_terminal(folder: Path) -> None:
    with (
        MessagesServer(script=Brain([Reply("Noted.")] * 2)) as server,
        terminal(server, folder) as chat,
    ):
        chat.wait_for_prompt()
        say(chat, "/system", "Use tabs.")
        (folder / "AGENTS.md").write_text("Use spaces.")
        say(chat, "hello", "AGENTS.md changed since this session began")
        say(chat, "hello again", "Noted.")
        assert chat.picture.count("AGENTS.md changed") == 1
        say(chat, "/reset", "/reset")
        say(chat, "/system", "Use spaces.")
