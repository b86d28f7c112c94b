"""Looks a session's files over and says what is wrong with them. Changes nothing."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from agent.transcript.companion import Comparison, State
from agent.transcript.readable import Renderer
from agent.transcript.reader import LogReader
from agent.transcript.records import CompactionRecord, SessionRecord, ToolResultRecord
from agent.transcript.view import Replay


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
    reader = LogReader(folder / f"{session_id}.jsonl")
    readable = folder / f"{session_id}.md"
    replay, renderer = Replay(), Renderer()
    kinds: Counter[type] = Counter()
    outputs: list[str] = []
    has_first = False
    with closing(Comparison(readable)) as comparison:
        for entry in reader:
            record = entry.record
            has_first = has_first or (not kinds and isinstance(record, SessionRecord))
            kinds[type(record)] += 1
            replay.follow(record)
            comparison.follow(renderer.feed(entry))
            if isinstance(record, ToolResultRecord) and record.output_file:
                outputs.append(record.output_file)
        state, _ = comparison.result()
    problems: list[str] = []
    if reader.skipped:
        problems.append(f"{reader.skipped} damaged lines are skipped; all others are kept")
    if reader.torn:
        problems.append("the last line is torn: a write was cut short; resuming closes it")
    if not has_first:
        problems.append("the first record is missing: it cannot be resumed as it is")
    view = replay.view(entry.record for entry in reader)
    if view.running:
        problems.append("the last turn has no end: resuming closes it, and runs nothing again")
    problems += _readable_problems(readable, state)
    problems += [
        f"the whole output {output} is missing; what the model saw of it is kept"
        for output in outputs
        if not Path(output).exists()
    ]
    return Checkup(
        session_id=session_id,
        records=kinds.total(),
        turns=renderer.newest_turn,
        turns_in_view=len(view.turns),
        compactions=kinds[CompactionRecord],
        problems=tuple(problems),
    )


def _readable_problems(path: Path, state: State) -> list[str]:
    if not path.exists():
        return ["the readable file is missing; resuming writes it anew"]
    match state:
        case "whole":
            return []
        case "behind":
            return ["the readable file is behind the log; resuming completes it"]
        case "other":
            return ["the readable file is not what the log says; resuming adds the whole below it"]
