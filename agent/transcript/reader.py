"""Reading a log, record after record."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import BinaryIO

from agent.errors import SessionError
from agent.transcript.records import BadLineError, Entry, SessionRecord, decode, encode

_NUMBER = re.compile(rb'\{"v":\d+,"seq":(\d{1,18}),')

BUFFER_BYTES = 1 << 20
"""How much is read at once: files are long, and are read from end to end."""


class LogReader:
    """The whole records of a log by number, one after another: a long log need not fit in memory.

    It may be gone through again. Damaged lines and numbers that come again are skipped, and
    counted in ``skipped``; ``torn`` is true when the last line has no newline: a write was
    cut short; ``last`` is the number of the last record. All three tell of the last time it
    was gone through. ``descriptor`` is that of the open file, which may have lost its name;
    of a file that is longer than ``size`` bytes, only so many are read.
    """

    def __init__(self, path: Path, descriptor: int | None = None, size: int | None = None) -> None:
        self.path = path
        self._descriptor = descriptor
        self._size = size
        self.skipped = 0
        self.torn = False
        self.last = 0

    def __iter__(self) -> Iterator[Entry]:
        """The entries.

        :raises SessionError: the file cannot be read at all.
        """
        for entry, _ in self.placed():
            yield entry

    def placed(self) -> Iterator[tuple[Entry, bytes]]:
        """The entries, each with its line, without the newline.

        :raises SessionError: the file cannot be read at all.
        """
        self.skipped, self.torn, self.last = 0, False, 0
        try:
            with self._opened() as file:
                for line in self._by_number(file):
                    if (entry := self._entry(line)) is not None:
                        yield entry, line
        except OSError as error:
            raise SessionError(
                f"cannot read the transcript {self.path}: {error.strerror}"
            ) from error

    def _opened(self) -> BinaryIO:
        if self._descriptor is None:
            return self.path.open("rb", BUFFER_BYTES)
        file = os.fdopen(self._descriptor, "rb", BUFFER_BYTES, closefd=False)
        file.seek(0)
        return file

    def _by_number(self, file: BinaryIO) -> Iterator[bytes]:
        """The lines in the order of their numbers, in which they stand unless they were moved."""
        numbers = list(map(_number, self._lines(file)))
        file.seek(0)
        lines = self._lines(file)
        if all(before < after for before, after in pairwise(filter(None, numbers))):
            yield from lines
            return
        # A line without a number stays behind the one before it.
        placed: list[tuple[int, bytes]] = []
        for number, line in zip(numbers, lines, strict=True):
            placed.append((number or (placed[-1][0] if placed else 0), line))
        for _, line in sorted(placed, key=itemgetter(0)):
            yield line

    def _lines(self, file: BinaryIO) -> Iterator[bytes]:
        """The lines that are not empty; only the newline byte ends one, never U+2028."""
        left = self._size
        for whole in file:
            line = whole[:left]
            self.torn = not line.endswith(b"\n")
            if bare := line.removesuffix(b"\n"):
                yield bare
            if left is not None:
                left -= len(line)
                if not left:
                    return

    def _entry(self, line: bytes) -> Entry | None:
        """The entry that a line holds, if it holds one that counts."""
        try:
            entry = decode(line)
        except BadLineError:
            self.skipped += 1
            return None
        if entry.seq <= self.last:
            self.skipped += 1
            return None
        self.last = entry.seq
        return entry


def _number(line: bytes) -> int:
    """The number that a line begins with; 0 if it has none."""
    found = _NUMBER.match(line)
    return int(found[1]) if found else 0


def forked(reader: LogReader, parent: str, session_id: str) -> Iterator[bytes]:
    """The lines of a log as the beginning of another session, which names its parent.

    They are taken over as they stand, those of later versions included.

    :raises SessionError: the log cannot be read or does not begin with a session.
    """
    first = True
    for entry, line in reader.placed():
        if isinstance(entry.record, SessionRecord):
            record = replace(entry.record, id=session_id, parent=parent)
            yield encode(replace(entry, record=record))
        elif first:
            break
        else:
            yield line + b"\n"
        first = False
    if first:
        raise SessionError(f"{parent} cannot be forked: its first record is missing")
