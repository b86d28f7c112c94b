"""The append-only log of one session: append, sync, lock, recover.

A record counts as saved once :meth:`Log.append` has returned: it is written in one
piece and synced. One process at a time may append; reading needs no lock.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agent.errors import SessionError, TranscriptError
from agent.transcript.files import open_private, sync_folder, write_all
from agent.transcript.reader import LogReader
from agent.transcript.records import Entry, Record, encode


@dataclass(frozen=True)
class Recovered:
    """What a log holds: its entries, and how many lines had to be skipped.

    ``torn`` is true when the last line has no newline: a write was cut short.
    """

    entries: tuple[Entry, ...]
    skipped: int
    torn: bool


def read_log(path: Path) -> Recovered:
    """Read every whole record; damaged lines are skipped and counted, never fatal.

    :raises SessionError: the file cannot be read at all.
    """
    reader = LogReader(path)
    entries = tuple(reader)
    return Recovered(entries, reader.skipped, reader.torn)


class Log:
    """The writer of one log file. Made by :meth:`create` or :meth:`open`."""

    def __init__(self, path: Path, descriptor: int, seq: int, clock: Callable[[], float]) -> None:
        self.path = path
        self._descriptor = descriptor
        self._seq = seq
        self._clock = clock
        self._end = os.fstat(descriptor).st_size
        self._torn = False

    @classmethod
    def create(cls, path: Path, clock: Callable[[], float] = time.time) -> Log:
        """Start a new log. Its name is durable when this returns.

        :raises TranscriptError: the file exists already or cannot be made.
        """
        try:
            descriptor = open_private(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL)
            sync_folder(path.parent)
        except OSError as error:
            raise TranscriptError(f"cannot make the transcript {path}: {error.strerror}") from error
        _lock(descriptor, path)
        return cls(path, descriptor, 0, clock)

    @classmethod
    def open(
        cls,
        path: Path,
        clock: Callable[[], float] = time.time,
        follow: Callable[[Entry], object] = lambda _: None,
    ) -> tuple[Log, LogReader]:
        """Go on with an existing log: lock it, read it, close a torn last line.

        Each entry is handed to ``follow`` and not held. The reader has gone through the log.

        :raises SessionError: it cannot be read, or another process writes to it.
        :raises TranscriptError: it cannot be written.
        """
        try:
            descriptor = open_private(path, os.O_WRONLY | os.O_APPEND)
        except OSError as error:
            raise SessionError(f"cannot open the transcript {path}: {error.strerror}") from error
        try:
            _lock(descriptor, path)
            reader = LogReader(path)
            for entry in reader:
                follow(entry)
            log = cls(path, descriptor, reader.last, clock)
            if reader.torn:
                log._write(b"\n")
        except BaseException:
            # Whatever it was, an interrupt included: the lock must not stay held.
            os.close(descriptor)
            raise
        return log, reader

    def append(self, record: Record) -> Entry:
        """Write one record and sync it.

        :raises TranscriptError: it is not saved. A later append starts a new line,
            so a half-written one costs nothing but itself.
        """
        # The number is used up even when writing fails: the bytes may still be on disk.
        self._seq += 1
        entry = Entry(self._seq, round(self._clock(), 3), record)
        self._write(encode(entry))
        return entry

    def _write(self, data: bytes) -> None:
        """Write and sync some bytes, all of them or none.

        What a failed write has left behind is cut off again. Where even that fails,
        the next write begins with a newline, so that it does not share a line with it.
        """
        whole = b"\n" + data if self._torn else data
        try:
            write_all(self._descriptor, whole)
            os.fsync(self._descriptor)
        except OSError as error:
            self._torn = not self._cut_off()
            raise TranscriptError(
                f"cannot write the transcript {self.path}: {error.strerror}; "
                "free some space or check the disk, then send again"
            ) from error
        self._torn = False
        self._end += len(whole)

    def _cut_off(self) -> bool:
        """Take away what was written after the last saved record; false if that fails."""
        try:
            os.ftruncate(self._descriptor, self._end)
        except OSError:
            # The caller reports the failed write itself and remembers the torn line.
            return False
        return True

    def close(self) -> None:
        """Release the lock. Every append is on disk already."""
        os.close(self._descriptor)


def _lock(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise SessionError(
            f"the session {path.stem} is open in another process; "
            "close it there, or go on with a copy of it: --resume with --fork"
        ) from error
