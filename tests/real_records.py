"""What every format of real sessions is mapped to; :mod:`tests.real_sessions` reads them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from agent.messages import Usage
from agent.transcript.imports import Boundary, Conversation
from agent.transcript.records import AssistantEndRecord, Record, SessionRecord

DATA = Path(__file__).parents[1].parent / "shared" / "data"

ABSENT = f"the real sessions are not there: {DATA}"
"""Why a test or a bench that needs them is skipped."""


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
    name: str, conversation: Conversation, system: str = "", facts: Iterable[str] = ()
) -> RealSession:
    """A conversation as a session.

    After a compaction of the recording program, the prompt sizes it reported are those
    of another history; they are left out.
    """
    start = SessionRecord(name, conversation.cwd or "/", conversation.model, system, ())
    folded = min((boundary.records for boundary in conversation.boundaries), default=None)
    records: list[Record] = [start]
    for index, placed in enumerate(conversation.records):
        record = placed.record
        if isinstance(record, AssistantEndRecord) and folded is not None and index >= folded:
            record = replace(record, usage=Usage(output_tokens=record.usage.output_tokens))
        records.append(record)
    return RealSession(
        name,
        tuple(records),
        (0, *(placed.place.line for placed in conversation.records)),
        tuple(
            replace(boundary, records=boundary.records + 1, kept_from=boundary.kept_from + 1)
            for boundary in conversation.boundaries
        ),
        tuple(dict.fromkeys(facts)),
    )
