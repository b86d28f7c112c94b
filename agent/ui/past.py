"""The commands about past sessions, printed."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.text import Text

from agent.errors import SessionError
from agent.events import SessionEntry
from agent.transcript.checkup import Checkup, check_session
from agent.transcript.sessions import find_session, list_sessions, new_id
from agent.transcript.store import Transcript
from agent.ui import figures
from agent.ui.sanitize import sanitize
from agent.ui.views import sessions_view


def print_sessions(entries: Sequence[SessionEntry], *, as_json: bool) -> None:
    """Print sessions as a table, or one JSON object a line."""
    console = Console(highlight=False)
    if as_json:
        for entry in entries:
            console.out(json.dumps(asdict(entry), ensure_ascii=False))
    elif entries:
        console.print(sessions_view(entries, time.time()))
    else:
        console.print("no sessions in this folder yet")


def check_sessions(folder: Path, wanted: str | None, *, repair: bool) -> int:
    """Check one session or all, and print what was found; 1 when something is wrong.

    With ``repair``, what is whole of one session is written into a new one.

    :raises SessionError: there is none such, or ``repair`` without naming one.
    """
    if repair and wanted is None:
        raise SessionError("say which session to repair: agent doctor ID --repair")
    ids = [info.id for info in list_sessions(folder)]
    chosen = ids if wanted is None else [find_session(folder, wanted)]
    console = Console(highlight=False)
    checkups = [_checked(folder, session_id) for session_id in chosen]
    for checkup in checkups:
        for line in _lines(checkup):
            console.print(Text(sanitize(line)), soft_wrap=True)
    if repair:
        made = Transcript.fork(folder, chosen[0], new_id(), str(folder))
        made.settle()
        console.print(f"written anew: agent chat --resume {made.session_id}")
        made.close()
    return int(any(checkup.problems for checkup in checkups))


def _checked(folder: Path, session_id: str) -> Checkup:
    try:
        return check_session(folder, session_id)
    except SessionError as error:
        return Checkup(session_id, 0, 0, 0, 0, (str(error),))


def _lines(checkup: Checkup) -> list[str]:
    state = "well" if not checkup.problems else figures.count(len(checkup.problems), "problem")
    counts = (
        f"{figures.count(checkup.records, 'record')}, {figures.count(checkup.turns, 'turn')} "
        f"({checkup.turns_in_view} in view), {figures.count(checkup.compactions, 'compaction')}"
    )
    problems = [f"  - {problem}" for problem in checkup.problems]
    return [f"{checkup.session_id}: {state} · {counts}", *problems]
