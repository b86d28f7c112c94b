"""Reading a log, record after record."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from agent.errors import SessionError
from agent.transcript.records import BadLineError, Entry, decode

BUFFER_BYTES = 1 << 20
"""How much is read at once: files are long, and are read from end to end."""


class LogReader:
    """The whole records of a log, read one after another: a long log need not fit in memory.

    It may be gone through again. Damaged lines are skipped, and counted in ``skipped``;
    ``torn`` is true when the last line has no newline: a write was cut short; ``last`` is
    the number of the last record. All three tell of the last time it was gone through.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.skipped = 0
        self.torn = False
        self.last = 0

    def __iter__(self) -> Iterator[Entry]:
        """The entries.

        :raises SessionError: the file cannot be read at all.
        """
        self.skipped, self.torn, self.last = 0, False, 0
        try:
            # Only the newline byte ends a line, never U+2028 and its like.
            with self.path.open("rb", BUFFER_BYTES) as lines:
                for line in lines:
                    self.torn = not line.endswith(b"\n")
                    if (entry := self._entry(line.removesuffix(b"\n"))) is not None:
                        yield entry
        except OSError as error:
            raise SessionError(
                f"cannot read the transcript {self.path}: {error.strerror}"
            ) from error

    def _entry(self, line: bytes) -> Entry | None:
        """The entry that a line holds, if it holds one that counts."""
        if not line:
            return None
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
