"""What every format of real sessions is mapped to; :mod:`tests.real_sessions` reads them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from agent.messages import Block, Usage
from agent.transcript.records import (
    AssistantEndRecord,
    BlockRecord,
    Record,
    SessionRecord,
    ToolResultRecord,
    ToolStartRecord,
    UserRecord,
)
from agent.wire import compact_json

DATA = Path(__file__).parents[1].parent / "shared" / "data"

ABSENT = f"the real sessions are not there: {DATA}"
"""Why a test or a bench that needs them is skipped."""

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Boundary:
    """A compaction by the product that recorded the session.

    ``line`` is the boundary's line in the file, from 1. ``records`` is how many
    records stand before it, ``kept_from`` the index of the first of them that stayed
    in that product's view (equal to ``records`` when none did). ``summary`` is the
    whole text that replaced the others; ``tokens_before`` what the product reported.
    """

    line: int
    records: int
    kept_from: int
    summary: str
    trigger: str
    tokens_before: int


@dataclass(frozen=True)
class RealSession:
    """One session; ``lines[i]`` is the line of its file that ``records[i]`` comes from.

    ``name`` is the file's path in the data folder, with the dialogue's key where a file
    holds several. ``facts`` are strings that an annotation says matter.
    """

    name: str
    records: tuple[Record, ...]
    lines: tuple[int, ...]
    boundaries: tuple[Boundary, ...] = ()
    facts: tuple[str, ...] = ()


@dataclass
class Builder:
    """Collects a session's records.

    After a compaction of the recording product, the prompt sizes it reported are those
    of another history; they are left out.
    """

    name: str
    records: list[Record] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    boundaries: list[Boundary] = field(default_factory=list)
    turns: int = 0

    def start(self, model: str, system: str = "", cwd: str = "/") -> None:
        self.add(0, SessionRecord(self.name, cwd, model, system, ()))

    def add(self, line: int, *records: Record) -> None:
        self.records.extend(records)
        self.lines.extend([line] * len(records))

    def typed(self, line: int, text: str) -> None:
        """A user's words. Several messages in a row are one, as a server joins them."""
        if not text.strip():
            return
        last = self.records[-1]
        if isinstance(last, UserRecord):
            self.records[-1] = UserRecord(last.turn, f"{last.text}\n\n{text}")
            return
        self.turns += 1
        self.add(line, UserRecord(self.turns, text))

    def said(self, placed: Iterable[tuple[int, Block]]) -> None:
        for line, block in placed:
            self.add(line, BlockRecord(block))

    def ended(self, line: int, stop_reason: str, model: str, usage: Usage) -> None:
        real = Usage(output_tokens=usage.output_tokens) if self.boundaries else usage
        self.add(line, AssistantEndRecord(stop_reason, model, real))

    def answered(self, line: int, call: str, content: str, *, is_error: bool = False) -> None:
        self.add(line, ToolStartRecord(call), ToolResultRecord(call, content, is_error))

    def compacted(self, line: int, kept_line: int, summary: str, trigger: str, size: int) -> None:
        count = len(self.records)
        kept = next((i for i, at in enumerate(self.lines) if at >= kept_line), count)
        self.boundaries.append(Boundary(line, count, kept, summary, trigger, size))

    def build(self, facts: Iterable[str] = ()) -> RealSession:
        return RealSession(
            self.name,
            tuple(self.records),
            tuple(self.lines),
            tuple(self.boundaries),
            tuple(dict.fromkeys(facts)),
        )


def json_lines(path: Path) -> Iterator[tuple[int, Json]]:
    for number, line in enumerate(path.read_text("utf-8").split("\n"), 1):
        if line.strip():
            yield number, json.loads(line)


def plain(content: object) -> str:
    """A content field as text; anything but text becomes a short note."""
    match content:
        case None:
            return ""
        case str(text) | {"type": "text", "text": str(text)}:
            return text
        case {"type": "image"}:
            return "[an image]"
        case list(parts):
            return "\n".join(filter(None, map(plain, parts)))
        case _:
            return compact_json(content)
