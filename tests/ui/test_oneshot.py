from __future__ import annotations

import asyncio
import io
import json
import os
import pty
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent.errors import AgentError, ProviderBusyError, TranscriptError
from agent.events import (
    CompactionFinished,
    Notice,
    RequestFinished,
    RequestStarted,
    RetryScheduled,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    TurnFinished,
    TurnStarted,
)
from agent.ui.oneshot import OutputFormat, run_once
from tests.ui.scripted import (
    REPORT,
    SIZE,
    USAGE,
    Fail,
    Pause,
    ScriptedSession,
    Step,
    answer,
    finished,
)


@dataclass
class Run:
    """What a run printed and returned."""

    code: int
    out: str
    err: str
    session: ScriptedSession

    @property
    def result(self) -> dict[str, object]:
        value = json.loads(self.out.strip().split("\n")[-1])
        assert isinstance(value, dict)
        return value


async def once(steps: list[Step], output_format: OutputFormat = "text") -> Run:
    session = ScriptedSession({"go": lambda: steps})
    out, err = io.StringIO(), io.StringIO()
    code = await run_once(session, "go", output_format, out, err)
    return Run(code, out.getvalue(), err.getvalue(), session)


def with_tools() -> list[Step]:
    return [
        TurnStarted(4),
        RetryScheduled("overloaded", 8.0, 1),
        CompactionFinished(REPORT),
        RequestStarted(1, SIZE),
        TextDelta("I will look."),
        RequestFinished("tool_use", USAGE),
        ToolCallStarted("t", "shell", {"command": "ls"}, "ls"),
        ToolCallFinished("t", "shell", "a\n", False, 0.3),
        RequestStarted(2, SIZE),
        TextDelta("Only "),
        TextDelta("this."),
        RequestFinished("end_turn", USAGE),
        Notice("by the way"),
        TurnFinished(4, "Only this.", "end_turn", USAGE, SIZE, 3.4, 2, (REPORT,)),
    ]


async def test_stdout_holds_the_answer_alone() -> None:
    run = await once(with_tools())
    assert (run.code, run.out) == (0, "Only this.\n")
    assert run.err.split("\n") == [
        "overloaded: trying again in 8 s",
        "📦 folded 7 turns · 12.3k -> 3.1k tokens · 4.2 s · read back: .transcripts/s1.md:1-188",
        "shell ls",
        "shell: 1 line · 2 B · 0.3 s",
        "by the way",
        "",
    ]
    assert run.session.closed_streams == 1


@pytest.mark.parametrize("text", ["a\x1b[2Jb", "line end\n", "  spaces  ", "日本語 \ud800"])
async def test_text_goes_into_a_pipe_as_it_is(text: str) -> None:
    run = await once(answer(text))
    expected = text if text.endswith("\n") else text + "\n"
    assert run.out == expected.replace("\ud800", "?")


async def test_the_json_object() -> None:
    run = await once(with_tools(), "json")
    assert run.out.count("\n") == 1
    duration = run.result.pop("duration_ms")
    assert isinstance(duration, int)
    assert run.result | {"duration_ms": 0} == {
        "type": "result",
        "is_error": False,
        "result": "Only this.",
        "session_id": "s1",
        "transcript": ".transcripts/s1.md",
        "num_turns": 4,
        "stop_reason": "end_turn",
        "usage": {
            "input_tokens": 1_300,
            "output_tokens": 512,
            "cache_read_input_tokens": 11_000,
            "cache_creation_input_tokens": 0,
        },
        "context": {"tokens": 38_200, "budget": 140_000, "window": 200_000, "exact": True},
        "compactions": [
            {
                "trigger": "auto",
                "method": "summary",
                "folded_turns": 7,
                "tokens_before": 12_300,
                "tokens_after": 3_100,
                "seconds": 4.2,
                "address": ".transcripts/s1.md:1-188",
            }
        ],
        "duration_ms": 0,
    }


async def test_the_json_stream() -> None:
    run = await once(with_tools(), "stream-json")
    objects = [json.loads(line) for line in run.out.strip().split("\n")]
    assert [item["type"] for item in objects] == [
        "turn_started",
        "retry_scheduled",
        "compaction_finished",
        "request_started",
        "text_delta",
        "request_finished",
        "tool_call_started",
        "tool_call_finished",
        "request_started",
        "text_delta",
        "text_delta",
        "request_finished",
        "notice",
        "turn_finished",
        "result",
    ]
    assert objects[4] == {"type": "text_delta", "text": "I will look."}
    assert objects[6]["input"] == {"command": "ls"}
    assert objects[2]["report"]["usage"]["input_tokens"] == 0
    assert objects[-2]["error"] is None


