"""The readable companion of a log: Markdown that people and ``read_file`` read.

Rendering is a pure function of the entries in order. The file only grows, so the
line numbers of what was once rendered never change; addresses are made of them.
Lines are counted by the newline byte alone, as ``read_file`` counts them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from agent.messages import (
    MediaBlock,
    OpaqueBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from agent.transcript.records import (
    AssistantEndRecord,
    BlockRecord,
    CompactionRecord,
    DiscardedRecord,
    Entry,
    InterruptedRecord,
    ModelRecord,
    PartialRecord,
    Record,
    RewindRecord,
    SessionRecord,
    ThinkingDroppedRecord,
    ToolResultRecord,
    ToolStartRecord,
    UncompactRecord,
    UnknownRecord,
    UserRecord,
)
from agent.wire import compact_json

BOUNDARY = "[COMPACT_BOUNDARY]"

_BACKTICKS = re.compile(r"`{3,}")


@dataclass(frozen=True)
class Span:
    """Lines of the readable file, counted from 1, both ends included."""

    first: int
    last: int


class Renderer:
    """Renders entries one after another and knows where each turn and result stands."""

    def __init__(self) -> None:
        self.lines = 0
        self._turn_starts: dict[int, int] = {}
        self._turn_ends: dict[int, int] = {}
        self._results: dict[str, Span] = {}
        self._tool_names: dict[str, str] = {}
        self._speaking = False
        self._partial = ""
        self._turn = 0
        self.newest_turn = 0
        """The highest turn number that was ever given; 0 before the first."""

    def feed(self, entry: Entry) -> str:
        """The text that this entry adds to the file; empty for many kinds."""
        record = entry.record
        text = self._render(record, entry.ts)
        first = self.lines + 1
        self.lines += text.count("\n")
        if isinstance(record, UserRecord):
            self._turn = record.turn
            self.newest_turn = max(self.newest_turn, record.turn)
            self._turn_starts.setdefault(record.turn, first)
        elif isinstance(record, ToolResultRecord):
            self._results[record.tool_use_id] = Span(first, self.lines)
        if self._turn and not isinstance(record, CompactionRecord):
            self._turn_ends[self._turn] = self.lines
        return text

    def move_down(self, lines: int) -> None:
        """Everything rendered so far stands below so many lines of other text."""
        if not lines:
            return
        self.lines += lines
        for places in (self._turn_starts, self._turn_ends):
            for turn in places:
                places[turn] += lines
        for call, span in self._results.items():
            self._results[call] = Span(span.first + lines, span.last + lines)

    @property
    def call_count(self) -> int:
        """How many tool calls there were."""
        return len(self._tool_names)

    def knows_call(self, tool_use_id: str) -> bool:
        """Whether a tool call had this id."""
        return tool_use_id in self._tool_names

    def turn_span(self, turn: int) -> Span | None:
        """Where a turn stands."""
        if turn not in self._turn_starts:
            return None
        return Span(self._turn_starts[turn], self._turn_ends[turn])

    def result_span(self, tool_use_id: str) -> Span | None:
        """Where a tool result stands."""
        return self._results.get(tool_use_id)

    def unfinished(self) -> str:
        """The text of a block that never came to its end; it counts as told then."""
        text, self._partial = self._partial, ""
        self._speaking = False
        return f"### Turn {self._turn} · assistant, unfinished\n\n{text}\n\n" if text else ""

    def _render(self, record: Record, ts: float) -> str:
        match record:
            case SessionRecord(session_id, cwd, model, parent=parent):
                self._speaking = False
                origin = f"- forked from: {parent}\n" if parent else ""
                return f"# Session {session_id}\n\n- folder: {cwd}\n- model: {model}\n{origin}\n"
            case UserRecord(turn, text, media, attached):
                self._speaking = False
                texts = "".join(f"{_fenced(part, '')}\n" for part in attached)
                heading = f"## Turn {turn} · user · {_when(ts)}"
                return f"{heading}\n\n{text}\n\n{texts}{_lines(media)}"
            case BlockRecord():
                return self._block(record)
            case ToolResultRecord():
                return self._result(record)
            case CompactionRecord():
                return _boundary(record)
            case PartialRecord(text):
                self._partial += text
                return ""
            case InterruptedRecord(reason):
                return f"{self.unfinished()}[interrupted: {_one_line(reason)}]\n\n"
            case DiscardedRecord(reason):
                told = f"[answer cut off: {_one_line(reason)}; the request was sent again]\n\n"
                return self.unfinished() + told
            case RewindRecord(turn):
                self._speaking = False
                return f"[went back to before turn {turn}; what followed it counts no more]\n\n"
            case UncompactRecord():
                return "[the last compaction was taken back]\n\n"
            case ModelRecord(model):
                return f"[model: {_one_line(model)}]\n\n"
            case AssistantEndRecord():
                self._speaking = False
                return ""
            case ToolStartRecord() | ThinkingDroppedRecord() | UnknownRecord():
                return ""

    def _block(self, record: BlockRecord) -> str:
        self._partial = ""
        heading = "" if self._speaking else f"### Turn {self._turn} · assistant\n\n"
        self._speaking = True
        match record.block:
            case TextBlock(text):
                return f"{heading}{text}\n\n"
            case ThinkingBlock(thinking):
                return f"{heading}> (thinking)\n{_quoted(thinking)}\n"
            case ToolUseBlock(call_id, name, arguments):
                self._tool_names[call_id] = name
                details = _fenced(compact_json(dict(arguments)), "json")
                return f"{heading}#### Tool call: {_one_line(name)} ({call_id})\n\n{details}\n"
            case OpaqueBlock() | ToolResultBlock() | MediaBlock():
                return f"{heading}[a {type(record.block).__name__}, not shown]\n\n"

    def _result(self, record: ToolResultRecord) -> str:
        name = _one_line(self._tool_names.get(record.tool_use_id, "tool"))
        state = " · error" if record.is_error else ""
        output = f"whole output: {record.output_file}\n\n" if record.output_file else ""
        heading = f"#### Tool result: {name} ({record.tool_use_id}){state}\n\n"
        return f"{heading}{output}{_fenced(record.content, '')}\n{_lines(record.media)}"


def _lines(media: Sequence[MediaBlock]) -> str:
    return "".join(f"{item.line}\n\n" for item in media)


def passages(entries: Iterable[Entry]) -> Iterator[tuple[Record, str]]:
    """Each record and the text that it adds, in order; those that add none are left out.

    Where the log ends within an answer, what there is of it comes last.
    """
    renderer = Renderer()
    for entry in entries:
        if text := renderer.feed(entry):
            yield entry.record, text
    if text := renderer.unfinished():
        yield PartialRecord(text), text


def _boundary(record: CompactionRecord) -> str:
    if record.folded_turns:
        what = f"{record.folded_turns} turns folded"
    elif record.shed:
        what = f"{record.shed} images or documents left out"
    else:
        what = f"{len(record.replaced)} tool results shortened"
    address = f"; {record.address}" if record.address else ""
    heading = (
        f"{BOUNDARY} {what} ({record.trigger}, {record.method}): "
        f"{record.tokens_before} -> {record.tokens_after} tokens, "
        f"{record.seconds:.1f} s{address}\n\n"
    )
    if not record.summary or not record.folded_turns:
        return heading
    return f"{heading}{_quoted(record.summary)}\n"


def _quoted(text: str) -> str:
    indented = text.replace("\n", "\n> ")
    return f"> {indented}\n"


def _fenced(text: str, language: str) -> str:
    """A code block whose fence is longer than any run of backticks in the text."""
    # Many texts have none, and one character is found much faster than a run.
    runs = _BACKTICKS.findall(text) if "`" in text else ()
    longest = max(map(len, runs), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text}\n{fence}\n"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _when(ts: float) -> str:
    return datetime.fromtimestamp(ts, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
