"""The demonstration model, also as a program."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest
from anthropic import Anthropic
from anthropic.types import MessageParam

from tests.server.demo import SUMMARY_INSTRUCTION_PREFIX, demo_reply
from tests.server.replies import Reply, ToolUse
from tests.server.tokens import count_text
from tests.server.wire import JsonObject


def said(*texts: str) -> JsonObject:
    """A request in which these user messages were answered with "Ok.", all but the last."""
    messages: list[JsonObject] = []
    for text in texts:
        messages += [{"role": "user", "content": text}, {"role": "assistant", "content": "Ok."}]
    return {"messages": messages[:-1]}


@pytest.mark.parametrize(
    ("text", "tool", "arguments"),
    [
        ("read README.md", "read_file", {"path": "README.md"}),
        ("Please read `a.py` from line 10", "read_file", {"path": "a.py", "offset": 10}),
        ("list src", "list_dir", {"path": "src"}),
        ("grep def main in agent", "grep", {"pattern": "def main", "path": "agent"}),
        ("run ls -l | wc -l", "shell", {"command": "ls -l | wc -l", "timeout": 60}),
        ("write a.txt: one: two", "write_file", {"path": "a.txt", "content": "one: two\n"}),
        (
            "edit a.txt: old -> new",
            "edit_file",
            {"path": "a.txt", "old_text": "old", "new_text": "new"},
        ),
    ],
)
def test_a_command_calls_its_tool(text: str, tool: str, arguments: dict[str, Any]) -> None:
    reply = demo_reply(said(text))
    assert [(use.name, use.input) for use in reply.tool_uses] == [(tool, arguments)]
    assert reply.text


def test_several_lines_are_parallel_calls_and_results_are_told() -> None:
    request = said("read a.txt\nrun false")
    reply = demo_reply(request)
    names = [use.name for use in reply.tool_uses]
    assert names == ["read_file", "shell"]
    calls = [
        {"type": "tool_use", "id": str(number), "name": use.name, "input": use.input}
        for number, use in enumerate(reply.tool_uses)
    ]
    results = [
        {"type": "tool_result", "tool_use_id": "0", "content": "first\nsecond"},
        {"type": "tool_result", "tool_use_id": "1", "content": "exit code 1", "is_error": True},
    ]
    request["messages"] += [
        {"role": "assistant", "content": calls},
        {"role": "user", "content": results},
    ]
    answer = demo_reply(request)
    assert "`a.txt` has 2 lines here; it begins with `first`." in answer.text
    assert "`false` did not work: exit code 1" in answer.text
    assert not answer.tool_uses


def about(use: ToolUse, result: str) -> str:
    """What is said about the result of a call."""
    call = {"type": "tool_use", "id": "0", "name": use.name, "input": use.input}
    answer = {"type": "tool_result", "tool_use_id": "0", "content": result}
    messages = [{"role": "assistant", "content": [call]}, {"role": "user", "content": [answer]}]
    return demo_reply({"messages": messages}).text


def test_of_a_source_file_the_first_definition_is_shown() -> None:
    page = (
        "     1\timport os\n     2\t\n     3\tdef f():\n     4\t    return 1\n     5\t\n[lines 1-5]"
    )
    text = about(ToolUse("read_file", {"path": "a.py"}), page)
    assert "5 lines" in text
    assert text.endswith("```python\ndef f():\n    return 1\n```")


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("one\ntwo\n\n[exit code 1]", "ended with **exit code 1**; its last line is `two`."),
        ("[exit code 0]", "ended with **exit code 0**."),
    ],
)
def test_of_a_command_its_ending_is_told(output: str, expected: str) -> None:
    assert about(ToolUse("shell", {"command": "ls"}), output) == f"`ls` {expected}"


def test_what_is_to_be_remembered_is_noted() -> None:
    assert demo_reply(said("Remember that tea is green.")).text == "Noted: *tea is green.*"


def test_plain_talk_calls_nothing() -> None:
    reply = demo_reply(said("Hello", "I want to read the docs"))
    assert not reply.tool_uses
    assert reply.text.startswith("**Turn 2.** You said: *I want to read the docs*")
    assert demo_reply(said("think about life")).thinking


@pytest.mark.parametrize("tokens", [100, 500, 3_000])
def test_a_long_answer_is_about_as_long_as_asked(tokens: int) -> None:
    text = demo_reply(said(f"long {tokens}")).text
    assert 0.6 * tokens < count_text(text) <= 1.1 * tokens


def test_facts_survive_summaries_of_summaries() -> None:
    first = demo_reply(
        said("remember that the port is 8417", "read a.txt", f"{SUMMARY_INSTRUCTION_PREFIX}\nGo.")
    ).text
    assert "- Remember: the port is 8417" in first
    second = demo_reply(
        said(f"[Earlier conversation summary]\n{first}", f"{SUMMARY_INSTRUCTION_PREFIX}\nGo.")
    ).text
    assert second.count("the port is 8417") >= 1
    question = demo_reply(said(f"Summary:\n{second}", "What did I say about the port?"))
    assert "the port is 8417" in question.text
    assert "nothing about" in demo_reply(said("Hello", "what did I say about cats?")).text


def test_it_runs_as_a_program() -> None:
    command = [sys.executable, "-m", "tests.server", "--port", "0", "--window", "9000"]
    options = ["--advertise", "200000", "--delay", "0", "--key", "k"]
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"http://\S+:\d+", process.stdout.readline())
            assert found is not None
            with Anthropic(base_url=found[0], api_key="k", max_retries=0) as client:
                model = client.models.retrieve("claude-sonnet-5-5")
                assert model.max_input_tokens == 200_000
                messages: list[MessageParam] = [{"role": "user", "content": "run ls"}]
                with client.messages.stream(
                    model=model.id, max_tokens=1_000, messages=messages
                ) as events:
                    answer = events.get_final_message()
                assert answer.stop_reason == "tool_use"
        finally:
            process.terminate()


def test_a_reply_is_a_plain_value() -> None:
    assert demo_reply(said("long 50")) == demo_reply(said("long 50")) != Reply()
