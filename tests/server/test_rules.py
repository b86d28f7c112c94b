"""The validity rules, the token count and the thinking signatures, without HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.rules import Limits, check_history, check_parameters, check_request
from tests.server.thinking import Signer, drop_unbound, sign_response
from tests.server.tokens import count_prompt, count_text, pieces
from tests.server.wire import JsonObject

MODEL = "claude-sonnet-5-5"
LIMITS = Limits(window=10_000, max_output=1_000)
TOOLS = [{"name": "shell", "description": "Runs.", "input_schema": {"type": "object"}}]


def user(*content: Any) -> JsonObject:
    return {"role": "user", "content": [_block(part) for part in content]}


def assistant(*content: Any) -> JsonObject:
    return {"role": "assistant", "content": [_block(part) for part in content]}


def use(identifier: str, **fields: Any) -> JsonObject:
    return {"type": "tool_use", "id": identifier, "name": "shell", "input": {}, **fields}


def result(identifier: str, **fields: Any) -> JsonObject:
    return {"type": "tool_result", "tool_use_id": identifier, "content": "done", **fields}


def thinking(text: str = "hm", signature: str = "any") -> JsonObject:
    return {"type": "thinking", "thinking": text, "signature": signature}


def _block(part: Any) -> Any:
    return {"type": "text", "text": part} if isinstance(part, str) else part


VALID: dict[str, list[JsonObject]] = {
    "one question": [{"role": "user", "content": "Hello"}],
    "a call and its result": [user("Hi"), assistant("Ok", use("a")), user(result("a"))],
    "parallel calls": [
        user("Hi"),
        assistant(use("a"), use("b")),
        user(result("b"), result("a", is_error=True), "and go on"),
    ],
    "an empty result": [user("Hi"), assistant(use("a")), user(result("a", content=""))],
    "two user messages in a row": [user("Hi"), user("Are you there?")],
    "interleaved thinking": [
        user("Hi"),
        assistant(thinking(), "First", thinking(), use("a")),
        user(result("a")),
    ],
}

INVALID: dict[str, tuple[list[Any], str]] = {
    "no messages": ([], "at least one message is required"),
    "an unknown role": ([{"role": "tool", "content": "x"}], 'Unexpected role "tool"'),
    "a system message": (
        [user("Hi"), {"role": "system", "content": "x"}],
        'Unexpected role "system"',
    ),
    "an unknown block": ([user({"type": "hologram"})], "Input tag 'hologram' found"),
    "a foreign field": (
        [user({"type": "text", "text": "x", "defect": ""})],
        "messages.0.content.0.text.defect: Extra inputs are not permitted",
    ),
    "a call in a user message": (
        [user(use("a"))],
        "messages.0: `tool_use` blocks can only be in `assistant` messages",
    ),
    "no content": ([{"role": "user", "content": []}], "messages.0: all messages must have"),
    "empty text": ([user("")], "messages: text content blocks must be non-empty"),
    "blank text": ([user("Hi"), assistant(" \n"), user("x")], "must contain non-whitespace"),
    "empty text in a result": (
        [user("Hi"), assistant(use("a")), user(result("a", content=[_block("")]))],
        "text content blocks must be non-empty",
    ),
    "an assistant begins": ([assistant("Hi"), user("x")], 'first message must use the "user" role'),
    "an assistant ends": ([user("Hi"), assistant("x")], "must end with a user message"),
    "an assistant ends in a space": (
        [user("Hi"), assistant("x ")],
        "final assistant content cannot end with trailing whitespace",
    ),
    "a call without a result": (
        [user("Hi"), assistant(use("a"), use("b")), user(result("a"))],
        "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: b.",
    ),
    "results in two messages": (
        [user("Hi"), assistant(use("a"), use("b")), user(result("a")), user(result("b"))],
        "immediately after: b.",
    ),
    "text before a result": (
        [user("Hi"), assistant(use("a")), user("first", result("a"))],
        "messages.1: `tool_use` ids were found without",
    ),
    "a result without a call": (
        [user("Hi"), assistant("Ok"), user(result("a"))],
        "messages.2.content.0: unexpected `tool_use_id` found in `tool_result` blocks: a.",
    ),
    "a result at the beginning": ([user(result("a"))], "messages.0.content.0: unexpected"),
    "two results of one call": (
        [user("Hi"), assistant(use("a")), user(result("a"), result("a"))],
        "messages.2.content.1: each tool_use must have a single result",
    ),
    "one id twice": (
        [user("Hi"), assistant(use("a")), user(result("a")), assistant(use("a")), user("x")],
        "messages.3.content.0: `tool_use` ids must be unique",
    ),
    "an input that is no object": (
        [user("Hi"), assistant(use("a", input=[1])), user(result("a"))],
        "messages.1.content.0.tool_use.input: Input should be a valid dictionary",
    ),
    "a failed call that says nothing": (
        [user("Hi"), assistant(use("a")), user(result("a", content="", is_error=True))],
        "content cannot be empty if `is_error` is true",
    ),
    "thinking after text": (
        [user("Hi"), assistant("Ok", thinking(), "x"), user("x")],
        "the first block must be `thinking` or `redacted_thinking`. Found `text`.",
    ),
    "thinking at the end": (
        [user("Hi"), assistant(thinking()), user("x")],
        "messages.1: The final block in an assistant message cannot be `thinking`",
    ),
    "thinking without a signature": (
        [user("Hi"), assistant({"type": "thinking", "thinking": "x"}, "x"), user("x")],
        "messages.1.content.0.thinking.signature: Field required",
    ),
    "a lone surrogate": ([user("a\ud83d")], "not valid JSON: no low surrogate in string"),
    "five cache markers": (
        [user(*[{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}] * 5)],
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    ),
}


@pytest.mark.parametrize("name", VALID)
def test_a_valid_history_passes(name: str) -> None:
    assert check_history("Be brief.", TOOLS, VALID[name]) is None


@pytest.mark.parametrize("name", INVALID)
def test_a_broken_rule_is_named(name: str) -> None:
    messages, expected = INVALID[name]
    assert expected in (check_history(None, None, messages) or "accepted")


@pytest.mark.parametrize(
    ("system", "tools", "expected"),
    [
        ([{"type": "text", "text": " "}], None, "system: text content blocks must contain"),
        (7, None, "system: Input should be a valid list"),
        (None, [*TOOLS, *TOOLS], "tools: Tool names must be unique."),
        (None, [{"name": "a b", "input_schema": {}}], "tools.0.custom.name: String should match"),
        (None, [{"name": "ab", "input_schema": {}}], "tools.0.custom.input_schema.type"),
    ],
)
def test_system_and_tools_have_their_shapes(system: Any, tools: Any, expected: str) -> None:
    assert expected in (check_history(system, tools, [user("Hi")]) or "accepted")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"max_tokens": 1_001}, "max_tokens: 1001 > 1000, which is the maximum allowed number of"),
        ({"max_tokens": 0}, "greater than or equal to 1"),
        ({"temperature": 0.2}, "`temperature` is deprecated for this model."),
        ({"top_k": 40}, "`top_k` is deprecated"),
        ({"tool_choice": {"type": "any"}}, "tool_choice: type"),
        ({"thinking": {"type": "disabled"}}, '"thinking.type.disabled" is not supported'),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "thinking.type.enabled"),
        ({"thinking": {"type": "adaptive", "block_binding": {}}}, "block_binding: Extra inputs"),
        ({"betas": []}, "betas: Extra inputs are not permitted"),
        ({"system": "x" * 60_000}, "prompt is too long: "),
        (
            {"system": "x" * 28_500},
            "9519 + 1000 > 10000, decrease input length or `max_tokens` and try again",
        ),
    ],
)
def test_a_refused_parameter_is_named(changes: JsonObject, expected: str) -> None:
    body = {"model": MODEL, "max_tokens": 1_000, "messages": [user("Hi")], **changes}
    error = check_request(body, LIMITS)
    assert error is not None
    assert error.status == 400
    assert expected in error.message


def test_default_values_and_automatic_tools_are_accepted() -> None:
    choice = {"type": "auto"}
    body = {"model": MODEL, "max_tokens": 10, "messages": [user("Hi")], "tool_choice": choice}
    assert check_request({**body, "temperature": 1, "top_p": 1}, LIMITS) is None
    assert check_parameters({**body, "temperature": 0}, Limits(strict_parameters=False)) is None


def test_the_automatic_cache_marker_counts() -> None:
    marker = {"type": "ephemeral"}
    marked = {"type": "text", "text": "x", "cache_control": marker}
    body = {"model": MODEL, "max_tokens": 10, "messages": [user(*[marked] * 4)]}
    assert check_request(body, LIMITS) is None
    error = check_request({**body, "cache_control": marker}, LIMITS)
    assert error is not None
    assert "Found 5" in error.message


def test_a_long_lived_marker_does_not_follow_a_short_lived_one() -> None:
    short = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}
    long = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral", "ttl": "1h"}}
    assert check_history(None, None, [user(long, short)]) is None
    assert "must not come after a ttl='5m'" in (
        check_history(None, None, [user(short, long)]) or ""
    )


def test_tokens_are_a_third_of_the_bytes_and_a_cjk_character_is_one() -> None:
    assert [count_text(text) for text in ("", "a", "abc", "abcd", "漢字")] == [0, 1, 1, 2, 2]
    body = {"system": "Be brief.", "tools": TOOLS, "messages": [user("Hi"), user("there")]}
    assert count_prompt(body) == sum(piece.tokens for piece in pieces(body))
    assert count_prompt(body, 2.0) == 2 * count_prompt(body)
    assert count_prompt({"messages": [user("abc")]}) == 8 + 4 + 3 + 1


class Conversation:
    """Turns whose every answer thinks, signed as the server signs them."""

    def __init__(self, turns: int) -> None:
        self.signer = Signer()
        self.system = "Be brief."
        self.messages: list[JsonObject] = []
        for turn in range(turns):
            self.messages.append(user(f"question {turn}"))
            content = [{"type": "thinking", "thinking": f"hm {turn}"}, _block(f"answer {turn}")]
            signed = sign_response(self.body(), content, f"msg_{turn}", self.signer)
            self.messages.append({"role": "assistant", "content": signed})
        self.messages.append(user("and now?"))

    def body(self) -> JsonObject:
        return {"system": self.system, "messages": self.messages}

    def without_thinking(self, *indices: int) -> list[JsonObject]:
        return [
            {**message, "content": message["content"][1:]} if index in indices else message
            for index, message in enumerate(self.messages)
        ]

    def fault(self, messages: list[JsonObject], system: str | None = None) -> str:
        system = system or self.system
        return check_history(system, None, messages, signer=self.signer, bound=True) or ""


def test_thinking_in_its_own_conversation_is_accepted() -> None:
    conversation = Conversation(3)
    assert conversation.fault(conversation.messages) == ""
    marked = [*conversation.messages]
    marked[0] = user({**marked[0]["content"][0], "cache_control": {"type": "ephemeral"}})
    assert conversation.fault(marked) == ""


def test_thinking_may_be_left_out_from_either_end_but_not_between() -> None:
    conversation = Conversation(3)
    for gone in [(1,), (1, 3), (5,), (3, 5), (1, 3, 5)]:
        assert conversation.fault(conversation.without_thinking(*gone)) == ""
    fault = conversation.fault(conversation.without_thinking(3))
    assert fault.startswith("messages.5.content.0: Invalid `signature` in `thinking` block. The b")
    assert "preceded this one" in fault


def test_thinking_is_bound_to_everything_before_it() -> None:
    conversation = Conversation(2)
    edited = [user("another question"), *conversation.messages[1:]]
    assert "bound to a different conversation" in conversation.fault(edited)
    fault = conversation.fault(conversation.messages, system="Be long.")
    assert "The `system` prompt differs" in fault
    shortened = conversation.messages[2:]
    assert "messages.1.content.0: " in conversation.fault(shortened)


def test_altered_and_foreign_thinking_has_an_invalid_signature() -> None:
    conversation = Conversation(1)
    first = conversation.messages[1]["content"][0]
    for block in ({**first, "thinking": "other"}, {**first, "signature": "x"}, thinking()):
        messages = [user("question 0"), assistant(block, "answer 0"), user("and now?")]
        assert conversation.fault(messages) == (
            "messages.1.content.0: Invalid `signature` in `thinking` block"
        )


def test_the_thinking_of_one_answer_is_kept_whole_or_not_at_all() -> None:
    signer = Signer()
    question = {"messages": [user("Hi")]}
    content = [thinking("one"), _block("text"), thinking("two"), _block("more")]
    unsigned = [{key: block[key] for key in block if key != "signature"} for block in content]
    signed = sign_response(question, unsigned, "msg_1", signer)
    whole = [user("Hi"), assistant(*signed), user("Go on")]
    assert check_history(None, None, whole, signer=signer, bound=True) is None
    none = [user("Hi"), assistant(signed[1], signed[3]), user("Go on")]
    assert check_history(None, None, none, signer=signer, bound=True) is None
    half = [user("Hi"), assistant(signed[0], signed[1], signed[3]), user("Go on")]
    fault = check_history(None, None, half, signer=signer)
    assert fault is not None
    assert "cannot be modified" in fault


def test_dropping_takes_the_first_unbound_block_and_all_after_it() -> None:
    conversation = Conversation(3)
    body = {**conversation.body(), "messages": conversation.without_thinking(3)}
    kept, report = drop_unbound(body, conversation.signer)
    assert [entry["path"] for entry in report] == ["messages.5.content.0"]
    assert conversation.fault(kept["messages"]) == ""
    assert drop_unbound(conversation.body(), conversation.signer)[1] == []