async def test_errors_in_the_json_stream_have_a_type_and_a_message() -> None:
    run = await once([TurnStarted(1), finished(error=ProviderBusyError("busy"))], "stream-json")
    event = json.loads(run.out.split("\n")[1])
    assert event["error"] == {"type": "ProviderBusyError", "message": "busy"}


@pytest.mark.parametrize("output_format", ["text", "json"])
@pytest.mark.parametrize(
    ("error", "code"), [(AgentError("it failed"), 1), (ProviderBusyError("still busy"), 75)]
)
async def test_exit_codes_of_errors(
    output_format: OutputFormat, error: AgentError, code: int
) -> None:
    run = await once([TurnStarted(1), finished(error=error)], output_format)
    assert run.code == code
    assert run.err == f"error: {error}\n"
    if output_format == "json":
        assert run.result["is_error"] is True
        assert run.result["error"] == str(error)
    else:
        assert run.out == ""


async def test_an_error_outside_a_turn_is_told_too() -> None:
    run = await once([Fail(TranscriptError("disk full"))], "json")
    assert run.code == 1
    assert run.err == "error: disk full\n"
    assert run.result["error"] == "disk full"


async def test_an_unforeseen_error_is_not_hidden() -> None:
    with pytest.raises(KeyError):
        await once([Fail(KeyError("bug"))])


@pytest.mark.parametrize("output_format", ["text", "json"])
async def test_sigint_stops_the_turn_and_prints_what_was_received(
    output_format: OutputFormat,
) -> None:
    steps: list[Step] = [TurnStarted(2), RequestStarted(1, SIZE), TextDelta("Half of"), Pause(60)]
    asyncio.get_running_loop().call_later(0.1, os.kill, os.getpid(), signal.SIGINT)
    before = signal.getsignal(signal.SIGINT)
    started = time.monotonic()
    run = await once(steps, output_format)
    assert time.monotonic() - started < 5
    assert run.code == 130
    assert run.session.closed_streams == 1
    assert "what was received is kept" in run.err
    assert signal.getsignal(signal.SIGINT) is before
    if output_format == "text":
        assert run.out == "Half of\n"
    else:
        assert run.result["result"] == "Half of"
        assert run.result["error"] == "interrupted"
        assert run.result["num_turns"] == 2


@pytest.mark.parametrize("output_format", ["text", "json", "stream-json"])
async def test_a_reader_that_went_away_is_no_noise(output_format: OutputFormat) -> None:
    session = ScriptedSession({"go": lambda: answer("text " * 100)})
    read_end, write_end = os.pipe()
    os.close(read_end)
    err = io.StringIO()
    with os.fdopen(write_end, "w", encoding="utf-8") as out:
        assert await run_once(session, "go", output_format, out, err) == 1
    assert err.getvalue() == ""
    assert session.closed_streams == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("output_format", ["text", "json", "stream-json"])
async def test_a_disk_without_room_for_the_answer_is_told(output_format: OutputFormat) -> None:
    err = io.StringIO()
    with os.fdopen(os.open("/dev/full", os.O_WRONLY), "w", encoding="utf-8") as out:
        assert await run_once(ScriptedSession(), "go", output_format, out, err) == 1
    told = err.getvalue().splitlines()
    assert told == [
        "error: cannot print the answer: No space left on device; "
        "the conversation is in .transcripts/s1.md"
    ]


@pytest.mark.parametrize("output_format", ["text", "json"])
async def test_a_terminal_gets_nothing_it_could_act_on(output_format: OutputFormat) -> None:
    session = ScriptedSession({"go": lambda: answer("a\x1b]52;c;QQ\x07\x9b2Jb")})
    master, slave = pty.openpty()
    with os.fdopen(slave, "w", encoding="utf-8") as out:
        assert await run_once(session, "go", output_format, out, io.StringIO()) == 0
        shown = os.read(master, 10_000).decode()
    os.close(master)
    assert not [c for c in shown if (c < " " and c not in "\r\n") or "\x7f" <= c < "\xa0"]
    if output_format == "text":
        assert shown == "ab\r\n"


async def test_an_encoding_without_the_characters_is_no_error() -> None:
    raw = io.BytesIO()
    session = ScriptedSession({"go": lambda: answer("日本 é")})
    out = io.TextIOWrapper(raw, encoding="latin-1")
    err = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    assert await run_once(session, "go", "text", out, err) == 0
    assert raw.getvalue() == "?? é\n".encode("latin-1")


async def test_nobody_is_asked() -> None:
    session = ScriptedSession()
    assert await run_once(session, "ask", "text", io.StringIO(), io.StringIO()) == 0
    assert [decision.allowed for decision in session.decisions] == [False]
