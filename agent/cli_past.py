"""The commands about sessions that are on disk."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agent.cli_errors import errors_as_one_line

if TYPE_CHECKING:
    from agent.transcript.folders import FolderRegistry

app = typer.Typer()


def folders() -> FolderRegistry:
    """The transcripts folders of this user."""
    from agent.folders import state_folder
    from agent.transcript.folders import FolderRegistry

    return FolderRegistry(state_folder() / "folders.jsonl")


def _here(transcripts: Path | None) -> Path:
    """The transcripts folder: the flag's, else the one that ``chat`` would use."""
    from agent.config import load_settings

    return load_settings({"transcripts": transcripts}, os.environ).transcripts


TranscriptsOption = Annotated[
    Path | None, typer.Option(help="The transcripts folder. Default: .transcripts")
]


@app.command()
def sessions(
    transcripts: TranscriptsOption = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    all_: Annotated[bool, typer.Option("--all", help="The sessions of every folder.")] = False,
) -> None:
    """List the sessions of this folder, newest first."""
    from agent.ui.past import print_sessions

    with errors_as_one_line():
        here = _here(transcripts).resolve()
        print_sessions(
            {here, *folders().folders()} if all_ else {here}, by_folder=all_, as_json=json
        )


@app.command()
def show(
    session_id: Annotated[
        str | None, typer.Argument(help="A session's id or its beginning. Default: the newest.")
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="The log's lines as they are.")] = False,
    transcripts: TranscriptsOption = None,
) -> None:
    """Read a session, in the pager ($PAGER, else less -R)."""
    from agent.ui.show import show_log, show_session

    with errors_as_one_line():
        (show_log if raw else show_session)(_here(transcripts), session_id)


@app.command()
def export(
    session_id: Annotated[str, typer.Argument(help="A session's id or its beginning.")],
    file: Annotated[Path, typer.Argument(help="A new file: .md, .html or .json")],
    transcripts: TranscriptsOption = None,
) -> None:
    """Write a session to a file: Markdown, a web page, or JSON."""
    from agent.ui.past import write_session

    with errors_as_one_line():
        write_session(_here(transcripts), session_id, file)


@app.command()
def doctor(
    session_id: Annotated[
        str | None, typer.Argument(help="A session's id or its beginning. Default: all.")
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Write what is whole into a new session.")
    ] = False,
    transcripts: TranscriptsOption = None,
) -> None:
    """Check sessions and explain what is wrong. Changes nothing without --repair."""
    from agent.ui.past import check_sessions

    with errors_as_one_line():
        code = check_sessions(_here(transcripts), session_id, repair=repair)
    raise typer.Exit(code)


@app.command()
def search(
    words: Annotated[list[str], typer.Argument(help="Plain words, in any script.")],
    json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    all_: Annotated[bool, typer.Option("--all", help="Every place, not only the best.")] = False,
    transcripts: TranscriptsOption = None,
) -> None:
    """Find what was said in the sessions of this folder; exit code 1 when nothing is found."""
    from agent.transcript.search import BEST, EVERY, search
    from agent.ui.hits import print_hits

    wanted = " ".join(words)
    with errors_as_one_line():
        folder = _here(transcripts)
        hits = search(folder, str(folder), wanted, limit=EVERY if all_ else BEST)
    print_hits(hits, wanted, as_json=json)
    raise typer.Exit(0 if hits else 1)
