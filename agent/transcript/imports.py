"""Bringing conversations along from other programs: into a session that resumes.

The whole history is imported, nothing of it folded: what no longer fits is folded when
the session goes on, as in any other. The new log is put in place at once or not at all.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from agent.errors import SessionError, TranscriptError
from agent.transcript.files import transcripts_folder
from agent.transcript.imports_builder import Conversation, Place, Placed, json_lines
from agent.transcript.imports_claude_code import is_claude_code, read_claude_code
from agent.transcript.imports_pi import is_pi, read_pi
from agent.transcript.log import Log
from agent.transcript.outputs import keep_media
from agent.transcript.records import (
    Entry,
    InterruptedRecord,
    ModelRecord,
    Record,
    SessionRecord,
    ToolResultRecord,
    UserRecord,
    encode,
)
from agent.transcript.sessions import new_id
from agent.transcript.view import build

__all__ = ["Conversation", "Placed", "read_conversation", "save_conversation"]

_FORMATS = ((is_claude_code, read_claude_code), (is_pi, read_pi))


def read_conversation(path: Path) -> Conversation:
    """The conversation in a session file of Claude Code or pi.

    The format is told by what the file holds, not by its name.

    :raises SessionError: the file cannot be read, is of another format, or holds nothing
        that was said.
    """
    lines, damaged = json_lines(path)
    when = path.stat().st_mtime
    for fits, read in _FORMATS:
        if fits(lines):
            conversation = read(lines, damaged, when)
            if not conversation.turns:
                raise SessionError(f"{path} holds no conversation: nobody said anything in it")
            return conversation
    if any("crc" in entry and "seq" in entry for _, entry in lines):
        raise SessionError(
            f"{path} is a session of this program already; go on with it in its folder: "
            f"agent chat --resume {path.stem}"
        )
    raise SessionError(
        f"{path} is no session file of Claude Code or pi (JSON lines); nothing was imported"
    )


def save_conversation(folder: Path, session: SessionRecord, conversation: Conversation) -> str:
    """Write a conversation as a new session of a transcripts folder; the session's id.

    ``session`` is the record that a new session here begins with; its id is replaced.
    The entries carry the times of the conversation.

    :raises TranscriptError: it cannot be written; nothing has changed then.
    """
    transcripts_folder(folder)
    record = replace(session, id=_free_id(folder))
    entries = [
        Entry(number, round(placed.place.when, 3), _with_kept_media(placed.record, folder, record))
        for number, placed in enumerate(_whole(record, conversation), 1)
    ]
    log, _ = Log.create(folder / f"{record.id}.jsonl", map(encode, entries))
    log.close()
    return record.id


def _with_kept_media(record: Record, folder: Path, session: SessionRecord) -> Record:
    """The record with its images and documents saved beside the transcript."""
    if not (isinstance(record, UserRecord | ToolResultRecord) and record.media):
        return record
    whole, cwd = folder.resolve(), Path(session.cwd)
    label = str(whole.relative_to(cwd) if whole.is_relative_to(cwd) else whole)
    try:
        media = tuple(keep_media(item, folder / session.id, label) for item in record.media)
    except OSError as error:
        raise TranscriptError(f"cannot save an image in {folder}: {error.strerror}") from error
    return replace(record, media=media)


def _free_id(folder: Path) -> str:
    while True:
        chosen = new_id()
        if not (folder / f"{chosen}.jsonl").exists():
            return chosen


def _whole(session: SessionRecord, conversation: Conversation) -> list[Placed]:
    """All records: the session's own, the conversation's, and what makes it ready to go on."""
    first, last = conversation.records[0].place, conversation.records[-1].place
    whole = [Placed(Place(0, first.when), session), *conversation.records]

    def end_with(record: Record) -> None:
        whole.append(Placed(last, record))

    view = build(placed.record for placed in whole)
    if view.running:
        end_with(InterruptedRecord("the imported conversation ended here"))
    if conversation.models | {view.model} != {session.model}:
        # This also leaves out thinking, which only the model that it came from takes back.
        end_with(ModelRecord(session.model, session.factor))
    return whole
