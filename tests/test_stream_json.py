"""docs/stream-json.md describes every event and every field, and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import get_args

import pytest

from agent.errors import ProviderBusyError
from agent.events import (
    CompactionFailed,
    CompactionFinished,
    CompactionReport,
    CompactionStarted,
    ContextSize,
    Event,
    Notice,
    RequestFinished,
    RequestStarted,
    RetryScheduled,
    ServerQuiet,
    TextDelta,
    ThinkingDelta,
    ToolCallFinished,
    ToolCallStarted,
    ToolOutput,
    TurnFinished,
    TurnStarted,
)
from agent.messages import Usage
from agent.ui.serialise import TurnResult, event_object, result_object, to_line
from tests.e2e.support import Brain, run_agent
from tests.server.replies import Reply, Step, ToolUse, overloaded
from tests.server.server import MessagesServer
from tests.ui.scripted import ScriptedSession

DOCUMENT = Path(__file__).parents[1] / "docs" / "stream-json.md"

Fields = Mapping[str, str]

SIZE = ContextSize(10, 100, 200, exact=True)
USAGE = Usage(1, 2, 3, 4)
REPORT = CompactionReport("auto", "summary", 2, 90, 9, 1.5, ".transcripts/x.md:1-9", USAGE, 1)
PRICED = CompactionReport("manual", "digest", 2, 90, 9, 1.5, "", USAGE, 1, 0.01)
BUSY = ProviderBusyError("overloaded")

SAMPLES: tuple[Event, ...] = (
    TurnStarted(1),
    RequestStarted(1, SIZE),
    TextDelta("a"),
    ThinkingDelta("a"),
    RequestFinished("end_turn", USAGE),
    ToolCallStarted("t", "grep", {"pattern": "x"}, "x"),
    ToolOutput("t", "out"),
    ToolCallFinished("t", "grep", "out", False, 0.1, "--- a"),
    CompactionStarted("auto", 90),
    CompactionFinished(REPORT),
    CompactionFinished(PRICED),
    CompactionFailed("overflow", "empty", USAGE),
    RetryScheduled("overloaded", 2.0, 1),
    ServerQuiet(6.0, 54.0, True),
    Notice("a", "warning"),
    TurnFinished(1, "a", "end_turn", USAGE, SIZE, 1.5, 1, (REPORT, PRICED), BUSY),
    TurnFinished(1, "a", "end_turn", USAGE, SIZE, 1.5, 1),
)


def documented() -> dict[str, Fields]:
    """The fields of every event and object in the document, each with its type."""
    found: dict[str, dict[str, str]] = {}
    name = ""
    for line in DOCUMENT.read_text(encoding="utf-8").splitlines():
        if heading := re.match(r"### (?:`(\w+)`|Object: ([\w ]+))\Z", line):
            name = heading[1] or heading[2]
            assert name not in found, f"{name} is described twice"
            found[name] = {}
        elif row := re.match(r"\| `(\w+)` \| ([\w ]+) \|", line):
            found[name][row[1]] = row[2]
    return dict(found)


DOCUMENTED = documented()
OPTIONAL = {("result", "error")}


def check(value: object, kind: str) -> None:
    """See that a JSON value is of a documented type."""
    if kind.endswith(" or null"):
        if value is not None:
            check(value, kind.removesuffix(" or null"))
        return
    if kind.startswith("list of "):
        assert isinstance(value, list)
        for item in value:
            check(item, kind.removeprefix("list of "))
        return
    plain = {"string": str, "integer": int, "boolean": bool, "number": int | float, "object": dict}
    if kind not in plain:
        assert isinstance(value, dict)
        check_fields(value, kind)
        return
    assert isinstance(value, plain[kind]), (value, kind)
    assert isinstance(value, bool) == (kind == "boolean"), (value, kind)


def check_fields(value: Mapping[str, object], name: str, *besides: str) -> None:
    fields = DOCUMENTED[name]
    needed = {field for field in fields if (name, field) not in OPTIONAL}
    assert needed <= set(value) - set(besides) <= set(fields), name
    for key, item in value.items():
        if key not in besides:
            check(item, fields[key])


def check_line(line: str) -> str:
    """See that a line is as documented; its type."""
    value = json.loads(line)
    check_fields(value, value["type"], "type")
    return str(value["type"])


def test_every_event_is_in_the_samples() -> None:
    assert {type(event) for event in SAMPLES} == set(get_args(Event))


def test_every_event_is_documented_and_no_other() -> None:
    types = {str(event_object(event)["type"]) for event in SAMPLES}
    objects = {"context size", "usage", "compaction report", "compaction", "error"}
    assert set(DOCUMENTED) == types | {"result"} | objects


@pytest.mark.parametrize("event", SAMPLES, ids=lambda event: type(event).__name__)
def test_an_event_has_the_documented_fields(event: Event) -> None:
    check_line(to_line(event_object(event)))


def test_the_result_has_the_documented_fields() -> None:
    session = ScriptedSession()
    result = TurnResult()
    for event in SAMPLES:
        result.take(event)
    assert check_line(to_line(result_object(session, result, 1.5))) == "result"
    result.error = BUSY
    assert '"error":"overloaded"' in to_line(result_object(session, result, 1.5))
    check_line(to_line(result_object(session, result, 1.5)))
    check_line(to_line(result_object(session, TurnResult(), 0.0)))


def test_what_the_program_prints_is_as_documented(tmp_path: Path) -> None:
    call = Reply(
        thinking="Let me think.", tool_uses=[ToolUse("shell", {"command": "echo out; sleep 0.2"})]
    )
    edit = Reply(tool_uses=[ToolUse("write_file", {"path": "new.txt", "content": "new\n"})])
    steps: list[Step] = [Reply("fact " * 2_000), overloaded(0.1), call, edit, Reply("Done.")]
    options = ["--output-format", "stream-json", "--approval", "yolo", "--max-input-tokens", "3500"]
    with MessagesServer(script=Brain(steps), window=20_000) as server:
        first = run_agent(["chat", "-p", "one", *options], tmp_path, server)
        second = run_agent(
            ["chat", "-p", "-c", "two " * 600, *options, "--keep-recent-turns", "0"],
            tmp_path,
            server,
        )
    assert (first.returncode, second.returncode) == (0, 0), second.stderr
    lines = [*first.stdout.splitlines(), *second.stdout.splitlines()]
    seen = {check_line(line) for line in lines}
    rare = {"server_quiet", "notice", "compaction_failed"}
    assert seen | rare >= {str(event_object(event)["type"]) for event in SAMPLES} | {"result"}
    assert json.loads(lines[-1])["type"] == "result"


def test_a_failed_turn_is_as_documented(tmp_path: Path) -> None:
    with MessagesServer(script=Brain([]), api_key="another") as server:
        options = ["--output-format", "stream-json"]
        done = run_agent(["chat", "-p", "hello", *options], tmp_path, server)
    lines = done.stdout.splitlines()
    assert [check_line(line) for line in lines][-2:] == ["turn_finished", "result"]
    assert json.loads(lines[-2])["error"]["type"] == "AuthenticationError"
    assert json.loads(lines[-1])["is_error"] is True
