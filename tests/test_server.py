"""The Messages API server as the real SDK sees it, over HTTP."""

from __future__ import annotations

import http.client
import json
import threading
import time
from typing import Any

import anthropic
import httpx2
import pytest
from anthropic import AsyncAnthropic
from anthropic.types import MessageParam
from anthropic.types.beta import BetaMessageParam

from tests.server.replies import Reply, StreamFault, ToolUse
from tests.server.sdk import HELLO, MODEL, create, fields, prompt_size, sdk_client, stream
from tests.server.server import MessagesServer
from tests.server.wire import JsonObject


def test_a_stream_has_the_events_of_the_api_in_their_order() -> None:
    call = ToolUse("read_file", {"path": "a.txt"})
    reply = Reply("Some text.", thinking="Hm.", tool_uses=[call], chunk_size=100)
    with MessagesServer(script=[reply], thinking_display="summarized") as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        body = {"model": MODEL, "max_tokens": 500, "messages": HELLO, "stream": True}
        headers = {"anthropic-version": "2023-06-01", "x-api-key": "secret"}
        connection.request("POST", "/v1/messages", json.dumps(body), headers)
        text = connection.getresponse().read().decode()
        connection.close()
        server.assert_done()
    names = [line.removeprefix("event: ") for line in text.splitlines() if line.startswith("event")]
    block = ["content_block_start", "content_block_delta", "content_block_stop"]
    thinking = ["content_block_start", "ping", *["content_block_delta"] * 2, "content_block_stop"]
    call_events = [block[0], block[1], block[1], block[2]]
    ending = ["message_delta", "message_stop"]
    assert names == ["message_start", *thinking, *block, *call_events, *ending]


def test_both_kinds_of_answer_carry_the_same_message() -> None:
    call = ToolUse("read_file", {"path": "ä.txt", "limit": 3}, id="toolu_1")
    reply = Reply("Text with 漢字.", tool_uses=[call], chunk_size=3)
    with MessagesServer(script=[reply, reply]) as server, sdk_client(server) as client:
        streamed, whole = stream(client), create(client)
        server.assert_done()
    assert [block.to_dict() for block in streamed.content] == [
        {"type": "text", "text": "Text with 漢字."},
        {"type": "tool_use", "id": "toolu_1", "name": "read_file", "input": call.input},
    ]
    assert [block.type for block in whole.content] == ["text", "tool_use"]
    assert streamed.stop_reason == whole.stop_reason == "tool_use"
    assert streamed.usage.input_tokens == whole.usage.input_tokens == 8 + 4 + 3 + 2
    assert streamed.usage.output_tokens == whole.usage.output_tokens > 0


async def test_an_async_client_sees_deltas_as_they_come() -> None:
    reply = Reply("one two three", chunk_size=4, delay=0.05)
    with MessagesServer(script=[reply]) as server:
        async with (
            AsyncAnthropic(base_url=server.url, api_key="key", max_retries=0) as client,
            client.messages.stream(model=MODEL, max_tokens=100, messages=HELLO) as events,
        ):
            arrivals = [time.monotonic() async for _ in events.text_stream]
    assert len(arrivals) == 4
    assert arrivals[-1] - arrivals[0] > 0.1


def test_thinking_is_signed_and_accepted_back() -> None:
    replies = [Reply("One.", thinking="Hm."), Reply("Two."), Reply("Three.")]
    with MessagesServer(script=replies) as server, sdk_client(server) as client:
        answer = stream(client, thinking={"type": "adaptive", "display": "summarized"})
        history: list[MessageParam] = [
            *HELLO,
            {"role": "assistant", "content": answer.content},
            {"role": "user", "content": "Go on"},
        ]
        assert fields(answer)["thinking"] == "Hm."
        assert fields(stream(client, history))["text"] == "Two."
        with pytest.raises(anthropic.BadRequestError, match="bound to a different conversation"):
            stream(client, history, system="Something new.")
        with pytest.raises(anthropic.BadRequestError, match="bound to a different"):
            client.messages.count_tokens(model=MODEL, messages=history, system="Something new.")
        server.thinking_bound = False
        assert stream(client, history, system="Something new.")
        server.assert_done()


def test_thinking_without_a_display_is_only_a_signature() -> None:
    with (
        MessagesServer(script=[Reply("Done.", thinking="Hm.")]) as server,
        sdk_client(server) as client,
    ):
        block = stream(client).content[0]
    assert block.type == "thinking"
    assert block.thinking == ""
    assert block.signature


