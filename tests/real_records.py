"""What every format of real sessions is mapped to; :mod:`tests.real_sessions` reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agent.messages import Usage
from agent.transcript.imports import Conversation
from agent.transcript.imports_builder import Line, plain
from agent.transcript.records import AssistantEndRecord, Record, SessionRecord

DATA = Path(__file__).parents[1].parent / "shared" / "data"

ABSENT = f"the real sessions are not there: {DATA}"
"""Why a test or a bench that needs them is skipped."""


@dataclass(frozen=True)
class Boundary:
    """A compaction by the program that recorded the session.

    ``line`` is the boundary's line in the file, from 1. ``records`` is how many
    records stand before it, ``kept_from`` the index of the first of them that stayed
    in that program's view (equal to ``records`` when none did). ``summary`` is the
    whole text that replaced the others; ``tokens_before`` what the program reported.
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
    holds several. ``facts`` are strings that an annotation says matter. The session
    record stands first; boundaries count it.
    """

    name: str
    records: tuple[Record, ...]
    lines: tuple[int, ...]
    boundaries: tuple[Boundary, ...] = ()
    facts: tuple[str, ...] = ()


def real_session(
    name: str,
    conversation: Conversation,
    system: str = "",
    facts: Iterable[str] = (),
    entries: Sequence[Line] = (),
) -> RealSession:
    """A conversation as a session; ``entries`` are its file's, for the boundaries.

    After a compaction of the recording program, the prompt sizes it reported are those
    of another history; they are left out.
    """
    records: list[Record] = [
        SessionRecord(name, conversation.cwd or "/", conversation.model, system, ()),
        *(placed.record for placed in conversation.records),
    ]
    lines = (0, *(placed.place.line for placed in conversation.records))
    boundaries = tuple(_boundaries(entries, lines))
    folded = min((boundary.records for boundary in boundaries), default=len(records))
    for index, record in enumerate(records):
        if isinstance(record, AssistantEndRecord) and index >= folded:
            usage = Usage(output_tokens=record.usage.output_tokens)
            records[index] = replace(record, usage=usage)
    return RealSession(name, tuple(records), lines, boundaries, tuple(dict.fromkeys(facts)))


def _boundaries(entries: Sequence[Line], lines: Sequence[int]) -> Iterator[Boundary]:
    """The compactions that Claude Code and pi have recorded; ``lines`` are the records'."""

    def records(line: int) -> int:
        return next((index for index, own in enumerate(lines) if own >= line), len(lines))

    facts: tuple[int, dict[str, Any]] = (0, {})
    for number, entry in entries:
        match entry:
            case {"type": "system", "subtype": "compact_boundary", "compactMetadata": dict(meta)}:
                facts = (number, meta)
            case {"isCompactSummary": True, "message": {"content": content}}:
                line, meta = facts
                before, summary = records(line), plain(content)
                yield Boundary(
                    line, before, before, summary, meta["trigger"], meta.get("preTokens", 0)
                )
            case {"type": "compaction", "summary": str(summary)}:
                kept = records(entries[entry["firstKeptEntryIndex"]][0])
                before, tokens = records(number), entry.get("tokensBefore", 0)
                yield Boundary(number, before, kept, summary, "auto", tokens)
            case _:
                continue
