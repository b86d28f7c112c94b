"""Conversations of other programs become sessions that go on."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.errors import SessionError
from agent.messages import Message, ThinkingBlock
from agent.session import Session
from agent.tools.registry import ToolBox, default_tools
from agent.transcript.imports import read_conversation, save_conversation
from agent.transcript.log import read_log
from agent.transcript.records import ModelRecord, RewindRecord, SessionRecord, UserRecord
from agent.transcript.turns import NOT_RUN, OUTCOME_UNKNOWN
from agent.transcript.view import SUMMARY_HEADING, View, build
from agent.ui.importing import import_files
from agent.wire import message_to_wire
from tests.e2e.support import collect, compactions, open_session, run_agent, send
from tests.real_records import ABSENT, DATA
from tests.server.replies import Reply
from tests.server.rules import check_history
from tests.server.server import MessagesServer
from tests.test_media import picture

Json = dict[str, Any]

MODEL = "claude-sonnet-5-5"
START = SessionRecord("", "/work", MODEL, "Be brief.", ())
REAL = (
    sorted([*DATA.glob("claude_code/*/*.jsonl"), *DATA.glob("pi_sessions/*.jsonl")])
    if DATA.is_dir()
    else []
)


def at(number: int) -> str:
    return f"2026-01-07T20:{number:02d}:00.250Z"


def seconds(number: int) -> float:
    return datetime(2026, 1, 7, 20, number, 0, 250_000, UTC).timestamp()


class ClaudeCode:
    """Writes a session as that program would, a chain of entries."""

    def __init__(self) -> None:
        self.lines: list[Json] = [{"type": "file-history-snapshot", "snapshot": {}}]
        self.parent: str | None = None

    def add(self, kind: str, **fields: object) -> str:
        number = len(self.lines)
        entry = {"type": kind, "uuid": f"u{number}", "parentUuid": self.parent, "cwd": "/home/me"}
        self.lines.append({**entry, "timestamp": at(number), "sessionId": "x", **fields})
        self.parent = f"u{number}"
        return self.parent

    def user(self, content: object, **fields: object) -> str:
        return self.add("user", message={"role": "user", "content": content}, **fields)

    def result(self, call: str, content: object, **fields: object) -> str:
        block = {"type": "tool_result", "tool_use_id": call, "content": content, **fields}
        return self.user([block])

    def said(self, message_id: str, block: Mapping[str, object], **fields: object) -> str:
        usage = {"input_tokens": 7, "output_tokens": 5, "cache_read_input_tokens": 100}
        message = {"id": message_id, "role": "assistant", "model": MODEL, "usage": usage}
        return self.add("assistant", message={**message, "content": [block]}, **fields)

    def text(self, message_id: str, text: str) -> str:
        return self.said(message_id, {"type": "text", "text": text})

    def call(self, message_id: str, call: str, **given: object) -> str:
        block = {"type": "tool_use", "id": call, "name": "Bash", "input": given}
        return self.said(message_id, block)

    def write(self, path: Path) -> Path:
        path.write_text("".join(json.dumps(line) + "\n" for line in self.lines))
        return path


def write_lines(path: Path, lines: Iterable[object]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def imported(path: Path) -> View:
    """The view that the saved session has, after checks that hold for each."""
    folder = path.parent / ".transcripts"
    session_id = save_conversation(folder, START, read_conversation(path))
    recovered = read_log(folder / f"{session_id}.jsonl")
    assert (recovered.skipped, recovered.torn) == (0, False)
    view = build(entry.record for entry in recovered.entries)
    assert (view.session_id, view.model, view.system) == (session_id, MODEL, "Be brief.")
    assert not view.running
    wire = [message_to_wire(message) for message in view.messages]
    assert check_history(None, None, [*wire, {"role": "user", "content": "now?"}]) is None
    return view


def texts(messages: Iterable[Message]) -> list[str]:
    return [message.text for message in messages if message.text]


def test_lines_with_one_id_are_one_message_with_all_its_results(tmp_path: Path) -> None:
    file = ClaudeCode()
    file.user("look around")
    thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    file.said("m1", thought)
    file.text("m1", "I look.")
    first = file.call("m1", "c1", command="ls")
    file.result("c1", "one file")
    # The second call of the same message hangs on the first one, not on its result.
    file.parent = first
    second = file.call("m1", "c2", command="pwd")
    file.result("c2", [{"type": "text", "text": "/home"}, {"type": "image", "source": {}}])
    file.parent = second
    file.text("m2", "Done.")
    view = imported(file.write(tmp_path / "x"))
    kinds = [[type(block).__name__ for block in message.blocks] for message in view.messages]
    assert kinds == [
        ["TextBlock"],
        ["ThinkingBlock", "TextBlock", "ToolUseBlock", "ToolUseBlock"],
        ["ToolResultBlock", "ToolResultBlock"],
        ["TextBlock"],
    ]
    assert view.messages[1].blocks[0] == ThinkingBlock("hm", "c2ln")
    assert [result.content for result in view.messages[2].tool_results] == [
        "one file",
        "/home\n[an image]",
    ]


def test_times_and_usage_are_kept(tmp_path: Path) -> None:
    file = ClaudeCode()
    file.user("hello")
    file.text("m1", "Hi.")
    folder = tmp_path / ".transcripts"
    made = save_conversation(folder, START, read_conversation(file.write(tmp_path / "x")))
    lines = (folder / f"{made}.jsonl").read_text().splitlines()
    entries = [json.loads(line) for line in lines]
    assert [(entry["type"], entry["ts"]) for entry in entries] == [
        ("session", seconds(1)),
        ("user", seconds(1)),
        ("block", seconds(2)),
        ("assistant_end", seconds(2)),
    ]
    assert entries[-1]["usage"]["cache_read_input_tokens"] == 100
    assert (folder / ".gitignore").read_text() == "*\n"


def test_thinking_that_a_server_would_refuse_is_not_sent(tmp_path: Path) -> None:
    file = ClaudeCode()
    file.user("hello")
    file.said("m1", {"type": "thinking", "thinking": "unsigned", "signature": ""})
    file.text("m1", "Hi.")
    file.user("and")
    file.text("m2", "First.")
    file.said("m2", {"type": "thinking", "thinking": "late", "signature": "c2ln"})
    file.call("m2", "c1")
    file.result("c1", "ok")
    view = imported(file.write(tmp_path / "x"))
    blocks = [block for message in view.messages for block in message.blocks]
    assert not any(isinstance(block, ThinkingBlock) for block in blocks)


def test_another_model_goes_on_without_the_thinking(tmp_path: Path) -> None:
    file = ClaudeCode()
    file.user("hello")
    file.said("m1", {"type": "thinking", "thinking": "hm", "signature": "c2ln"})
    file.text("m1", "Hi.")
    for line in file.lines[2:]:
        line["message"]["model"] = "claude-opus-4-6"
    path = file.write(tmp_path / "x")
    view = imported(path)
    assert [message.blocks[0] for message in view.messages if message.role == "assistant"] == [
        view.messages[1].blocks[0]
    ]
    assert texts(view.messages) == ["hello", "Hi."]
    assert read_conversation(path).models == {"claude-opus-4-6"}


def test_calls_that_were_never_answered_are_closed(tmp_path: Path) -> None:
    file = ClaudeCode()
    file.user("go")
    file.call("m1", "c1", command="make")
    file.user("[Request interrupted by user for tool use]")
    file.user("go on")
    file.call("m2", "c2", command="make install")
    view = imported(file.write(tmp_path / "x"))
    results = [result for message in view.messages for result in message.tool_results]
    assert [result.content for result in results] == [OUTCOME_UNKNOWN] * 2
    assert [turn.words for turn in view.turns] == ["go", "go on"]


def test_only_the_conversation_is_taken(tmp_path: Path) -> None:
    file = ClaudeCode()
    file.user("Caveat: The messages below were generated by the user", isMeta=True)
    file.user("<command-name>/clear</command-name>")
    file.user("<local-command-stdout></local-command-stdout>")
    file.user([{"type": "text", "text": "see"}, {"type": "image", "source": {"data": "A" * 9}}])
    file.said("m1", {"type": "text", "text": "side"}, isSidechain=True)
    file.said("m2", {"type": "text", "text": "API Error: 500"}, isApiErrorMessage=True)
    file.call("m3", "c1", skill="pdf")
    file.result("c1", "Launching skill")
    file.user([{"type": "text", "text": "How to read PDFs."}], isMeta=True)
    file.text("m4", "I see.")
    file.add("progress", data={})
    view = imported(file.write(tmp_path / "x"))
    assert texts(view.messages) == ["see\n[an image]", "I see."]
    assert view.messages[2].tool_results[0].content == "Launching skill\n\nHow to read PDFs."


def test_a_compaction_of_the_other_program_is_not_taken_over(tmp_path: Path) -> None:
    file = ClaudeCode()
    file.user("first")
    file.text("m1", "One.")
    meta = {"trigger": "manual", "preTokens": 99}
    file.parent = None
    file.add("system", subtype="compact_boundary", compactMetadata=meta)
    file.user("This session is being continued ...", isCompactSummary=True)
    file.user("second")
    file.text("m2", "Two.")
    path = file.write(tmp_path / "x")
    assert texts(imported(path).messages) == ["first", "One.", "second", "Two."]
    assert read_conversation(path).compactions == 1


def test_a_summary_is_all_there_is_of_what_another_file_holds(tmp_path: Path) -> None:
    file = ClaudeCode()
    file.user("This session is being continued ...", isCompactSummary=True)
    file.text("m1", "Going on.")
    view = imported(file.write(tmp_path / "x"))
    assert texts(view.messages) == ["This session is being continued ...", "Going on."]


def test_words_typed_while_a_turn_was_running_are_kept(tmp_path: Path) -> None:
    file = ClaudeCode()
    file.user("go")
    file.call("m1", "c1")
    for text in ("not that way", "<task-notification>done</task-notification>", "/model opus"):
        file.add("queue-operation", operation="enqueue", content=text)
    file.add("queue-operation", operation="remove")
    file.result("c1", "ok")
    file.text("m2", "Another way.")
    file.add("queue-operation", operation="enqueue", content="later")
    file.add("queue-operation", operation="dequeue")
    file.user("later")
    file.text("m3", "Later.")
    file.add("queue-operation", operation="enqueue", content="taken back")
    file.add("queue-operation", operation="popAll", content="taken back")
    view = imported(file.write(tmp_path / "x"))
    assert [turn.words for turn in view.turns] == ["go", "not that way", "later"]
    assert view.messages[2].tool_results[0].content == "ok"


def test_going_back_is_taken_over(tmp_path: Path) -> None:
    file = ClaudeCode()
    file.user("one")
    answered = file.text("m1", "One.")
    file.user("wrong way")
    file.text("m2", "Wrong.")
    file.parent = answered
    file.user("right way")
    file.text("m3", "Right.")
    path = file.write(tmp_path / "x")
    assert texts(imported(path).messages) == ["one", "One.", "right way", "Right."]
    records = [placed.record for placed in read_conversation(path).records]
    assert RewindRecord(2) in records
    assert UserRecord(2, "wrong way") in records
    assert UserRecord(3, "right way") in records


def test_what_a_server_would_not_take_is_made_fit(tmp_path: Path) -> None:
    file = ClaudeCode()
    file.text("m0", "The beginning is missing.")
    for number in range(2):
        file.user(f"again {number} \ud800")
        call = {"type": "tool_use", "id": "call|1", "name": "mcp:a.b/c " * 20, "input": "x"}
        file.said(f"m{number}a", call)
        file.result("call|1", f"result {number}", is_error=True)
        file.said(f"m{number}b", {"type": "server_tool_use", "name": "web"})
    view = imported(file.write(tmp_path / "x"))
    uses = [use for message in view.messages for use in message.tool_uses]
    assert len({use.id for use in uses}) == 2
    results = [result for message in view.messages for result in message.tool_results]
    assert [result.content for result in results] == ["result 0", "result 1"]
    assert all(result.is_error for result in results)
    assert "again 1 \ufffd" in texts(view.messages)


def test_damaged_lines_are_counted_and_the_rest_is_taken(tmp_path: Path) -> None:
    file = ClaudeCode()
    file.user("hello")
    file.text("m1", "Hi.")
    path = file.write(tmp_path / "x")
    whole = path.read_bytes()
    path.write_bytes(b"\xef\xbb\xbf" + whole + b"\x00\x00\n[1]\n\n" + whole.splitlines()[1][:50])
    assert read_conversation(path).damaged == 3
    assert texts(imported(path).messages) == ["hello", "Hi."]


def pi_user(text: str) -> Json:
    return {"type": "message", "message": {"role": "user", "content": text}}


def pi_said(*blocks: Json, stop: str = "stop") -> Json:
    usage = {"input": 3, "output": 4, "cacheRead": 50, "cacheWrite": 6}
    message = {"role": "assistant", "content": list(blocks), "model": MODEL, "usage": usage}
    return {"type": "message", "message": {**message, "stopReason": stop}}


def pi_text(text: str, stop: str = "stop") -> Json:
    return pi_said({"type": "text", "text": text}, stop=stop)


def pi_call(call: str) -> Json:
    block = {"type": "toolCall", "id": call, "name": "bash", "arguments": {"command": "ls"}}
    return pi_said(block, stop="toolUse")


def pi_result(call: str, text: str) -> Json:
    content = [{"type": "text", "text": text}]
    return {
        "type": "message",
        "message": {"role": "toolResult", "toolCallId": call, "content": content},
    }


PI_HEADER: Json = {"type": "session", "id": "s", "timestamp": at(0), "cwd": "/home/me"}


def pi_linear(*entries: Json) -> list[Json]:
    timed = [{"timestamp": at(number), **entry} for number, entry in enumerate(entries, 1)]
    return [{**PI_HEADER, "provider": "anthropic", "modelId": MODEL}, *timed]


def pi_tree(*entries: tuple[str, str | None, Json]) -> list[Json]:
    placed = [
        {"id": own, "parentId": parent, "timestamp": at(number), **entry}
        for number, (own, parent, entry) in enumerate(entries, 1)
    ]
    return [{**PI_HEADER, "version": 3}, *placed]


def test_a_pi_session_of_the_first_version(tmp_path: Path) -> None:
    shell = {"role": "bashExecution", "command": "ls", "output": "a.txt", "exitCode": 0}
    path = write_lines(
        tmp_path / "x",
        pi_linear(
            pi_user("hello"),
            pi_said(
                {"type": "thinking", "thinking": "hm", "thinkingSignature": "c2ln"},
                {"type": "text", "text": "Hi."},
            ),
            {"type": "compaction", "summary": "s", "firstKeptEntryIndex": 1, "tokensBefore": 9},
            pi_user("again"),
            pi_call("c1"),
            pi_result("c1", "a.txt"),
            pi_text("half an ans", stop="aborted"),
            pi_user("go on"),
            pi_text("nothing", stop="error"),
            {"type": "message", "message": shell},
            pi_call("c2|fc_1"),
        ),
    )
    view = imported(path)
    assert texts(view.messages) == [
        "hello",
        "Hi.",
        "again",
        "half an ans",
        "go on",
        "[The turn ended here, without an answer.]",
        "Ran `ls`\n```\na.txt\n```",
        "[The turn ended here, without an answer.]",
    ]
    assert view.messages[1].blocks[0] == ThinkingBlock("hm", "c2ln")
    assert view.messages[-2].tool_results[0].content == OUTCOME_UNKNOWN
    assert read_conversation(path).compactions == 1


def test_calls_of_a_pi_answer_that_was_aborted_were_not_run(tmp_path: Path) -> None:
    aborted = pi_call("c1")
    aborted["message"]["stopReason"] = "aborted"
    path = write_lines(tmp_path / "x", pi_linear(pi_user("go"), aborted, pi_user("and?")))
    results = [result for message in imported(path).messages for result in message.tool_results]
    assert [result.content for result in results] == [NOT_RUN]


def test_a_pi_tree_is_followed_to_its_last_entry(tmp_path: Path) -> None:
    left = {"type": "branch_summary", "fromId": "d", "summary": "It was wrong."}
    custom = {"type": "custom_message", "customType": "x", "content": "From an extension."}
    path = write_lines(
        tmp_path / "x",
        pi_tree(
            ("a", None, pi_user("one")),
            ("b", "a", pi_text("One.")),
            ("c", "b", pi_user("wrong way")),
            ("d", "c", pi_text("Wrong.")),
            ("e", "b", left),
            ("f", "e", custom),
            ("g", "f", pi_user("right way")),
            ("h", "g", {"type": "model_change", "provider": "x", "modelId": "gpt-x"}),
            ("i", "h", pi_text("Right.")),
            ("j", "i", {"type": "label", "targetId": "a", "label": "start"}),
        ),
    )
    view = imported(path)
    assert texts(view.messages) == [
        "one",
        "One.",
        "[A branch that was left, summarised]\nIt was wrong.\n\nFrom an extension.\n\nright way",
        "Right.",
    ]
    assert read_conversation(path).left_out == 2
    records = [placed.record for placed in read_conversation(path).records]
    assert ModelRecord("gpt-x") in records


def test_a_pi_tree_with_a_gap_loses_nothing_before_it(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "x",
        pi_tree(
            ("a", None, pi_user("one")),
            ("b", "a", pi_text("One.")),
            ("d", "c", pi_user("two")),
            ("e", "d", pi_text("Two.")),
        ),
    )
    assert texts(imported(path).messages) == ["one", "One.", "two", "Two."]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is no session file of Claude Code or pi"),
        ("# Notes\n\nhello\n", "is no session file of Claude Code or pi"),
        ('{"role": "user", "content": "hi"}\n', "is no session file of Claude Code or pi"),
        ('[{"type": "user"}]', "is no session file of Claude Code or pi"),
        ('{"v":1,"seq":1,"ts":1,"type":"session","crc":"0"}\n', "of this program already"),
        (json.dumps(PI_HEADER) + "\n", "is no session file of Claude Code or pi"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "session.jsonl"
    path.write_text(content)
    with pytest.raises(SessionError, match=said):
        read_conversation(path)


def test_a_file_in_which_nobody_said_anything_is_refused(tmp_path: Path) -> None:
    file = ClaudeCode()
    file.user("<command-name>/clear</command-name>")
    with pytest.raises(SessionError, match="holds no conversation"):
        read_conversation(file.write(tmp_path / "x"))
    with pytest.raises(SessionError, match="cannot read"):
        read_conversation(tmp_path / "missing")
    with pytest.raises(SessionError, match="cannot read"):
        read_conversation(tmp_path)


def eventful() -> list[list[Json]]:
    """A file of each format with a bit of everything."""
    file = ClaudeCode()
    file.user("go")
    file.said("m1", {"type": "thinking", "thinking": "hm", "signature": "c2ln"})
    file.call("m1", "c1", command="ls")
    file.add("queue-operation", operation="enqueue", content="queued")
    file.add("queue-operation", operation="remove")
    file.result("c1", [{"type": "text", "text": "ok"}])
    file.add("system", subtype="compact_boundary", compactMetadata={"preTokens": 9})
    file.user("summary", isCompactSummary=True)
    file.add("attachment", attachment={"type": "queued_command", "prompt": "attached"})
    file.text("m2", "Done.")
    tree = pi_tree(
        ("a", None, pi_user("one")),
        ("b", "a", pi_call("c1")),
        ("c", "b", pi_result("c1", "ok")),
        ("d", "c", {"type": "compaction", "summary": "s", "firstKeptEntryId": "b"}),
        ("e", "d", {"type": "model_change", "modelId": "m"}),
        ("f", "e", pi_text("Done.")),
    )
    return [file.lines, tree]


def paths_in(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The way to every value within another one."""
    if path:
        yield path
    inner: Iterable[tuple[str | int, object]] = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    for key, item in inner:
        yield from paths_in(item, (*path, key))