def test_unbound_thinking_is_dropped_on_request() -> None:
    beta = "thinking-binding-controls-2026-08-01"
    with (
        MessagesServer(script=[Reply("One.", thinking="Hm."), Reply("Two.")]) as server,
        sdk_client(server) as client,
    ):
        answer = stream(client)
        content: Any = answer.to_dict()["content"]
        messages: list[BetaMessageParam] = [
            {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": content},
            {"role": "user", "content": "Go on"},
        ]
        second = client.beta.messages.create(
            model=MODEL,
            max_tokens=100,
            system="New.",
            messages=messages,
            thinking={
                "type": "adaptive",
                "block_binding": {"prefix_mismatch_behavior": "drop_block"},
            },
            betas=[beta],
        )
    assert second.to_dict()["input_transformations"] == [
        {
            "type": "thinking_dropped",
            "path": "messages.1.content.0",
            "reason": "prefix_binding_mismatch",
        }
    ]


def test_usage_always_sums_to_the_prompt_and_a_longer_one_reads_the_cache() -> None:
    replies = [Reply(f"Answer {number}.") for number in range(4)]
    with MessagesServer(script=replies) as server, sdk_client(server) as client:
        system = "All of it. " * 500
        history: list[MessageParam] = []
        sizes, reads = [], []
        for number in range(4):
            history.append({"role": "user", "content": f"Question {number}."})
            # The third request changes nothing but loses its marker.
            marker = {} if number == 2 else {"cache_control": {"type": "ephemeral"}}
            answer = stream(client, history, system=system, **marker)
            history.append({"role": "assistant", "content": answer.content})
            sizes.append(prompt_size(answer))
            reads.append(answer.usage.cache_read_input_tokens)
        assert sizes == [request.prompt_tokens for request in server.requests]
        assert reads == [0, sizes[0], 0, sizes[1]]
        assert server.requests[2].usage["input_tokens"] == sizes[2]
        server.script = [Reply("After a while.")]
        server.clear_cache()
        assert not stream(client, history[:-1], system=system).usage.cache_read_input_tokens


@pytest.mark.parametrize(("blocks", "expected"), [(18, True), (25, False)])
def test_the_cache_is_looked_up_20_blocks_back(blocks: int, expected: bool) -> None:
    marker = {"type": "ephemeral"}
    with (
        MessagesServer(script=[Reply("One."), Reply("Two.")], cache_minimum=1) as server,
        sdk_client(server) as client,
    ):
        stream(client, cache_control=marker)
        more = [{"type": "text", "text": f"block {number}"} for number in range(blocks)]
        longer: list[Any] = [*HELLO, {"role": "user", "content": more}]
        answer = stream(client, longer, cache_control=marker)
        assert bool(answer.usage.cache_read_input_tokens) is expected
        assert server.requests[1].consecutive_roles


def test_too_short_a_prompt_is_silently_not_cached() -> None:
    with MessagesServer(script=[Reply("One.")]) as server, sdk_client(server) as client:
        usage = stream(client, cache_control={"type": "ephemeral"}).usage
    assert usage.cache_creation_input_tokens == 0
    assert usage.input_tokens == 17


def test_models_and_counting() -> None:
    with (
        MessagesServer(window=12_000, advertised_window=200_000, models=[MODEL]) as server,
        sdk_client(server) as client,
    ):
        model = client.models.retrieve(MODEL)
        assert (model.max_input_tokens, model.max_tokens) == (200_000, 64_000)
        assert model.capabilities is not None
        assert not model.capabilities.thinking.types.disabled.supported
        assert [model.id for model in client.models.list()] == [MODEL]
        with pytest.raises(anthropic.NotFoundError, match="model: gpt-9"):
            client.models.retrieve("gpt-9")
        count = client.messages.count_tokens(model=MODEL, messages=HELLO)
        assert count.input_tokens == 17
        server.count_factor = 0.5
        assert client.messages.count_tokens(model=MODEL, messages=HELLO).input_tokens == 9
        server.models_status, server.count_tokens_status = 404, 405
        with pytest.raises(anthropic.NotFoundError):
            client.models.retrieve(MODEL)
        with pytest.raises(anthropic.APIStatusError, match="Method Not Allowed"):
            client.messages.count_tokens(model=MODEL, messages=HELLO)
        assert [request.status for request in server.requests] == [
            200,
            200,
            404,
            200,
            200,
            404,
            405,
        ]


@pytest.mark.parametrize(
    ("headers", "error"),
    [
        ({"x-api-key": "right"}, ""),
        ({"authorization": "Bearer right"}, ""),
        ({"x-api-key": "wrong"}, "invalid x-api-key"),
        ({"authorization": "Bearer wrong"}, "invalid bearer token"),
        ({}, "x-api-key header is required"),
    ],
)
def test_a_key_is_required_either_way_and_never_recorded(
    headers: dict[str, str], error: str
) -> None:
    body = json.dumps({"model": MODEL, "max_tokens": 10, "messages": HELLO})
    with MessagesServer(script=[Reply("Hello.")], api_key="right") as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        version = {"anthropic-version": "2023-06-01"}
        connection.request("POST", "/v1/messages", body, {**version, **headers})
        response = connection.getresponse()
        answer = json.loads(response.read())
        connection.close()
    assert response.status == (401 if error else 200)
    assert answer.get("error", {}).get("message", "") == error
    assert not {"x-api-key", "authorization"}.intersection(server.requests[0].headers)


def test_a_body_that_is_too_large_or_broken() -> None:
    with MessagesServer(max_body_bytes=2_000) as server, sdk_client(server) as client:
        with pytest.raises(anthropic.APIStatusError, match="Request exceeds the maximum size"):
            stream(client, [{"role": "user", "content": "x" * 3_000}])
        for body in (b'{"a": NaN}', b"\xff", b"[]", b'{"model": "m", "messages": ["\\ud83d"]}'):
            connection = http.client.HTTPConnection("127.0.0.1", server.port)
            connection.request("POST", "/v1/messages", body, {"anthropic-version": "2023-06-01"})
            response = connection.getresponse()
            assert response.status == 400
            assert json.loads(response.read())["error"]["type"] == "invalid_request_error"
            connection.close()


def test_a_script_is_used_exactly_once() -> None:
    with (
        MessagesServer(script=[Reply("One."), Reply("Two.")]) as server,
        sdk_client(server) as client,
    ):
        create(client)
        with pytest.raises(AssertionError, match="1 of 2 steps of the script were used"):
            server.assert_done()
        create(client)
        server.assert_done()
        with pytest.raises(anthropic.InternalServerError, match="exhausted: request 3 of 2"):
            create(client)
        with pytest.raises(AssertionError, match="exhausted"):
            server.assert_done()


def test_a_script_can_be_a_function_and_its_faults_are_reported() -> None:
    def script(body: JsonObject, number: int) -> Reply:
        assert number < 1, "only one request was expected"
        return Reply(f"{number}: {body['messages'][0]['content']}")

    with MessagesServer(script=script) as server, sdk_client(server) as client:
        assert fields(create(client))["text"] == "0: Hello"
        server.assert_done()
        with pytest.raises(anthropic.InternalServerError, match="only one request"):
            create(client)
        with pytest.raises(AssertionError, match="only one request"):
            server.assert_done()


def test_a_client_that_hangs_up_is_noticed_at_once() -> None:
    with (
        MessagesServer(script=[StreamFault("stall", seconds=60)]) as server,
        sdk_client(server) as client,
    ):
        with client.messages.stream(model=MODEL, max_tokens=100, messages=HELLO) as events:
            next(iter(events))
            assert server.requests[0].status == 200
        request = server.wait_for(lambda requests: requests[0].aborted, timeout=2)[0]
    assert request.body["model"] == MODEL
    assert json.loads(request.raw) == request.body


def test_stopping_is_quick_while_clients_wait() -> None:
    with (
        MessagesServer(script=[StreamFault("stall", seconds=60)] * 3) as server,
        sdk_client(server) as client,
    ):
        errors: list[Exception] = []

        def wait() -> None:
            try:
                stream(client)
            except httpx2.HTTPError as error:
                errors.append(error)

        threads = [threading.Thread(target=wait) for _ in range(3)]
        for thread in threads:
            thread.start()
        server.wait_for(lambda requests: sum(request.status for request in requests) == 600)
        begun = time.monotonic()
        server.stop()
        assert time.monotonic() - begun < 0.2
        for thread in threads:
            thread.join(5)
    assert len(errors) == 3
    assert not any(request.aborted for request in server.requests)
