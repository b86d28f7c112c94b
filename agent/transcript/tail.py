"""The end of a log, read without what comes before it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from agent.transcript.records import BadLineError, Record, UserRecord, decode

_BLOCK_BYTES = 1 << 18


def records_from(path: Path, turn: int) -> list[Record]:
    """The whole records of a log from a turn's user message on, in their order.

    :raises OSError: the log cannot be read.
    """
    records: list[Record] = []
    with path.open("rb") as log:
        for line in lines_from_the_end(log):
            try:
                record = decode(line).record
            except BadLineError:
                # Damage is reported when the session is opened.
                continue
            records.append(record)
            if isinstance(record, UserRecord) and record.turn <= turn:
                break
    return records[::-1]


def lines_from_the_end(log: BinaryIO) -> Iterator[bytes]:
    """The lines of a file from the last to the first, read block by block."""
    end = log.seek(0, 2)
    pieces: list[bytes] = []
    while end:
        start = max(end - _BLOCK_BYTES, 0)
        log.seek(start)
        piece, *lines = log.read(end - start).split(b"\n")
        if lines:
            yield b"".join((lines.pop(), *reversed(pieces)))
            yield from reversed(lines)
            pieces = []
        pieces.append(piece)
        end = start
    yield b"".join(reversed(pieces))
