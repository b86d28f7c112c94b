"""Servers that lack something, and small windows: the program does with what there is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agent.events import Notice, TurnFinished
from tests.e2e.support import collect, open_session, send
from tests.server.replies import HttpFault, Reply, Step
from tests.server.server import MessagesServer


def refusal(message: str) -> HttpFault:
    error = {"type": "invalid_request_error", "message": message}
    return HttpFault(400, {"type": "error", "error": error})


def without_much(body: Mapping[str, Any], _index: int) -> Step:
    """A server that knows neither the prompt cache nor tools."""
    if "cache_control" in json.dumps(body):
        return refusal("messages.0.content.0.cache_control: Extra inputs are not permitted")
    if "tools" in body:
        return refusal("registry.ollama.ai/library/gemma:2b does not support tools")
    return Reply("Fine.")


async def test_what_a_server_refuses_is_left_out_and_told_once(tmp_path: Path) -> None:
    with MessagesServer(script=without_much) as server:
        async with open_session(server, tmp_path) as session:
            first, second = [await collect(session.send(text)) for text in ("one", "two")]
    told = [event.text for event in first if isinstance(event, Notice)]
    assert told == [
        "this server takes no cache_control: the agent does without",
        "this server takes no tools: the agent does without",
    ]
    assert not any(isinstance(event, Notice) for event in second)
    assert [request.status for request in server.messages_requests] == [400, 400, 200, 200]
    assert isinstance(second[-1], TurnFinished)
    assert second[-1].text == "Fine."


async def test_a_refusal_of_something_else_is_told_as_it_is(tmp_path: Path) -> None:
    fault = refusal("tools.0.input_schema: unknown keyword")
    with MessagesServer(script=[fault]) as server:
        async with open_session(server, tmp_path) as session:
            end = await send(session, "one")
        server.assert_done()
    assert "unknown keyword" in str(end.error)


async def test_missing_services_are_told_once(tmp_path: Path) -> None:
    with MessagesServer(
        script=lambda _body, _index: Reply("fact " * 150),
        count_tokens_status=404,
        models_status=404,
    ) as server:
        async with open_session(
            server, tmp_path, model="gemma3", max_input_tokens=2_000
        ) as session:
            events = [await collect(session.send("word " * 100)) for _ in range(7)]
    told = [event.text for turn in events for event in turn if isinstance(event, Notice)]
    assert told == [
        "this server does not tell the model's window: see --context-window",
        "this server does not count tokens: sizes are estimated",
    ]


@pytest.mark.parametrize("window", [2_048, 4_096, 8_192])
async def test_in_a_small_window_everything_is_small(tmp_path: Path, window: int) -> None:
    with MessagesServer(script=[Reply("Fine.")], window=window, models_status=404) as server:
        async with open_session(server, tmp_path, model="gemma3", context_window=window) as session:
            await send(session, "hello")
            (request,) = server.messages_requests
            report = session.context()
    assert request.status == 200
    assert request.body["max_tokens"] == window // 4
    assert len(request.body["tools"]) == 7
    assert all("description" not in str(tool["input_schema"]) for tool in request.body["tools"])
    assert len(session.system) + len(json.dumps(request.body["tools"])) < 2_600
    assert report.size.budget == round(window * 0.7)


async def test_a_window_that_the_server_tells_decides_the_form(tmp_path: Path) -> None:
    with MessagesServer(script=[Reply("Fine.")], window=4_096) as server:
        async with open_session(server, tmp_path, model="gemma3") as session:
            assert len(session.system) > 800
            await send(session, "hello")
            assert len(session.system) < 600
            (request,) = server.messages_requests
    assert request.body["system"][0]["text"] == session.system
