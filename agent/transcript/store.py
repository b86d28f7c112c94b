"""One session's transcript: the log, the view derived from it, the readable companion.

:meth:`Transcript.append` is the only way in which a conversation changes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from itertools import chain
from pathlib import Path

from agent.errors import SessionError, TranscriptError
from agent.transcript.companion import Comparison, anew
from agent.transcript.files import (
    open_private,
    private_folder,
    replace_piecewise,
    sync_folder,
    write_all,
)
from agent.transcript.log import Log
from agent.transcript.readable import Renderer, Span
from agent.transcript.reader import LogReader
from agent.transcript.records import (
    CompactionRecord,
    Entry,
    Record,
    RewindRecord,
    SessionRecord,
    UserRecord,
    encode,
)
from agent.transcript.view import Replay, View, apply

LATEST = "latest.txt"


class Transcript:
    """A session on disk and in memory. Made by :meth:`start` or :meth:`open`.

    The session record of a new session is written with the first record after it,
    so that a session in which nothing was said leaves no file.
    """

    def __init__(self, folder: Path, session_id: str, label: str) -> None:
        self.folder = folder
        self.session_id = session_id
        self.label = label
        self.view = View()
        self._warnings: list[str] = []
        self._log: Log | None = None
        self._waiting: SessionRecord | None = None
        self._renderer = Renderer()
        self._readable: int | None = None

    @classmethod
    def start(cls, folder: Path, label: str, record: SessionRecord) -> Transcript:
        """A new session. Nothing is on disk before its first record.

        ``label`` is the folder's name as the model is told it.
        """
        transcript = cls(folder, record.id, label)
        transcript._waiting = record
        transcript.view = apply(View(), record)
        return transcript

    @classmethod
    def open(cls, folder: Path, session_id: str, label: str) -> Transcript:
        """Go on with a session on disk; its view is the one that was live when it stopped.

        :raises SessionError: it cannot be read, or is open in another process.
        :raises TranscriptError: it cannot be written.
        """
        transcript = cls(private_folder(folder), session_id, label)
        try:
            transcript._replay()
        except BaseException:
            # Whatever it was, an interrupt included: the lock must not stay held.
            transcript.close()
            raise
        return transcript

    @classmethod
    def fork(cls, folder: Path, parent: str, session_id: str, label: str) -> Transcript:
        """A new session that goes on from all that another one holds; that one is only read.

        :raises SessionError: the parent cannot be read or holds no session.
        :raises TranscriptError: the new session cannot be written.
        """
        copies = _copies(LogReader(folder / f"{parent}.jsonl"), parent, session_id)
        try:
            replace_piecewise(private_folder(folder) / f"{session_id}.jsonl", copies)
            sync_folder(folder)
        except OSError as error:
            raise TranscriptError(
                f"cannot write the fork {session_id}: {error.strerror}"
            ) from error
        return cls.open(folder, session_id, label)

    @property
    def log_path(self) -> Path:
        """The append-only log."""
        return self.folder / f"{self.session_id}.jsonl"

    @property
    def readable_path(self) -> Path:
        """The readable companion."""
        return self.folder / f"{self.session_id}.md"

    @property
    def output_folder(self) -> Path:
        """The folder of full tool outputs."""
        return self.folder / self.session_id

    @property
    def saved(self) -> bool:
        """Whether anything of this session is on disk."""
        return self._log is not None

    def append(self, record: Record) -> None:
        """Save one record (synced), then let the view and the companion follow.

        :raises TranscriptError: it is not saved; the view has not changed.
        """
        log = self._log or self._create()
        if isinstance(record, CompactionRecord):
            record = with_facts(self.view, record)
        entry = log.append(record)
        if isinstance(record, RewindRecord):
            self.view = _view(LogReader(self.log_path))
        else:
            self.view = apply(self.view, record)
        self._follow(self._renderer.feed(entry))

    @property
    def call_count(self) -> int:
        """How many tool calls this session has ever seen."""
        return self._renderer.call_count

    def knows_call(self, tool_use_id: str) -> bool:
        """Whether a tool call of this session has ever had this id."""
        return self._renderer.knows_call(tool_use_id)

    @property
    def next_turn(self) -> int:
        """The number of the next turn. Numbers that a rewind went back over are not used again."""
        return self._renderer.newest_turn + 1

    def typed(self, turn: int) -> str:
        """What the user typed in a turn, whole, from the log; empty if it is not there.

        :raises SessionError: the log cannot be read.
        """
        text = ""
        for entry in LogReader(self.log_path):
            if isinstance(entry.record, UserRecord) and entry.record.turn == turn:
                text = entry.record.text
        return text

    def address(self, first_turn: int, last_turn: int) -> str:
        """Where turns stand: ``.transcripts/<id>.md:120-188, turns 3-7``; empty if unknown."""
        first, last = self._renderer.turn_span(first_turn), self._renderer.turn_span(last_turn)
        if first is None or last is None:
            return ""
        turns = (
            f"turn {first_turn}" if first_turn == last_turn else f"turns {first_turn}-{last_turn}"
        )
        return f"{self._lines(Span(first.first, last.last))}, {turns}"

    def result_address(self, tool_use_id: str) -> str:
        """Where a tool result stands: ``.transcripts/<id>.md:120-188``; empty if unknown."""
        span = self._renderer.result_span(tool_use_id)
        return self._lines(span) if span else ""

    def take_warnings(self) -> list[str]:
        """What was found damaged or could not be written since the last call, a line each."""
        warnings, self._warnings = self._warnings, []
        return warnings

    def close(self) -> None:
        """Release the files. Everything appended is on disk already."""
        if self._readable is not None:
            os.close(self._readable)
        if self._log is not None:
            self._log.close()
        self._readable = self._log = None

    def _lines(self, span: Span) -> str:
        return f"{self.label}/{self.session_id}.md:{span.first}-{span.last}"

    def _create(self) -> Log:
        if self._waiting is None:
            raise TranscriptError(f"the session {self.session_id} is closed")
        private_folder(self.folder)
        ignore = self.folder / ".gitignore"
        if not ignore.exists():
            self._write_derived(ignore, (b"*\n",))
        log = Log.create(self.log_path)
        try:
            entry = log.append(self._waiting)
        except TranscriptError:
            # A log without its first record could not be resumed; the next try makes it anew.
            log.close()
            self.log_path.unlink(missing_ok=True)
            raise
        text = self._renderer.feed(entry)
        self._log, self._waiting = log, None
        self._follow(text)
        self._point_latest()
        return log

    def _replay(self) -> None:
        """Open and follow the log, and bring the companion up to date.

        What is there is never changed: addresses into it were given out. If it is not
        what the log says, because the log was damaged, the whole is added below it.
        """
        replay = Replay()
        with closing(Comparison(self.readable_path)) as comparison:

            def follow(entry: Entry) -> None:
                replay.follow(entry.record)
                comparison.follow(self._renderer.feed(entry))

            self._log, reader = Log.open(self.log_path, follow=follow)
            state, above = comparison.result()
        if reader.skipped:
            self._warnings.append(
                f"{self.log_path}: {reader.skipped} damaged records were skipped; "
                "everything else is here"
            )
        self.view = replay.view(entry.record for entry in reader)
        if state != "whole":
            self._write_derived(self.readable_path, anew(self.readable_path, state, reader))
        self._renderer.move_down(above)
        self._point_latest()

    def _follow(self, text: str) -> None:
        if not text:
            return
        try:
            if self._readable is None:
                flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
                self._readable = open_private(self.readable_path, flags)
            write_all(self._readable, text.encode())
        except OSError as error:
            # The record itself is saved; the companion is rebuilt when the session is resumed.
            self._warnings.append(f"cannot write {self.readable_path}: {error.strerror}")

    def _write_derived(self, path: Path, pieces: Iterable[bytes]) -> None:
        """Write what can be made again; a failure is a warning."""
        try:
            replace_piecewise(path, pieces)
        except OSError as error:
            self._warnings.append(f"cannot write {path}: {error.strerror}")

    def _point_latest(self) -> None:
        self._write_derived(
            self.folder / LATEST, (f"{self.label}/{self.readable_path.name}\n".encode(),)
        )


def with_facts(view: View, record: CompactionRecord) -> CompactionRecord:
    """The compaction of a view, with the facts of all turns that it folds or shortens."""
    after = apply(view, record)
    earlier = {turn.number: turn.facts for turn in view.turns}
    shortened = tuple(
        turn.facts
        for turn in after.turns
        if turn.facts is not None and turn.facts is not earlier[turn.number]
    )
    return replace(record, facts=after.past[len(view.past) :] + shortened)


def _view(reader: LogReader) -> View:
    """The view that a log leads to."""
    replay = Replay()
    for entry in reader:
        replay.follow(entry.record)
    return replay.view(entry.record for entry in reader)


def _copies(reader: LogReader, parent: str, session_id: str) -> Iterator[bytes]:
    """The lines of a log, as those of a session that goes on from it.

    :raises SessionError: it holds no session.
    """
    entries = iter(reader)
    first = next(entries, None)
    if first is None or not isinstance(first.record, SessionRecord):
        raise SessionError(f"{reader.path} holds no session to fork")
    for number, entry in enumerate(chain((first,), entries), 1):
        record = entry.record
        if isinstance(record, SessionRecord):
            record = replace(record, id=session_id, parent=parent)
        yield encode(Entry(number, entry.ts, record))
