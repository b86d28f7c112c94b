"""What an error's body says, whatever it is wrapped in."""

from __future__ import annotations

import json

import pytest

from agent.context.error_text import statements
from agent.context.overflow import Overflow, classify_text


def wrapped(message: str) -> str:
    return json.dumps({"error": {"message": message, "type": "invalid_request_error"}})


def test_json_inside_json_strings() -> None:
    inner = wrapped("prompt is too long: 210000 tokens > 200000 maximum")
    middle = json.dumps({"error": {"message": "upstream", "metadata": {"raw": inner}}})
    outer = json.dumps({"message": "Provider returned error", "detail": middle})
    assert classify_text(400, outer) == Overflow("input", 200_000, 210_000)


def test_json_escapes_server_sent_events_and_lists() -> None:
    escaped = json.dumps({"errors": ["first", "输入内容过长"]})
    assert "\\u" in escaped
    assert classify_text(400, escaped) == Overflow("input")
    event = f"event: error\ndata: {wrapped('prompt is too long')}\n\n"
    assert classify_text(200, event) == Overflow("input")


def test_body_cut_off_in_the_middle() -> None:
    body = wrapped("prompt is too long: 210000 tokens > 200000 maximum, and so on")
    assert classify_text(400, body[: body.index(", and")]) == Overflow("input", 200_000, 210_000)


@pytest.mark.parametrize("key", ["input", "text", "content", "prompt"])
def test_echo_of_the_request_is_not_the_servers_word(key: str) -> None:
    echo = {"detail": [{"msg": "Field required", key: "prompt is too long: 9 tokens > 4 maximum"}]}
    assert classify_text(422, json.dumps(echo)) is None


def test_statement_before_a_megabyte_of_echo_is_found() -> None:
    body = json.dumps({"message": "prompt is too long", "input": "x" * 1_000_000})
    assert classify_text(400, body) == Overflow("input")


def test_statements_are_plain_and_said_once() -> None:
    body = "Error: " + json.dumps({"a": "One\u00a0 two", "b": {"c": "One two", "n": 7}}) + " end"
    assert statements(body).split("\n") == ["Error:", "One two", "n=7", "}} end"]
