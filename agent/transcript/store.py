"""One session's transcript: the log, the view derived from it, the readable companion.

:meth:`Transcript.append` is the only way in which a conversation changes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from agent.errors import AgentError, SessionError, TranscriptError
from agent.transcript.files import open_private, private_folder, replace_private, write_all
from agent.transcript.log import Log, Recovered, contents, forked, read_log
from agent.transcript.readable import Renderer, Span
from agent.transcript.records import (
    Entry,
    InterruptedRecord,
    Record,
    RewindRecord,
    SessionRecord,
    UserRecord,
    encode,
)
from agent.transcript.sessions import new_id
from agent.transcript.view import View, apply, build

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
        self._behind = False

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
        transcript._go_on(*Log.open(transcript.log_path))
        return transcript

    @classmethod
    def fork(cls, folder: Path, parent: str, session_id: str, label: str) -> Transcript:
        """A new session that goes on from all that another one holds; that one is only read.

        :raises SessionError: the parent cannot be read or holds no session.
        :raises TranscriptError: the new session cannot be written.
        """
        path = folder / f"{parent}.jsonl"
        lines, skipped = forked(contents(path), parent, session_id)
        transcript = cls(private_folder(folder), session_id, label)
        transcript._tell_skipped(path, skipped)
        transcript._go_on(*Log.create(transcript.log_path, lines))
        return transcript

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

    def settle(self) -> None:
        """Close a turn that was running when the program ended.

        :raises SessionError: the log holds no session; it is released.
        :raises TranscriptError: that could not be saved; the log is released.
        """
        try:
            if not self.view.session_id:
                raise SessionError(f"{self.log_path} holds no session: its first record is missing")
            if self.view.running:
                self.append(InterruptedRecord("the program ended"))
        except AgentError:
            self.close()
            raise

    def append(self, record: Record) -> None:
        """Save one record (synced), then let the view and the companion follow.

        Where the log cannot be written, the session goes on in a fresh one, which names
        it as its parent; a warning tells so.

        :raises TranscriptError: it is not saved; the view has not changed. The next
            append tries again.
        """
        log = self._log or self._create()
        rewinding = isinstance(record, RewindRecord)
        before = read_log(self.log_path).entries if rewinding else ()
        try:
            entry = log.append(record)
        except TranscriptError as failure:
            self._go_on_elsewhere(log, record, failure)
            return
        if rewinding:
            self.view = build(entry.record for entry in (*before, entry))
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
        for entry in reversed(read_log(self.log_path).entries):
            if isinstance(entry.record, UserRecord) and entry.record.turn == turn:
                return entry.record.text
        return ""

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

    def warn(self, text: str) -> None:
        """Have something told with the other warnings."""
        self._warnings.append(text)

    def take_warnings(self) -> list[str]:
        """What was found damaged or could not be written since the last call, a line each."""
        warnings, self._warnings = self._warnings, []
        return list(dict.fromkeys(warnings))

    def close(self) -> None:
        """Release the files. Everything appended is on disk already."""
        self._close_readable()
        if self._log is not None:
            self._log.close()
        self._log = None

    def _close_readable(self) -> None:
        if self._readable is not None:
            os.close(self._readable)
        self._readable = None

    def _lines(self, span: Span) -> str:
        return f"{self.label}/{self.session_id}.md:{span.first}-{span.last}"

    def _create(self) -> Log:
        if self._waiting is None:
            raise TranscriptError(f"the session {self.session_id} is closed")
        private_folder(self.folder)
        first = encode(Entry(1, round(time.time(), 3), self._waiting))
        log, recovered = Log.create(self.log_path, first)
        self._waiting = None
        self._go_on(log, recovered)
        return log

    def _go_on_elsewhere(self, log: Log, record: Record, failure: TranscriptError) -> None:
        """Save a record in a fresh session, together with all that is saved.

        A log that was deleted gets its own name again, so that addresses hold.

        :raises TranscriptError: that fails, too; nothing has changed then.
        """
        left = self.session_id
        try:
            fresh = new_id() if self.log_path.exists() else left
            lines = log.saved()
            if fresh != left:
                lines, _ = forked(lines, left, fresh)
            private_folder(self.folder)
            made = Log.create(self.folder / f"{fresh}.jsonl", lines + encode(log.numbered(record)))
        except (OSError, AgentError) as error:
            raise TranscriptError(
                f"{failure}; free some space or check the disk, then send again"
            ) from error
        self._go_on(*made)
        anew = f"the session goes on as {fresh}, which holds all of {left}"
        self.warn(f"{failure}; {anew if fresh != left else 'it was written anew'}")

    def _go_on(self, log: Log, recovered: Recovered) -> None:
        """Take up a log, in place of any other; all the rest is derived from it."""
        self.close()
        self.session_id, self._log = log.path.stem, log
        try:
            self._tell_skipped(log.path, recovered.skipped)
            self.view = build(entry.record for entry in recovered.entries)
            self._rebuild_readable(recovered.entries)
            self._point_latest()
        except BaseException:
            # Whatever it was, an interrupt included: the lock must not stay held.
            self.close()
            raise

    def _tell_skipped(self, path: Path, skipped: int) -> None:
        if skipped:
            self.warn(f"{path}: {skipped} damaged records were skipped; everything else is here")

    def _rebuild_readable(self, entries: Sequence[Entry]) -> None:
        """Bring the companion up to date.

        What is there is never changed: addresses into it were given out. If it is not
        what the log says, because the log was damaged, the whole is added below it.
        """
        self._close_readable()
        self._renderer = Renderer()
        data = b"".join(map(str.encode, map(self._renderer.feed, entries)))
        try:
            current = self.readable_path.read_bytes()
        except OSError:
            # Missing or unreadable: it is derived, so it is written anew.
            current = b""
        above, missing = b"", data[len(current) :]
        if current.endswith(data):
            above, missing = current.removesuffix(data), b""
        elif not data.startswith(current):
            above = current if current.endswith(b"\n") else current + b"\n"
            missing = above[len(current) :] + data
        self._renderer.move_down(above.count(b"\n"))
        written = not missing or self._write_derived(self.readable_path, current + missing)
        self._behind = not written

    def _follow(self, text: str) -> None:
        """Add to the companion; one that misses something is brought up to date.

        The record itself is saved: whatever fails here is a warning.
        """
        try:
            if self._behind:
                self._rebuild_readable(read_log(self.log_path).entries)
            elif text:
                if self._readable is None:
                    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
                    self._readable = open_private(self.readable_path, flags)
                write_all(self._readable, text.encode())
        except OSError as error:
            self._behind = True
            self.warn(f"cannot write {self.readable_path}: {error.strerror}")
        except SessionError as error:
            self.warn(str(error))

    def _write_derived(self, path: Path, data: bytes) -> bool:
        """Write what can be made again; a failure is a warning."""
        try:
            replace_private(path, data)
        except OSError as error:
            self.warn(f"cannot write {path}: {error.strerror}")
            return False
        return True

    def _point_latest(self) -> None:
        self._write_derived(
            self.folder / LATEST, f"{self.label}/{self.readable_path.name}\n".encode()
        )
