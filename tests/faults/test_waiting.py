"""Waiting is visible, ours to decide, and bounded where nobody watches."""

from __future__ import annotations

import json
import re
import socketserver
import threading
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from agent.events import Event, RetryScheduled, ServerQuiet
from agent.transcript.log import read_log
from agent.transcript.records import BlockRecord
from tests.e2e.support import (
    Brain,
    collect,
    is_summary_request,
    open_session,
    run_agent,
    send,
)
from tests.e2e.test_terminal import say, terminal
from tests.faults.catalogue import TEXT, whole
from tests.harness import finished
from tests.server.replies import HttpFault, Reply, Step, StreamFault, overloaded
from tests.server.server import MessagesServer
from tests.ui.terminal import Chat

STALL = StreamFault("stall", whole("true"), within="text", seconds=60.0)


def counted_down(chat: Chat, pattern: str, least: int) -> None:
    """See that a figure on the screen becomes smaller, at least so many times."""
    seen: list[int] = []

    def look() -> bool:
        for found in re.finditer(pattern, chat.picture):
            if not seen or int(found[1]) < seen[-1]:
                seen.append(int(found[1]))
        return len(seen) > least

    chat.wait_until(look, f"{pattern}, counting down")


def test_silence_within_an_answer_is_told_and_counted_down(tmp_path: Path) -> None:
    with (
        MessagesServer(script=Brain([STALL, Reply("At last.")])) as server,
        terminal(server, tmp_path, AGENT_NO_BYTES_SECONDS="9") as chat,
    ):
        chat.wait_for_prompt()
        chat.type("go\r")
        chat.wait_for("nothing from the server for 5 s: waiting at most 4 s more")
        assert TEXT[:10] in chat.picture
        counted_down(chat, r"waiting at most (\d+) s more", 2)
        chat.wait_for("the server sent nothing for 9 s: trying again in 1 s")
        chat.wait_for("At last.")
        chat.wait_for_prompt()
        assert "nothing from the server for" not in chat.picture, "the line has left no trace"
        assert chat.picture.count("The answer begins") == 1


def test_signs_of_life_are_no_content(tmp_path: Path) -> None:
    pinging = StreamFault("stall", within="thinking", reply=whole("true"), seconds=60.0, pings=True)
    with (
        MessagesServer(script=Brain([pinging, Reply("At last.")])) as server,
        terminal(server, tmp_path, AGENT_NO_CONTENT_SECONDS="8") as chat,
    ):
        chat.wait_for_prompt()
        chat.type("go\r")
        chat.wait_for("the server is there, but has sent no content for 5 s")
        chat.wait_for("the server sent no content for 8 s: trying again in 1 s")
        chat.wait_for("At last.")


def test_a_busy_server_is_counted_down_also_for_a_summary(tmp_path: Path) -> None:
    busy = [overloaded(8.0), overloaded(8.0)]

    def script(body: Mapping[str, Any], number: int) -> Step:
        if is_summary_request(body):
            return busy.pop() if busy else Reply("Briefly: nothing much.", first_delay=1.5)
        return Reply("word " * 300)

    with MessagesServer(script=script) as server, terminal(server, tmp_path) as chat:
        chat.wait_for_prompt()
        say(chat, "tell me", "context")
        chat.type("/compact\r")
        counted_down(chat, r"529: Overloaded: trying again in (\d+) s", 4)
        counted_down(chat, r"trying again in (\d+) s \(attempt 2\)", 4)
        chat.wait_for("compacting")
        chat.wait_for("📦")
        chat.wait_for_prompt()


def test_ctrl_c_ends_a_wait_and_keeps_what_was_received(tmp_path: Path) -> None:
    cut = StreamFault("close", whole("true"), within="text")
    steps: list[Step] = [cut, overloaded(50.0), Reply("Here.")]
    with MessagesServer(script=Brain(steps)) as server, terminal(server, tmp_path) as chat:
        chat.wait_for_prompt()
        chat.type("go\r")
        chat.wait_for("trying again in 1 s")
        chat.type("\x03")
        chat.wait_for("interrupted")
        chat.wait_for_prompt()
        chat.type("again\r")
        chat.wait_for("trying again in 5")
        chat.type("\x03")
        assert chat.wait_for_prompt() < 2.0
        say(chat, "and now?", "Here.")
        sent = str(server.messages_requests[-1].messages)
        assert TEXT[:10] in sent, "what was received before the break is kept"


def test_a_script_gets_one_plain_line(tmp_path: Path) -> None:
    slow = StreamFault("stall", Reply("Slow."), after_events=2, seconds=8.0)
    with MessagesServer(script=Brain([overloaded(0.1), slow])) as server:
        done = run_agent(["chat", "-p", "go", "--output-format", "stream-json"], tmp_path, server)
    assert done.returncode == 0
    assert re.fullmatch(
        r"the server answered 529: Overloaded: trying again in 0 s\n"
        r"nothing from the server for [56] s: waiting at most 5\d s more\n",
        done.stderr,
    ), done.stderr
    kinds = [json.loads(line)["type"] for line in done.stdout.splitlines()]
    assert (kinds.count("retry_scheduled"), kinds.count("server_quiet")) == (1, 1)


