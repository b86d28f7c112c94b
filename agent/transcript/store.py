"""One session's transcript: the log, the view derived from it, the readable companion.

:meth:`Transcript.append` is the only way in which a conversation changes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TypeAlias

from agent.errors import AgentError, SessionError, TranscriptError
from agent.transcript.companion import Comparison, State, anew
from agent.transcript.files import open_private, replace_piecewise, transcripts_folder, write_all
from agent.transcript.log import Follow, Log
from agent.transcript.readable import Renderer, Span
from agent.transcript.reader import LogReader, forked
from agent.transcript.records import (
    CompactionRecord,
    Entry,
    InterruptedRecord,
    Record,
    RewindRecord,
    SessionRecord,
    UserRecord,
    encode,
)
from agent.transcript.sessions import new_id
from agent.transcript.view import Replay, View, apply

_Take: TypeAlias = Callable[[Follow], tuple[Log, LogReader]]
"""Takes up a log and hands over its entries."""

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
        transcript = cls(transcripts_folder(folder), session_id, label)
        transcript._go_on(session_id, lambda follow: Log.open(transcript.log_path, follow))
        return transcript

    @classmethod
    def fork(cls, folder: Path, parent: str, session_id: str, label: str) -> Transcript:
        """A new session that goes on from all that another one holds; that one is only read.

        :raises SessionError: the parent cannot be read or holds no session.
        :raises TranscriptError: the new session cannot be written.
        """
        reader = LogReader(folder / f"{parent}.jsonl")
        lines = forked(reader, parent, session_id)
        transcript = cls(transcripts_folder(folder), session_id, label)
        transcript._go_on(session_id, lambda follow: Log.create(transcript.log_path, lines, follow))
        transcript._tell_skipped(reader)
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
        if isinstance(record, CompactionRecord):
            record = with_facts(self.view, record)
        # Found before it is saved, so that nothing can fail between the two.
        view = self._after(log, record)
        try:
            entry = log.append(record)
        except TranscriptError as failure:
            self._go_on_elsewhere(log, record, failure)
            return
        self.view = view
        self._follow(log, self._renderer.feed(entry))

    def _after(self, log: Log, record: Record) -> View:
        """The view after one more record."""
        if not isinstance(record, RewindRecord):
            return apply(self.view, record)
        replay, reader = Replay(), log.saved()
        for entry in reader:
            replay.follow(entry.record)
        replay.follow(record)
        return replay.view(chain((entry.record for entry in reader), (record,)))

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
        transcripts_folder(self.folder)
        first = encode(Entry(1, round(time.time(), 3), self._waiting))
        log = self._go_on(
            self.session_id, lambda follow: Log.create(self.log_path, (first,), follow)
        )
        self._waiting = None
        return log

    def _go_on_elsewhere(self, log: Log, record: Record, failure: TranscriptError) -> None:
        """Save a record in a fresh session, together with all that is saved.

        A log that was deleted gets its own name again, so that addresses hold.

        :raises TranscriptError: that fails, too; nothing has changed then.
        """
        left = self.session_id
        try:
            fresh = new_id() if self.log_path.exists() else left
            transcripts_folder(self.folder)
            path = self.folder / f"{fresh}.jsonl"
            lines = chain(_renamed(log.saved(), left, fresh), (encode(log.numbered(record)),))
            self._go_on(fresh, lambda follow: Log.create(path, lines, follow))
        except (OSError, AgentError) as error:
            raise TranscriptError(
                f"{failure}; free some space or check the disk, then send again"
            ) from error
        anew = f"the session goes on as {fresh}, which holds all of {left}"
        self.warn(f"{failure}; {anew if fresh != left else 'it was written anew'}")

    def _go_on(self, session_id: str, take: _Take) -> Log:
        """Take up a log, in place of any other; all the rest is derived from it.

        Nothing has changed if that fails.
        """
        replay, renderer = Replay(), Renderer()
        readable = self.folder / f"{session_id}.md"
        with closing(Comparison(readable)) as comparison:

            def follow(entry: Entry) -> None:
                replay.follow(entry.record)
                comparison.follow(renderer.feed(entry))

            log, reader = take(follow)
            try:
                view = replay.view(entry.record for entry in reader)
                state, above = comparison.result()
            except BaseException:
                # Whatever it was, an interrupt included: the lock must not stay held.
                log.close()
                raise
        self.close()
        self.session_id, self._log, self.view, self._renderer = session_id, log, view, renderer
        self._tell_skipped(reader)
        self._complete_readable(reader, state, above)
        self._point_latest()
        return log

    def _tell_skipped(self, reader: LogReader) -> None:
        if reader.skipped:
            self.warn(
                f"{reader.path}: {reader.skipped} damaged records were skipped; "
                "everything else is here"
            )

    def _complete_readable(self, reader: LogReader, state: State, above: int) -> None:
        """Bring the companion up to date.

        What is there is never changed: addresses into it were given out. If it is not
        what the log says, because the log was damaged, the whole is added below it.
        """
        self._close_readable()
        self._renderer.move_down(above)
        self._behind = state != "whole" and not self._write_derived(
            self.readable_path, anew(self.readable_path, state, reader)
        )

    def _catch_up(self, reader: LogReader) -> None:
        """Render the whole log again, for a companion that misses something of it."""
        renderer = Renderer()
        with closing(Comparison(self.readable_path)) as comparison:
            for entry in reader:
                comparison.follow(renderer.feed(entry))
            state, above = comparison.result()
        self._renderer = renderer
        self._complete_readable(reader, state, above)

    def _follow(self, log: Log, text: str) -> None:
        """Add to the companion; one that misses something is brought up to date.

        The record itself is saved: whatever fails here is a warning.
        """
        try:
            if self._behind:
                self._catch_up(log.saved())
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

    def _write_derived(self, path: Path, pieces: Iterable[bytes]) -> bool:
        """Write what can be made again; a failure is a warning."""
        try:
            replace_piecewise(path, pieces)
        except OSError as error:
            self.warn(f"cannot write {path}: {error.strerror}")
            return False
        except SessionError as error:
            # The log, of which it is made, cannot be read.
            self.warn(f"cannot write {path}: {error}")
            return False
        return True

    def _point_latest(self) -> None:
        self._write_derived(
            self.folder / LATEST, (f"{self.label}/{self.readable_path.name}\n".encode(),)
        )


def _renamed(reader: LogReader, left: str, fresh: str) -> Iterator[bytes]:
    """The lines of a log, as those of a fork unless it keeps its name."""
    if fresh != left:
        yield from forked(reader, left, fresh)
    else:
        for _, line in reader.placed():
            yield line + b"\n"


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
