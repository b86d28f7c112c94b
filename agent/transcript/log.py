"""The append-only log of one session: append, sync, lock, recover.

A record counts as saved once :meth:`Log.append` has returned: it is written in one
piece and synced. One process at a time may append; reading needs no lock.
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from agent.errors import SessionError, TranscriptError
from agent.transcript.files import create_locked, open_private, write_all
from agent.transcript.records import (
    BadLineError,
    Entry,
    Record,
    SessionRecord,
    decode,
    encode,
)

_LOCKS = Path("/proc/locks")
"""Where Linux tells who holds a lock."""


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
    return recover(contents(path))


def contents(path: Path) -> bytes:
    """All bytes of a log.

    :raises SessionError: the file cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise SessionError(f"cannot read the transcript {path}: {error.strerror}") from error


def recover(data: bytes) -> Recovered:
    """Every whole record in the bytes of a log; of a number that comes again, the first."""
    entries: dict[int, Entry] = {}
    skipped = 0
    for entry, _ in _lines(data):
        if entry is None or entry.seq in entries:
            skipped += 1
        else:
            entries[entry.seq] = entry
    whole = tuple(entries[number] for number in sorted(entries))
    return Recovered(whole, skipped, bool(data) and not data.endswith(b"\n"))


def forked(data: bytes, parent: str, session_id: str) -> tuple[bytes, int]:
    """The bytes of a log as the beginning of another session, which names its parent.

    Whole lines are taken over as they stand, those of later versions included. Also
    returns how many were skipped.

    :raises SessionError: the log does not begin with a session.
    """
    kept: dict[int, bytes] = {}
    first: Entry | None = None
    skipped = 0
    for entry, line in _lines(data):
        if entry is None or entry.seq in kept:
            skipped += 1
            continue
        if first is None or entry.seq < first.seq:
            first = entry
        if isinstance(entry.record, SessionRecord):
            record = replace(entry.record, id=session_id, parent=parent)
            kept[entry.seq] = encode(replace(entry, record=record))
        else:
            kept[entry.seq] = line + b"\n"
    if first is None or not isinstance(first.record, SessionRecord):
        raise SessionError(f"{parent} cannot be forked: its first record is missing")
    return b"".join(kept[number] for number in sorted(kept)), skipped


def _lines(data: bytes) -> Iterator[tuple[Entry | None, bytes]]:
    """The non-empty lines with what they hold; ``None`` for one that is damaged.

    Only the newline byte ends a line, never U+2028 and its like.
    """
    for whole in io.BytesIO(data):
        line = whole.removesuffix(b"\n")
        if not line:
            continue
        try:
            entry = decode(line)
        except BadLineError:
            yield None, line
        else:
            yield entry, line


class Log:
    """The writer of one log file. Made by :meth:`create` or :meth:`open`."""

    def __init__(self, path: Path, descriptor: int, recovered: Recovered) -> None:
        self.path = path
        self._descriptor = descriptor
        self._seq = recovered.entries[-1].seq if recovered.entries else 0
        self._end = os.fstat(descriptor).st_size
        self._doubt = ""

    @classmethod
    def create(cls, path: Path, lines: bytes) -> tuple[Log, Recovered]:
        """Start a new log with some lines. It is there at once: whole, durable and locked.

        :raises TranscriptError: the file exists already or cannot be made; nothing has
            changed then.
        """
        try:
            descriptor = create_locked(path, lines)
        except OSError as error:
            raise TranscriptError(f"cannot make the transcript {path}: {error.strerror}") from error
        recovered = recover(lines)
        return cls(path, descriptor, recovered), recovered

    @classmethod
    def open(cls, path: Path) -> tuple[Log, Recovered]:
        """Go on with an existing log: lock it, read it, close a torn last line.

        :raises SessionError: it cannot be read, or another process writes to it.
        :raises TranscriptError: it cannot be written.
        """
        try:
            descriptor = open_private(path, os.O_RDWR | os.O_APPEND)
        except OSError as error:
            raise SessionError(f"cannot open the transcript {path}: {error.strerror}") from error
        try:
            _lock(descriptor, path)
            recovered = recover(_read(descriptor))
            log = cls(path, descriptor, recovered)
            if recovered.torn:
                log._write(b"\n")
        except OSError as error:
            os.close(descriptor)
            raise SessionError(f"cannot read the transcript {path}: {error.strerror}") from error
        except BaseException:
            # Whatever it was, an interrupt included: the lock must not stay held.
            os.close(descriptor)
            raise
        return log, recovered

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

    def saved(self) -> bytes:
        """All that is saved, also when the file has lost its name.

        :raises OSError: it cannot be read.
        """
        return _read(self._descriptor)[: self._end]

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


def _read(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb", closefd=False) as file:
        file.seek(0)
        return file.read()


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
