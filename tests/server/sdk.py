"""The real SDK as a client of the server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anthropic import Anthropic
from anthropic.types import Message, MessageParam

from tests.server.server import MessagesServer

MODEL = "claude-sonnet-5-5"
HELLO: list[MessageParam] = [{"role": "user", "content": "Hello"}]


def sdk_client(server: MessagesServer, timeout: float = 10.0) -> Anthropic:
    """A client that does not retry. It is to be closed, or used as a context manager."""
    return Anthropic(base_url=server.url, api_key="key", max_retries=0, timeout=timeout)


def stream(client: Anthropic, messages: list[MessageParam] = HELLO, **options: Any) -> Message:
    """The final message of a streamed answer."""
    arguments = {"model": MODEL, "max_tokens": 500, "messages": messages, **options}
    with client.messages.stream(**arguments) as events:
        return events.get_final_message()


def create(client: Anthropic, messages: list[MessageParam] = HELLO, **options: Any) -> Message:
    """An answer without a stream."""
    arguments = {"model": MODEL, "max_tokens": 500, "messages": messages, **options}
    message: Message = client.messages.create(**arguments)
    return message


def prompt_size(message: Message) -> int:
    """The prompt of an answer in tokens, cached or not."""
    usage = message.usage
    written, read = usage.cache_creation_input_tokens, usage.cache_read_input_tokens
    return usage.input_tokens + (written or 0) + (read or 0)


def fields(message: Message, position: int = 0) -> Mapping[str, Any]:
    """A block of an answer as the plain fields it came with."""
    return vars(message.content[position])
