"""The append-only log of one session: append, sync, lock, recover.

A record counts as saved once :meth:`Log.append` has returned: it is written in one
piece and synced. One process at a time may append; reading needs no lock.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from agent.errors import SessionError, TranscriptError
from agent.transcript.files import create_locked, open_private, write_all
from agent.transcript.reader import LogReader
from agent.transcript.records import Entry, Record, encode

_LOCKS = Path("/proc/locks")
"""Where Linux tells who holds a lock."""


Follow: TypeAlias = Callable[[Entry], object]
"""What is handed each entry of a log that is read, in order."""


@dataclass(frozen=True)
class Recovered:
    """What a log holds: its entries by number, and how many lines had to be skipped.

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


def _unheard(_: Entry) -> None:
    """Follow nothing."""


class Log:
    """The writer of one log file. Made by :meth:`create` or :meth:`open`."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self._seq = 0
        self._end = os.fstat(descriptor).st_size
        self._doubt = ""

    @classmethod
    def create(
        cls, path: Path, lines: Iterable[bytes], follow: Follow = _unheard
    ) -> tuple[Log, LogReader]:
        """Start a new log with some lines. It is there at once: whole, durable and locked.

        :raises TranscriptError: the file exists already or cannot be made; nothing has
            changed then.
        """
        try:
            descriptor = create_locked(path, lines)
        except OSError as error:
            raise TranscriptError(f"cannot make the transcript {path}: {error.strerror}") from error
        return cls._taken_up(path, descriptor, follow)

    @classmethod
    def open(cls, path: Path, follow: Follow = _unheard) -> tuple[Log, LogReader]:
        """Go on with an existing log: lock it, read it, close a torn last line.

        Each entry is handed to ``follow`` and not held. The reader has gone through the log.

        :raises SessionError: it cannot be read, or another process writes to it.
        :raises TranscriptError: it cannot be written.
        """
        try:
            descriptor = open_private(path, os.O_RDWR | os.O_APPEND)
        except OSError as error:
            raise SessionError(f"cannot open the transcript {path}: {error.strerror}") from error
        try:
            _lock(descriptor, path)
        except (OSError, SessionError) as error:
            os.close(descriptor)
            if isinstance(error, SessionError):
                raise
            raise SessionError(f"cannot lock the transcript {path}: {error.strerror}") from error
        return cls._taken_up(path, descriptor, follow)

    @classmethod
    def _taken_up(cls, path: Path, descriptor: int, follow: Follow) -> tuple[Log, LogReader]:
        try:
            log, reader = cls(path, descriptor), LogReader(path, descriptor)
            for entry in reader:
                follow(entry)
            log._seq = reader.last
            if reader.torn:
                log._write(b"\n")
        except BaseException:
            # Whatever it was, an interrupt included: the lock must not stay held.
            os.close(descriptor)
            raise
        return log, reader

    def numbered(self, record: Record) -> Entry:
        """The record with the next number, which is used up even when writing it fails.

        The bytes of a failed write may still be on the disk.
        """
        self._seq += 1
        return Entry(self._seq, round(time.time(), 3), record)

    def append(self, record: Record) -> Entry:
        """Write one record and sync it.

        :raises TranscriptError: it is not saved.
        """
        entry = self.numbered(record)
        self._write(encode(entry))
        return entry

    def saved(self) -> LogReader:
        """Reads all that is saved, also when the file has lost its name."""
        return LogReader(self.path, self._descriptor, self._end)

    def _write(self, data: bytes) -> None:
        """Write and sync some bytes, all of them or none.

        What a failed write has left is cut off again, and the next one may try. Where
        that fails, or syncing did, nothing is written here any more: a kernel may have
        dropped what it could not sync, and tells so only once.
        """
        if self._doubt:
            raise self._failure(self._doubt)
        written = False
        try:
            write_all(self._descriptor, data)
            written = True
            os.fsync(self._descriptor)
            if not os.fstat(self._descriptor).st_nlink:
                raise FileNotFoundError(errno.ENOENT, "the file was deleted")
        except OSError as error:
            if not self._cut_off() or written:
                self._doubt = str(error.strerror)
            raise self._failure(str(error.strerror)) from error
        self._end += len(data)

    def _failure(self, reason: str) -> TranscriptError:
        return TranscriptError(f"cannot write the transcript {self.path}: {reason}")

    def _cut_off(self) -> bool:
        """Take away what was written after the last saved record; false if that fails."""
        try:
            os.ftruncate(self._descriptor, self._end)
        except OSError:
            # The caller reports the failed write itself and writes here no more.
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
            f"the session {path.stem} is open in {_holder(descriptor)}; close it there, "
            f"go on with a copy of it (--resume with --fork), or read {path.with_suffix('.md')}"
        ) from error


def _holder(descriptor: int) -> str:
    """Who holds the lock of a file, as far as the system tells."""
    file = os.fstat(descriptor).st_ino
    try:
        locks = [line.split() for line in _LOCKS.read_text(encoding="ascii").splitlines()]
    except OSError:
        # Other systems have no such list.
        locks = []
    for lock in locks:
        # "1: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF"; other namespaces' processes are 0.
        if lock[1] == "FLOCK" and lock[5].endswith(f":{file}") and int(lock[4]) > 0:
            return f"another process ({lock[4]})"
    return "another process"
