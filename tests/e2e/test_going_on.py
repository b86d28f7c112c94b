"""Turns that end early for the next text, and commands of the user's own."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agent.errors import AgentError
from agent.events import ToolCallFinished, TurnFinished
from tests.e2e.support import Brain, collect, open_session, send
from tests.server.replies import Reply, ToolUse
from tests.server.server import MessagesServer

TWO_CALLS = Reply(
    "Looking.",
    tool_uses=[ToolUse("list_dir", {"path": "."}), ToolUse("list_dir", {"path": "."})],
)


async def test_a_turn_yields_after_all_results_and_before_a_request(tmp_path: Path) -> None:
    with MessagesServer(script=Brain([TWO_CALLS, Reply("Now this.")])) as server:
        async with open_session(server, tmp_path) as session:
            events = await collect(session.send("look", lambda: True))
            assert sum(isinstance(event, ToolCallFinished) for event in events) == 2
            end = events[-1]
            assert isinstance(end, TurnFinished)
            assert (end.error, end.requests) == (None, 1)
            assert "the user went on" in session.transcript.read_text()
            assert (await send(session, "rather this")).text == "Now this."
        requests = server.messages_requests
        assert [request.status for request in requests] == [200, 200]
        results = [
            block["content"]
            for message in requests[-1].messages
            for block in message["content"]
            if block["type"] == "tool_result"
        ]
        assert len(results) == 2
        assert not any("Interrupted" in str(result) for result in results)


async def test_a_turn_without_calls_has_nothing_to_yield(tmp_path: Path) -> None:
    with MessagesServer(script=Brain([Reply("Whole.")])) as server:
        async with open_session(server, tmp_path) as session:
            end = (await collect(session.send("hello", lambda: True)))[-1]
            assert isinstance(end, TurnFinished)
            assert end.text == "Whole."
            assert "the user went on" not in session.transcript.read_text()


async def test_what_a_command_prints_goes_with_the_next_message_once(tmp_path: Path) -> None:
    with MessagesServer(script=Brain([Reply("I see."), Reply("Yes.")])) as server:
        async with open_session(server, tmp_path) as session:
            shown: list[str] = []
            ending = await session.run_command("echo hi; exit 3", shown.append, attach=True)
            assert (ending, "".join(shown)) == ("[exit code 3]", "hi\n")
            await session.run_command("echo secret", shown.append, attach=False)
            await send(session, "what is this?")
            await send(session, "and now?")
        first, second = (request.messages for request in server.messages_requests)
        texts = [block["text"] for block in first[0]["content"]]
        assert texts == ["what is this?", "[I ran: echo hi; exit 3]\nhi\n[exit code 3]"]
        assert len(second[-1]["content"]) == 1
        assert "secret" not in str(second)


async def test_a_long_output_is_capped_and_whole_on_disk(tmp_path: Path) -> None:
    with MessagesServer(script=Brain([Reply("Long.")])) as server:
        async with open_session(server, tmp_path) as session:
            await session.run_command("seq 100000", lambda _: None, attach=True)
            await send(session, "look")
            attached = server.messages_requests[-1].messages[0]["content"][1]["text"]
            assert len(attached) < 40_000
            assert "the whole output: read_file(path=" in attached
            (kept,) = (tmp_path / ".transcripts" / session.id).glob("*command.txt")
            assert kept.read_text().startswith("1\n2\n")
            assert "\n100000\n" in kept.read_text()


async def test_a_stopped_command_leaves_what_it_printed(tmp_path: Path) -> None:
    with MessagesServer(script=Brain([Reply("Stopped.")])) as server:
        async with open_session(server, tmp_path) as session:
            printed = asyncio.Event()
            running = asyncio.create_task(
                session.run_command("echo begun; sleep 60", lambda _: printed.set(), attach=True)
            )
            await printed.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            await send(session, "why?")
        attached = server.messages_requests[-1].messages[0]["content"][1]["text"]
        assert attached == "[I ran: echo begun; sleep 60]\nbegun\n[stopped by the user]"


async def test_a_command_that_cannot_be_run_says_so(tmp_path: Path) -> None:
    with MessagesServer(script=Brain([])) as server:
        async with open_session(server, tmp_path) as session:
            with pytest.raises(AgentError, match="NUL"):
                await session.run_command("a\0b", lambda _: None, attach=True)
