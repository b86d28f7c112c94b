"""How the server refuses and fails, and what the real SDK makes of it."""

from __future__ import annotations

import json

import anthropic
import httpx2
import pytest
from anthropic.types import MessageParam

from tests.server.overflow import OverflowStyle
from tests.server.replies import (
    ConnectionReset,
    Fault,
    HttpFault,
    Reply,
    Step,
    StreamFault,
    StreamFaultKind,
    ToolUse,
    cut_off_tool_call,
    empty_answer,
    overloaded,
    rate_limited,
    redirect,
    server_error,
    unavailable,
)
from tests.server.sdk import HELLO, create, fields, prompt_size, sdk_client, stream
from tests.server.server import MessagesServer

OVERFLOWS: list[tuple[OverflowStyle, int, str]] = [
    ("anthropic", 400, "prompt is too long: 1017 tokens > 1000 maximum"),
    ("anthropic_413", 413, "Request size exceeds model context window"),
    ("bedrock", 400, "returned the following errors: prompt is too long"),
    ("empty_413", 413, "413"),
    ("gemini", 400, "The input token count \\(1017\\) exceeds"),
    ("html_413", 413, "<title>413 Request Entity Too Large"),
    ("llama.cpp", 400, "request \\(1017 tokens\\) exceeds the available context size"),
    ("ollama", 400, "the input length exceeds the context length"),
    ("openai", 400, "context_length_exceeded"),
    ("openrouter", 400, "requested about 1517 tokens"),
    ("stream_error", 200, "prompt is too long"),
    ("vllm", 400, "your request has 1017 input tokens"),
]


@pytest.mark.parametrize(("style", "status", "message"), OVERFLOWS)
def test_too_long_a_prompt_is_told_in_the_words_of_a_vendor(
    style: OverflowStyle, status: int, message: str
) -> None:
    long: list[MessageParam] = [{"role": "user", "content": "x" * 3_006}]
    with MessagesServer(window=1_000, overflow=style) as server, sdk_client(server) as client:
        with pytest.raises(anthropic.APIStatusError, match=message) as raised:
            stream(client, long)
        assert raised.value.status_code == server.requests[0].status == status
        assert server.requests[0].prompt_tokens == 1_017
        server.assert_done()


def test_too_long_a_prompt_can_be_told_by_a_stop_reason() -> None:
    long: list[MessageParam] = [{"role": "user", "content": "x" * 3_006}]
    with (
        MessagesServer(window=1_000, overflow="stop_reason", script=[Reply("w" * 9_000)]) as server,
        sdk_client(server) as client,
    ):
        message = stream(client, long)
        assert (message.content, message.stop_reason) == ([], "model_context_window_exceeded")
        # A prompt that leaves some room is answered until the window is full.
        partial = stream(client, max_tokens=5_000)
        assert partial.stop_reason == "model_context_window_exceeded"
        assert prompt_size(partial) + partial.usage.output_tokens == 1_000


def test_the_output_does_not_fit_or_is_not_allowed() -> None:
    with MessagesServer(window=1_000, max_output=990) as server, sdk_client(server) as client:
        with pytest.raises(anthropic.BadRequestError, match="context limit: 17 \\+ 990 > 1000, de"):
            stream(client, max_tokens=990)
        with pytest.raises(anthropic.BadRequestError, match="max_tokens: 991 > 990, which is"):
            stream(client, max_tokens=991)
        server.window = 2_000
        server.script = [Reply("It fits.")]
        assert stream(client, max_tokens=990).stop_reason == "end_turn"


def test_a_reply_is_cut_off_at_max_tokens() -> None:
    call = ToolUse("write_file", {"path": "a.txt", "content": "x" * 300})
    with (
        MessagesServer(script=[Reply("Here.", tool_uses=[call])]) as server,
        sdk_client(server) as client,
    ):
        message = stream(client, max_tokens=40)
    assert message.stop_reason == "max_tokens"
    assert message.usage.output_tokens == 40
    partial = fields(message, 1)["input"]
    assert isinstance(partial, dict)
    assert len(partial.get("content", "")) < 300


