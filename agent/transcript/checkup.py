"""Looks a session's files over and says what is wrong with them. Changes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agent.transcript.log import read_log
from agent.transcript.readable import Renderer
from agent.transcript.records import CompactionRecord, SessionRecord, ToolResultRecord
from agent.transcript.view import build


@dataclass(frozen=True)
class Checkup:
    """What was found; ``problems`` is empty when all is well, one line each.

    ``records`` and ``turns`` count what is whole; ``turns_in_view`` what the next
    request would carry word for word.
    """

    session_id: str
    records: int
    turns: int
    turns_in_view: int
    compactions: int
    problems: tuple[str, ...]


def check_session(folder: Path, session_id: str) -> Checkup:
    """Read a session and check it.

    :raises SessionError: its log cannot be read at all.
    """
    log = folder / f"{session_id}.jsonl"
    recovered = read_log(log)
    records = [entry.record for entry in recovered.entries]
    view = build(records)
    renderer = Renderer()
    rendered = "".join(map(renderer.feed, recovered.entries))
    problems: list[str] = []
    if recovered.skipped:
        problems.append(f"{recovered.skipped} damaged lines are skipped; all others are kept")
    if recovered.torn:
        problems.append("the last line is torn: a write was cut short; resuming closes it")
    if not records or not isinstance(records[0], SessionRecord):
        problems.append("the first record is missing: it cannot be resumed as it is")
    if view.running:
        problems.append("the last turn has no end: resuming closes it, and runs nothing again")
    problems += _readable_problems(folder / f"{session_id}.md", rendered)
    problems += [
        f"the whole output {record.output_file} is missing; what the model saw of it is kept"
        for record in records
        if isinstance(record, ToolResultRecord)
        and record.output_file
        and not Path(record.output_file).exists()
    ]
    return Checkup(
        session_id=session_id,
        records=len(records),
        turns=renderer.newest_turn,
        turns_in_view=len(view.turns),
        compactions=sum(isinstance(record, CompactionRecord) for record in records),
        problems=tuple(problems),
    )


def _readable_problems(path: Path, rendered: str) -> list[str]:
    try:
        current = path.read_bytes()
    except FileNotFoundError:
        return ["the readable file is missing; resuming writes it anew"]
    except OSError as error:
        return [f"the readable file cannot be read: {error.strerror}"]
    expected = rendered.encode()
    if current.endswith(expected):
        return []
    if expected.startswith(current):
        return ["the readable file is behind the log; resuming completes it"]
    return ["the readable file is not what the log says; resuming adds the whole below it"]
