"""The short form of the turn bench: what a request costs is counted, not timed."""

from __future__ import annotations

import json
import sys

from agent.messages import Message, ToolSpec, assistant_text, user_text
from agent.providers.base import Request
from agent.providers.body import BodyEncoder
from agent.wire import message_to_wire


def conversation(messages: int) -> tuple[Message, ...]:
    made = (user_text(f"question {n}") if n % 2 else assistant_text("ünd") for n in range(messages))
    return tuple(made)[1:]


def request(messages: tuple[Message, ...]) -> Request:
    return Request("m", "Be brief.", (ToolSpec("t", "does it", {"type": "object"}),), messages, 9)


def test_a_body_is_what_the_request_says_with_its_end_marked() -> None:
    messages = conversation(4)
    body = json.loads(BodyEncoder().encode(request(messages), {"max_tokens": 9, "stream": True}))
    *earlier, last = body.pop("messages")
    assert earlier == [*map(message_to_wire, messages[:-1])]
    marked = {"type": "text", "text": "question 3", "cache_control": {"type": "ephemeral"}}
    assert last == {"role": "user", "content": [marked]}
    assert body == {
        "model": "m",
        "max_tokens": 9,
        "stream": True,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "tools": [{"name": "t", "description": "does it", "input_schema": {"type": "object"}}],
    }


def test_what_was_sent_before_is_not_encoded_again() -> None:
    encoder, messages = BodyEncoder(), conversation(2_000)
    encoder.encode(request(messages), {})
    first = encoder.encoded
    encoder.encode(request((*messages, assistant_text("answer"), user_text("more"))), {})
    assert (first, encoder.encoded) == (1_998, 2_000)


def test_messages_that_have_left_are_let_go() -> None:
    encoder, messages = BodyEncoder(), conversation(20)
    before = sys.getrefcount(messages[0])
    encoder.encode(request(messages), {})
    encoder.encode(request(messages[10:]), {})
    after = sys.getrefcount(messages[0])
    assert after == before
