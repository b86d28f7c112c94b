"""Long text through the user's pager."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import IO

PAGER = "less -R"
"""What shows long text where ``$PAGER`` does not say it."""


def page(pieces: Iterable[str]) -> None:
    """Show text in the pager, piece by piece as it comes.

    It goes straight to stdout where that is no terminal or a dumb one, or where there is
    no pager: the variable is empty, or names none that can be started. When the pager is
    left early, the remaining pieces are not taken.
    """
    with _paged() as output:
        for piece in pieces:
            output.write(piece)
            output.flush()


@contextmanager
def _paged() -> Iterator[IO[str]]:
    """Where to write to; waits until the person has left the pager."""
    process = _started() if sys.stdout.isatty() and os.environ.get("TERM") != "dumb" else None
    if process is None:
        yield sys.stdout
        return
    # Ctrl-C is a key of the pager.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with suppress(BrokenPipeError), process:
            yield process.stdin or sys.stdout
    finally:
        signal.signal(signal.SIGINT, before)


def _started() -> subprocess.Popen[str] | None:
    try:
        command = shlex.split(os.environ.get("PAGER", PAGER))
        # Colours must get through a pager that is named without an option for them.
        environment = {"LESS": "R", **os.environ}
        return subprocess.Popen(command, stdin=subprocess.PIPE, env=environment, encoding="utf-8")
    except (OSError, ValueError, IndexError):
        # No such program, a quotation mark that is not closed, or no words at all.
        return None
