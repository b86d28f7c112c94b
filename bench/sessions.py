"""Sessions as long use leaves them, made by a seed: the same ones each time.

A turn is a question, two messages with two tool calls each, and an answer, about 100 KB in
20 records. Thinking is not signed, so it is not sent back. Every fourth turn folds all but
the newest two; every twelfth time, results of kept turns were shortened before. Sessions of
any length end with the same words if they have as many turns after the last fold.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from agent.context.plan import stub_results
from agent.messages import TextBlock, ThinkingBlock, ToolUseBlock, Usage
from agent.tools.registry import ToolBox, default_tools
from agent.transcript.files import private_folder, replace_piecewise
from agent.transcript.records import (
    AssistantEndRecord,
    BlockRecord,
    CompactionRecord,
    Entry,
    PartialRecord,
    Record,
    SessionRecord,
    ToolResultRecord,
    ToolStartRecord,
    UserRecord,
    encode,
)
from agent.transcript.store import with_facts
from agent.transcript.view import View, apply
from bench.limit import SENTENCE

MODEL = "claude-sonnet-5-5"
FOLD_EVERY = 4
KEPT_TURNS = 2

_RESULT_CHARS = ((300, 2_000), (2_000, 12_000), (20_000, 28_000), (20_000, 28_000))
"""Least and most characters of results, each as frequent as the others."""

_SUMMARY_CHARS = 9_000
_LEDGER_CHARS = 40_000
_POOL_CHARS = 3_000_000
_CHINESE = "从主卡中读取配置并在下一次请求之前保留每条记录的副本以便只在新键到来时才访问磁盘"


def entries(session_id: str, cwd: Path, turns: int) -> Iterator[Entry]:
    """A session of so many turns."""
    writer = _Writer(turns)
    specs = ToolBox(default_tools()).specs
    view = View()

    def entry(number: int, record: Record) -> Entry:
        nonlocal view
        if isinstance(record, CompactionRecord):
            record = with_facts(view, record)
        view = apply(view, record)
        return Entry(number, 1_760_000_000.0 + number, record)

    yield entry(1, SessionRecord(session_id, str(cwd), MODEL, "You are a coding agent.", specs))
    count = 1
    for turn in range(1, turns + 1):
        for record in writer.turn(turn):
            yield entry(count := count + 1, record)
        if turn % (3 * FOLD_EVERY) == FOLD_EVERY - 1:
            yield entry(count := count + 1, writer.stubs(view))
        if turn % FOLD_EVERY == 0:
            yield entry(count := count + 1, writer.fold(view))


def write_session(cwd: Path, session_id: str, turns: int) -> Path:
    """Write a session's log into the transcripts folder of ``cwd``; its path."""
    path = private_folder(cwd / ".transcripts") / f"{session_id}.jsonl"
    replace_piecewise(path, map(encode, entries(session_id, cwd, turns)))
    return path


class _Writer:
    """Writes records; the words of a turn depend on how many turns come after it."""

    def __init__(self, turns: int) -> None:
        self._turns = turns
        self._random = random.Random(7)
        self._pool = _pool(self._random)
        self._calls = 0

    def turn(self, number: int) -> Iterator[Record]:
        self._random.seed(self._turns - number)
        pasted = self._random.random() < 0.1
        yield UserRecord(number, f"Question {number}: {self._text(20_000 if pasted else 300)}")
        yield PartialRecord(self._text(700))
        yield from self._message(number, TextBlock(self._text(900)))
        yield from self._message(number, ThinkingBlock(self._text(600), ""))
        yield BlockRecord(TextBlock(self._text(self._random.randint(500, 6_000))))
        yield self._end("end_turn")

    def stubs(self, view: View) -> CompactionRecord:
        replaced = stub_results(view.turns, lambda call: f".transcripts/x.md, {call}")
        summary, body, first = view.summary, view.summary_body, view.turns[0].number
        return CompactionRecord("auto", "stub", first, summary, body, replaced)

    def fold(self, view: View) -> CompactionRecord:
        kept_from = view.last_turn - KEPT_TURNS + 1
        body = self._text(_SUMMARY_CHARS)
        return CompactionRecord(
            trigger="auto",
            method="summary",
            kept_from=kept_from,
            summary=f"{body}\n\n{self._text(_LEDGER_CHARS)}",
            body=body,
            address=f".transcripts/x.md:1-99, turns 1-{kept_from - 1}",
            folded_turns=sum(turn.number < kept_from for turn in view.turns),
            tokens_before=190_000,
            tokens_after=80_000,
        )

    def _message(self, number: int, first: TextBlock | ThinkingBlock) -> Iterator[Record]:
        calls = [self._call(number), self._call(number)]
        yield from map(BlockRecord, (first, *calls))
        yield self._end("tool_use")
        for call in calls:
            yield ToolStartRecord(call.id)
            content = self._text(self._random.randint(*self._random.choice(_RESULT_CHARS)))
            yield ToolResultRecord(call.id, content, is_error=False, seconds=0.2)

    def _call(self, number: int) -> ToolUseBlock:
        self._calls += 1
        path = f"src/part_{number % 90}/module_{self._calls % 700}.py"
        arguments: dict[str, object] = {"path": path}
        match self._random.choice(("read_file", "grep", "shell", "write_file")):
            case "read_file" as name:
                arguments |= {"offset": self._calls % 900, "limit": 400}
            case "grep" as name:
                arguments |= {"pattern": f"value_{self._calls}"}
            case "shell" as name:
                arguments = {"command": f"python -m pytest -q {path}::test_{self._calls}"}
            case name:
                arguments |= {"content": self._text(9_000)}
        return ToolUseBlock(f"toolu_{self._calls:08d}", name, arguments)

    def _end(self, reason: str) -> AssistantEndRecord:
        return AssistantEndRecord(reason, MODEL, Usage(40_000, 700, 30_000))

    def _text(self, characters: int) -> str:
        start = self._random.randrange(len(self._pool) - characters)
        return self._pool[start : start + characters]


def _pool(source: random.Random) -> str:
    """Lines of prose, code, figures and paths; in the last quarter, Chinese among them."""
    words = SENTENCE.split()
    lines: list[str] = []
    size = 0
    while size < _POOL_CHARS:
        line = source.choices(words, k=source.randint(3, 14))
        kind = source.random()
        if kind < 0.2:
            line.append(f'name_{source.randrange(30_000)} = "{source.getrandbits(32):08x}"')
        elif kind < 0.3:
            line.append(f"src/part_{source.randrange(90)}/module_{source.randrange(700)}.py:12")
        elif kind < 0.33 and size > _POOL_CHARS * 3 // 4:
            line.append(_CHINESE[source.randrange(20) :])
        lines.append(" " * 4 * source.randrange(3) + " ".join(line))
        size += len(lines[-1]) + 1
    return "\n".join(lines)
