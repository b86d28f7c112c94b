"""The command that brings conversations of other programs along."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from agent.errors import SessionError
from agent.messages import ToolSpec, scrub
from agent.session import Session
from agent.transcript.imports import Conversation, read_conversation, save_conversation
from agent.transcript.records import SessionRecord
from agent.ui import figures
from agent.ui.sanitize import sanitize


def import_files(session: Session, tools: Sequence[ToolSpec], files: Iterable[Path]) -> int:
    """Import each file into a session of its own, and say how to go on; 0 if all could be.

    ``session`` is a new one: the imported ones begin as it would, with its model and
    its system prompt. The last one imported is then the newest of the folder.

    :raises TranscriptError: a session could not be written; the earlier ones are kept.
    """
    start = SessionRecord("", scrub(str(Path.cwd())), session.model, session.system, tuple(tools))
    console, errors = Console(highlight=False), Console(highlight=False, stderr=True)
    failed = False
    for file in files:
        try:
            conversation = read_conversation(file)
        except SessionError as error:
            errors.print(Text(f"agent: {sanitize(str(error))}"), soft_wrap=True)
            failed = True
            continue
        made = save_conversation(session.transcript.parent, start, conversation)
        # Opening it writes what is derived from the log, and shows that it can be opened.
        warnings = session.resume(made)
        for line in (*_told(file, conversation), *warnings, f"  agent chat --resume {made}"):
            console.print(Text(sanitize(line)), soft_wrap=True)
    return 2 if failed else 0


def _told(file: Path, conversation: Conversation) -> list[str]:
    told = [
        f"imported {figures.count(conversation.turns, 'turn')} "
        f"of {conversation.program} from {file}"
    ]
    if conversation.compactions:
        folds = figures.count(conversation.compactions, "compaction")
        told.append(f"  {folds} of that program not taken over: the whole history is here")
    if conversation.left_out:
        left = figures.count(conversation.left_out, "message")
        told.append(f"  {left} on branches that the conversation had left not imported")
    if conversation.damaged:
        told.append(f"  {figures.count(conversation.damaged, 'damaged line')} skipped")
    return told
