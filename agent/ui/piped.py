"""Text that is piped into the program."""

from __future__ import annotations

import os
import select
import stat
from typing import TextIO

IDLE_SECONDS = 2.0
"""How long an open pipe may stay silent before it is taken for an idle one."""


def read_piped(stdin: TextIO, *, required: bool) -> tuple[str, bool]:
    """What is piped in, and whether an idle pipe was left unread.

    A terminal gives nothing. A file is read whole. A pipe or socket is read to its
    end once it has begun; one that stays silent for two seconds is left alone,
    unless it is ``required``, because there is no other prompt.
    """
    if stdin.closed or stdin.isatty():
        return "", False
    descriptor = stdin.fileno()
    mode = os.fstat(descriptor).st_mode
    may_be_idle = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
    if may_be_idle and not required:
        ready, _, _ = select.select([descriptor], [], [], IDLE_SECONDS)
        if not ready:
            return "", True
    pieces = []
    while piece := os.read(descriptor, 1 << 16):
        pieces.append(piece)
    return b"".join(pieces).decode("utf-8", "replace"), False


def joined(prompt: str, piped: str) -> str:
    """A prompt and what was piped in, as one message."""
    return "\n\n".join(part for part in (prompt.strip(), piped.strip()) if part)