ODD: tuple[object, ...] = (
    None,
    True,
    -1,
    1e99,
    "",
    "x",
    [],
    [None],
    [[]],
    {},
    {"type": "text"},
    {"type": 3},
)


@given(data=st.data())
@settings(max_examples=100)
def test_whatever_a_field_holds_the_rest_is_taken(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    lines = data.draw(st.sampled_from(eventful()))
    for _ in range(data.draw(st.integers(1, 3))):
        *way, last = data.draw(st.sampled_from(list(paths_in(lines))))
        place: Any = lines
        for key in way:
            place = place[key]
        # A copy: a later change may go into it.
        place[last] = deepcopy(data.draw(st.sampled_from(ODD)))
    path = write_lines(tmp_path_factory.mktemp("work") / "x", lines)
    try:
        read_conversation(path)
    except SessionError:
        return
    imported(path)


def long_conversation() -> ClaudeCode:
    file = ClaudeCode()
    for number in range(12):
        file.user(f"question {number} about the walnut")
        file.call(f"m{number}a", f"c{number}", command=f"cat {number}")
        file.result(f"c{number}", f"row {number}\n" * 60)
        file.text(f"m{number}b", f"answer {number} " * 30)
    for position, line in enumerate(file.lines):
        line["timestamp"] = at(position % 60)
    return file


ANSWER = "Going on where the conversation stopped. " * 5


def always(_body: Mapping[str, Any], _index: int) -> Reply:
    """A model that answers everything, summaries included."""
    return Reply(ANSWER)


def bring(session: Session, *files: Path) -> int:
    return import_files(session, ToolBox(default_tools()).specs, files)


async def test_an_imported_session_goes_on(tmp_path: Path) -> None:
    file = long_conversation()
    # The server did not sign this: it refuses it, and the program goes on without.
    thought = {"type": "thinking", "thinking": "hm", "signature": "Zm9yZWlnbg=="}
    file.user("last")
    file.said("z", thought)
    file.text("z", "Last answer.")
    path = file.write(tmp_path / "x")
    with MessagesServer(script=always) as server:
        async with open_session(server, tmp_path) as session:
            assert bring(session, path) == 0
            made = session.id
        async with open_session(server, tmp_path, resume=made) as session:
            finished = await send(session, "and now?")
            assert finished.stop_reason == "end_turn"
            assert texts(session.messages())[-2:] == ["and now?", ANSWER]
        assert server.messages_requests[-1].status == 200
        body = server.messages_requests[-1].body
    sent = json.dumps(body["messages"])
    assert "question 0 about the walnut" in sent
    assert "Last answer." in sent
    assert body["system"]
    assert [tool["name"] for tool in body["tools"]][-1] == "recall"


async def test_an_imported_session_is_folded_when_it_is_too_long(tmp_path: Path) -> None:
    path = long_conversation().write(tmp_path / "x")
    with MessagesServer(window=6_000, script=always) as server:
        async with open_session(server, tmp_path, max_input_tokens=4_000) as session:
            assert bring(session, path) == 0
            events = await collect(session.send("and now?"))
            assert any(report.folded_turns for report in compactions(events))
            assert session.messages()[0].text.startswith(SUMMARY_HEADING)
            assert texts(session.messages())[-1] == ANSWER


@pytest.mark.skipif(not REAL, reason=ABSENT)
@pytest.mark.parametrize("budget", [20_000, 140_000])
async def test_real_sessions_go_on(tmp_path: Path, budget: int) -> None:
    with MessagesServer(script=always) as server:
        async with open_session(server, tmp_path, max_input_tokens=budget) as session:
            for path in REAL:
                assert bring(session, path) == 0
                assert len(session.messages()) >= 2, path
                finished = await send(session, "and now?")
                assert finished.stop_reason == "end_turn", path
                # Summaries may be asked for with more.
                assert server.messages_requests[-1].prompt_tokens < budget * 1.25
        assert {request.status for request in server.messages_requests} == {200}


def test_the_command_imports_searches_and_says_what_it_refuses(tmp_path: Path) -> None:
    long_conversation().write(tmp_path / "a.jsonl")
    (tmp_path / "notes.md").write_text("no session")
    done = run_agent(["import", "notes.md", "a.jsonl"], tmp_path, None)
    assert done.returncode == 2
    assert done.stderr == (
        "agent: notes.md is no session file of Claude Code or pi (JSON lines); "
        "nothing was imported\n"
    )
    first, second = done.stdout.splitlines()
    assert first == "imported 12 turns of Claude Code from a.jsonl"
    made = second.removeprefix("  agent chat --resume ")
    assert (tmp_path / ".transcripts" / "latest.txt").read_text().strip().endswith(f"{made}.md")

    found = run_agent(["search", "walnut", "7"], tmp_path, None)
    assert found.returncode == 0
    assert found.stdout.startswith(f".transcripts/{made}.md:")
    assert "question 7 about the walnut" in found.stdout
    as_json = run_agent(["search", "walnut", "--json", "--all"], tmp_path, None)
    hits = [json.loads(line) for line in as_json.stdout.splitlines()]
    assert {hit["turn"] for hit in hits} == set(range(1, 13))
    assert {hit["session_id"] for hit in hits} == {made}
    missed = run_agent(["search", "hazelnut"], tmp_path, None)
    assert missed.returncode == 1
    assert missed.stdout == "nothing found for 'hazelnut' in this folder's sessions\n"


def test_images_come_along_small_enough_to_be_sent(tmp_path: Path) -> None:
    data = base64.b64encode(picture(3_000, 300)).decode()
    source = {"type": "base64", "media_type": "image/png", "data": data}
    file = ClaudeCode()
    file.user([{"type": "text", "text": "see"}, {"type": "image", "source": source}])
    file.call("m1", "c1", file_path="chart.png")
    file.result("c1", [{"type": "image", "source": source}])
    file.text("m2", "Two charts.")
    view = imported(file.write(tmp_path / "x"))
    asked, shown = view.messages[0].media, view.messages[2].media
    assert [media.media_type for media in asked + shown] == ["image/png"] * 2
    assert [media.tokens for media in asked + shown] == [56 * 6] * 2
    for media in asked + shown:
        assert media.address
        assert len(base64.b64decode(media.data)) < len(base64.b64decode(data))
