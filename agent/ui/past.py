"""The commands about past sessions, printed."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.text import Text

from agent.errors import SessionError
from agent.transcript.checkup import Checkup, check_session
from agent.transcript.export import export_session
from agent.transcript.sessions import find_session, list_sessions, new_id, session_ids
from agent.transcript.store import Transcript
from agent.ui import figures
from agent.ui.sanitize import sanitize
from agent.ui.serialise import to_line
from agent.ui.views import sessions_view


def print_sessions(folders: Iterable[Path], *, by_folder: bool, as_json: bool) -> None:
    """Print the sessions of some transcripts folders, newest first.

    They are a table, or with ``by_folder`` one for each folder, headed by its name, or
    one JSON object a line.
    """
    entries = [entry for folder in folders for entry in list_sessions(folder)]
    entries.sort(key=lambda entry: (entry.modified, entry.id), reverse=True)
    console = Console(highlight=False)
    if as_json:
        for entry in entries:
            console.out(to_line(asdict(entry), ascii_only=console.is_terminal))
        return
    for folder in dict.fromkeys(entry.folder for entry in entries):
        if by_folder:
            console.print(Text(figures.one_line(folder), "bold"), soft_wrap=True)
        view = sessions_view([one for one in entries if one.folder == folder], time.time())
        # Cut at the edge of a screen, whole for whatever else reads it.
        console.print(view) if console.is_terminal else console.out(view.plain)
    if not entries:
        console.print("no sessions yet" if by_folder else "no sessions in this folder yet")


def write_session(folder: Path, wanted: str, target: Path) -> None:
    """Write a session to a file, and say so.

    :raises SessionError: there is none such, or as :func:`export_session` says.
    """
    damaged = export_session(folder, find_session(folder, wanted), target)
    Console(highlight=False).print(Text(f"written to {sanitize(str(target))}"), soft_wrap=True)
    tell_damage(damaged)


def tell_damage(lines: int) -> None:
    """Say on stderr that damaged lines of a log are not in what was shown or written."""
    if lines:
        what = figures.count(lines, "damaged line")
        Console(stderr=True).print(f"agent: {what} left out; agent doctor says more")


def check_sessions(folder: Path, wanted: str | None, *, repair: bool) -> int:
    """Check one session or all, and print what was found; 1 when something is wrong.

    With ``repair``, what is whole of one session is written into a new one.

    :raises SessionError: there is none such, or ``repair`` without naming one.
    """
    if repair and wanted is None:
        raise SessionError("say which session to repair: agent doctor ID --repair")
    chosen = session_ids(folder) if wanted is None else [find_session(folder, wanted)]
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
