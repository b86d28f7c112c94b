"""A past session, read."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from rich.console import Console
from rich.segment import Segment
from rich.text import Text

from agent.errors import SessionError
from agent.transcript.log import read_log
from agent.transcript.readable import passages
from agent.transcript.records import Entry, Record, UserRecord
from agent.transcript.sessions import find_session
from agent.ui.live import emit
from agent.ui.pager import page
from agent.ui.past import tell_damage
from agent.ui.sanitize import reveal, sanitize


def show_session(folder: Path, wanted: str | None) -> None:
    """Show the readable transcript of a session, open anywhere, as its log gives it.

    ``wanted`` is an id or its beginning, ``None`` for the newest. On a terminal the
    transcript is drawn as the chat draws it, in the pager; elsewhere it is plain Markdown.

    :raises SessionError: there is none such, or its log cannot be read.
    """
    found = read_log(folder / f"{find_session(folder, wanted)}.jsonl")
    console = Console(highlight=False)
    page(_drawn(console, found.entries) if console.is_terminal else _plain(found.entries))
    tell_damage(found.skipped)


def show_log(folder: Path, wanted: str | None) -> None:
    """Show the lines of a session's log, whatever they hold.

    They are copied byte for byte; on a terminal, what it would act on is escaped.

    :raises SessionError: there is none such, or its log cannot be read.
    """
    path = folder / f"{find_session(folder, wanted)}.jsonl"
    try:
        log = path.open("rb")
    except OSError as error:
        raise SessionError(f"cannot read the transcript {path}: {error.strerror}") from error
    with log:
        if sys.stdout.isatty():
            page(reveal(line.decode("utf-8", "backslashreplace")) for line in log)
        else:
            shutil.copyfileobj(log, sys.stdout.buffer)


def _plain(entries: Iterable[Entry]) -> Iterator[str]:
    return (sanitize(text) for _, text in passages(entries))


def _drawn(console: Console, entries: Iterable[Entry]) -> Iterator[str]:
    for record, text in passages(entries):
        with console.capture() as captured:
            _draw(console, record, sanitize(text))
        yield captured.get()


def _draw(console: Console, record: Record, text: str) -> None:
    """Draw one passage. What a person typed is no Markdown: only its heading is drawn so."""
    from agent.ui.answer import render

    heading, _, typed = text.partition("\n") if isinstance(record, UserRecord) else (text, "", "")
    for line in render(console, heading, console.width):
        emit(console, [*line, Segment.line()])
    if typed:
        console.print(Text(typed.rstrip("\n")), soft_wrap=True)
    console.print()
