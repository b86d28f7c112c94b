"""What a user attaches to a message: files, by ``@path``, and what commands printed."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agent.errors import ToolError
from agent.messages import MediaBlock
from agent.tools.base import ToolContext, ToolOutcome
from agent.tools.limits import bounded
from agent.tools.read_file import ReadFile
from agent.tools.shell import Shell

_MENTION = re.compile(r"(?<![\w@./-])@(?:\"([^\"\n]+)\"|(\S+))")
_PUNCTUATION = ".,;:!?)]}'\""


@dataclass(frozen=True)
class Attachments:
    """What belongs to a typed message beside its words.

    ``texts`` are what commands printed and the first pages of text files, each under a
    line that names the command or file; ``failures`` say in one line each why a file could
    not be attached.
    """

    texts: tuple[str, ...] = ()
    media: tuple[MediaBlock, ...] = ()
    failures: tuple[str, ...] = ()


NOTHING = Attachments()


async def attachments_in(
    text: str, context: ToolContext, outputs: Sequence[str] = ()
) -> Attachments:
    """``outputs``, and the files that a text mentions as ``@path`` or ``@"path with spaces"``.

    What names no file is left as words. A file is read as ``read_file`` reads it: capped,
    with how to go on; images and documents are kept in the session's folder. What a
    person attaches needs no approval.
    """
    texts = list(outputs)
    media: list[MediaBlock] = []
    failures: list[str] = []
    reader = ReadFile()
    for path in dict.fromkeys(_mentioned(text, context.cwd)):
        try:
            outcome = await reader.run({"path": path}, context)
        except ToolError as error:
            failures.append(f"not attached: {error}")
            texts.append(f"[Not attached: {error}]")
            continue
        kept = bounded(outcome, context, "attached", context.transcripts / context.session_id)
        media.extend(kept.media)
        texts.append(kept.content if kept.media else f"[Attached: {path}]\n{kept.content}")
    return Attachments(tuple(texts), tuple(media), tuple(failures))


def _mentioned(text: str, cwd: Path) -> Iterator[str]:
    """The mentions that name a file; punctuation after one is not part of it."""
    for quoted, plain in _MENTION.findall(text):
        for path in dict.fromkeys((quoted or plain, plain.rstrip(_PUNCTUATION))):
            if path and _is_file(path, cwd):
                yield path
                break


def _is_file(path: str, cwd: Path) -> bool:
    try:
        return (cwd / Path(path).expanduser()).is_file()
    except (OSError, ValueError, RuntimeError):
        # Too long for a name, or no path at all: then it is a word.
        return False


async def run_command(command: str, context: ToolContext, attached: list[str]) -> str:
    """Run a command of the user's own, without a time limit; how it ended, in one line.

    To ``attached`` is added what it printed: capped, with the address of the whole. That
    is also so when this is cancelled, which ends the command.

    :raises ToolError: the command could not be started.
    """
    printed: list[str] = []

    def emit(text: str) -> None:
        printed.append(text)
        context.emit(text)

    def attach(outcome: ToolOutcome) -> None:
        kept = bounded(outcome, context, "command", context.transcripts / context.session_id)
        attached.append(f"[I ran: {command}]\n{kept.content}")

    unbounded = replace(context, emit=emit, timeout_seconds=math.inf)
    try:
        outcome = await Shell().run({"command": command}, unbounded)
    except asyncio.CancelledError:
        so_far = "".join(printed).rstrip("\n")
        attach(ToolOutcome(f"{so_far}\n[stopped by the user]".lstrip("\n")))
        raise
    attach(outcome)
    return outcome.content.rpartition("\n")[2]