FAULTS: list[tuple[Fault, type[Exception], str]] = [
    (rate_limited(2), anthropic.RateLimitError, "rate limit"),
    (overloaded(), anthropic.InternalServerError, "Overloaded"),
    (server_error(), anthropic.InternalServerError, "Internal server error"),
    (unavailable(), anthropic.InternalServerError, "<title>503"),
    (HttpFault(418, {"error": "short and stout"}), anthropic.APIStatusError, "short"),
    (ConnectionReset(), anthropic.APIConnectionError, ""),
    (StreamFault("reset"), httpx2.ReadError, ""),
    (StreamFault("close"), httpx2.RemoteProtocolError, "incomplete"),
    (StreamFault("error"), anthropic.APIStatusError, "Overloaded"),
    (StreamFault("malformed_json"), json.JSONDecodeError, ""),
    (StreamFault("bad_index"), IndexError, ""),
    (StreamFault("bad_chunk"), httpx2.RemoteProtocolError, "chunk"),
    (StreamFault("gzip_garbage"), httpx2.DecodingError, ""),
    (StreamFault("raw_end", raw=b"event: x"), httpx2.RemoteProtocolError, "incomplete"),
    (StreamFault("raw", raw=b"event: x\ndata: {\n\n"), json.JSONDecodeError, ""),
    (StreamFault("stall", seconds=30), httpx2.ReadTimeout, ""),
    (empty_answer(), AssertionError, ""),
]


@pytest.mark.parametrize(("fault", "error", "text"), FAULTS)
def test_a_fault_reaches_the_sdk(fault: Fault, error: type[Exception], text: str) -> None:
    with MessagesServer(script=[fault]) as server, sdk_client(server, timeout=0.3) as client:
        with pytest.raises(error) as raised:
            stream(client)
        assert text in str(raised.value)
        server.assert_done()


def test_a_retry_after_is_sent() -> None:
    with MessagesServer(script=[rate_limited(1.5)]) as server, sdk_client(server) as client:
        with pytest.raises(anthropic.RateLimitError) as raised:
            create(client)
        assert raised.value.response.headers["retry-after"] == "1.5"


def test_answers_that_end_too_early_or_oddly() -> None:
    script: list[Step] = [
        StreamFault("eof", after_events=-2),
        Reply("Odd.", stop_reason="because"),
        Reply(blocks=[{"type": "hologram", "data": "x"}, {"type": "text", "text": "after"}]),
        Reply(tool_uses=[ToolUse("shell", ["not", "an", "object"])]),
        cut_off_tool_call("shell", '{"command": "ls'),
        StreamFault("stall", Reply("Back again."), seconds=0.2, pings=True),
        StreamFault("gzip_cut", Reply("Cut where its text has begun, and not said.", chunk_size=9)),
        StreamFault("eof", Reply("Cut within the text.", chunk_size=4), within="text"),
    ]
    with MessagesServer(script=script) as server, sdk_client(server) as client:
        messages = [stream(client) for _ in script]
        server.assert_done()
    assert messages[0].stop_reason is None
    assert str(messages[1].stop_reason) == "because"
    assert [block.type for block in messages[2].content] == ["hologram", "text"]
    assert fields(messages[3])["input"] == ["not", "an", "object"]
    assert messages[4].stop_reason == "max_tokens"
    assert fields(messages[5])["text"] == "Back again."
    assert fields(messages[6])["text"] == "Cut where"
    assert fields(messages[7])["text"] == "Cut with"


@pytest.mark.parametrize("kind", ["reset", "close", "eof", "malformed_json", "error"])
def test_stream_faults_have_a_form_without_a_stream(kind: StreamFaultKind) -> None:
    with MessagesServer(script=[StreamFault(kind)]) as server, sdk_client(server) as client:
        with pytest.raises((anthropic.APIError, httpx2.HTTPError, json.JSONDecodeError)):
            create(client)
        server.assert_done()


def test_a_redirect_posts_the_body_to_the_other_host() -> None:
    with MessagesServer(script=[Reply("Elsewhere.")]) as other:
        with (
            MessagesServer(script=[redirect(f"{other.url}/v1/messages")]) as server,
            sdk_client(server) as client,
        ):
            assert fields(create(client))["text"] == "Elsewhere."
        assert other.requests[0].body["messages"] == HELLO