@pytest.mark.parametrize("fault", [overloaded(0.3), StreamFault("close")])
def test_giving_up_exits_with_75_and_everything_is_saved(tmp_path: Path, fault: Step) -> None:
    with MessagesServer(script=Brain([fault] * 9)) as server:
        limit = {"AGENT_RETRY_LIMIT_SECONDS": "4"}
        done = run_agent(["chat", "-p", "remember 8123"], tmp_path, server, **limit)
        assert done.returncode == 75, done.stderr
        assert "Traceback" not in done.stderr
        server.script = Brain([Reply("8123.")])
        done = run_agent(["chat", "-p", "and?", "-c"], tmp_path, server)
        assert done.stdout == "8123.\n"
        assert "remember 8123" in str(server.messages_requests[-1].messages)


async def first_retry(events: AsyncGenerator[Event, None]) -> RetryScheduled:
    async with aclosing(events) as stream:
        async for event in stream:
            if isinstance(event, RetryScheduled):
                return event
    raise AssertionError("there was no retry")


@pytest.mark.parametrize("header", ["3600", "date", "nan", "-5", "soon", "inf"])
async def test_a_wish_is_granted_up_to_a_minute_and_nonsense_is_none(
    tmp_path: Path, header: str
) -> None:
    value = formatdate(time.time() + 40, usegmt=True) if header == "date" else header
    busy = HttpFault(429, "{}", {"retry-after": value})
    with MessagesServer(script=Brain([busy])) as server:
        async with open_session(server, tmp_path, patient=True) as session:
            seconds = (await first_retry(session.send("go"))).seconds
    expected = {"3600": (60.0, 60.0), "date": (35.0, 50.0), "-5": (0.0, 0.1)}
    least, most = expected.get(header, (0.7, 1.0))
    assert least <= seconds <= most


async def test_every_retry_is_ours(tmp_path: Path) -> None:
    statuses = (408, 409, 429, 500, 502, 503, 529)
    busy = [HttpFault(status, "{}", {"retry-after": "0"}) for status in statuses]
    with MessagesServer(script=Brain([*busy, Reply("Here.")])) as server:
        async with open_session(server, tmp_path) as session:
            events = await collect(session.send("go"))
        retries = [event for event in events if isinstance(event, RetryScheduled)]
        assert len(retries) == len(busy) == len(server.messages_requests) - 1
        assert {r.headers["x-stainless-retry-count"] for r in server.messages_requests} == {"0"}
    assert finished(events).text == "Here."


@pytest.mark.parametrize("pings", [False, True])
async def test_both_watchdogs_bite_and_what_came_before_is_on_disk(
    tmp_path: Path, pings: bool
) -> None:
    stall = StreamFault("stall", whole("true"), within="text", seconds=60.0, pings=pings)
    with MessagesServer(script=Brain([stall, Reply("Here.")])) as server:
        async with open_session(
            server, tmp_path, no_bytes_seconds=1.5, no_content_seconds=7.0
        ) as session:
            events = await collect(session.send("go"))
            log = read_log(session.transcript.with_suffix(".jsonl"))
    (retry,) = [event for event in events if isinstance(event, RetryScheduled)]
    quiet = [event for event in events if isinstance(event, ServerQuiet)]
    assert retry.reason.endswith("no content for 7 s" if pings else "sent nothing for 1.5 s")
    assert [event.alive for event in quiet] == [True, True] * pings
    assert all(event.seconds + event.left == pytest.approx(7.0, abs=0.1) for event in quiet)
    blocks = [str(e.record.block) for e in log.entries if isinstance(e.record, BlockRecord)]
    assert any(TEXT[:10] in block for block in blocks)


async def test_text_that_came_before_a_silence_is_saved_within_it(tmp_path: Path) -> None:
    with MessagesServer(script=Brain([STALL])) as server:
        async with (
            open_session(server, tmp_path) as session,
            aclosing(session.send("go")) as events,
        ):
            async for event in events:
                if isinstance(event, ServerQuiet):
                    break
            assert "The answer" in session.transcript.with_suffix(".jsonl").read_text()


def redirecting(target: str, seen: list[str]) -> type[socketserver.BaseRequestHandler]:
    """Sends every request on to another server."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            path = self.request.recv(1 << 20).split()[1].decode()
            seen.append(path)
            head = f"HTTP/1.1 307 Go\r\nLocation: {target}{path}\r\nContent-Length: 0"
            self.request.sendall(f"{head}\r\nConnection: close\r\n\r\n".encode())

    return Handler


async def test_a_redirect_takes_neither_key_nor_conversation_along(tmp_path: Path) -> None:
    seen: list[str] = []
    with MessagesServer(script=Brain([])) as other:
        handler = redirecting(other.url, seen)
        with socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler) as gateway:
            threading.Thread(target=gateway.serve_forever, daemon=True).start()
            url = f"http://127.0.0.1:{gateway.server_address[1]}"
            async with open_session(other, tmp_path, base_url=url) as session:
                end = await send(session, "remember 8123")
                await session._engine.ask_size()
            gateway.shutdown()
        assert other.requests == []
    assert {path.split("?")[0].split("/")[2] for path in seen} == {"models", "messages"}
    assert any("count_tokens" in path for path in seen)
    told = str(end.error)
    assert f"307: it sends this program on to {other.url}/v1/messages" in told
    assert "--base-url" in told
