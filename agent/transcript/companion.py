"""Whether a readable file holds what its log says, found out without holding either of them."""

from __future__ import annotations

import io
import sys
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Literal, TypeAlias

from agent.transcript.readable import Renderer
from agent.transcript.reader import BUFFER_BYTES
from agent.transcript.records import Entry

State: TypeAlias = Literal["whole", "behind", "other"]


class Comparison:
    """Compares a readable file with the rendering of its log, piece by piece.

    A file that is missing or cannot be read counts as empty: it can be made again.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._file: BinaryIO = path.open("rb", BUFFER_BYTES)
        except OSError:
            self._file = io.BytesIO()
        self._alike = True
        self._size = 0
        self._crc = 0

    def follow(self, rendered: str) -> None:
        """Take the next part of the rendering."""
        piece = rendered.encode()
        self._size += len(piece)
        self._crc = zlib.crc32(piece, self._crc)
        try:
            self._alike = self._alike and piece.startswith(self._file.read(len(piece)))
        except OSError:
            self._file = io.BytesIO()

    def result(self) -> tuple[State, int]:
        """What the file is, and how many of its lines stand above the rendering.

        ``whole``: it ends with the rendering; other lines stand above it where the log was
        damaged after they had been rendered. ``behind``: it has only the beginning.
        ``other``: the rendering is to be written below all that there is.
        """
        try:
            return self._compared(self._file)
        except OSError:
            # It cannot be read, so it counts as empty.
            return "behind", 0

    def _compared(self, file: BinaryIO) -> tuple[State, int]:
        more = file.seek(0, io.SEEK_END) - self._size
        if self._alike and more <= 0:
            return ("behind" if more else "whole"), 0
        file.seek(max(more, 0))
        if more > 0 and _crc_of(file) == self._crc:
            file.seek(0)
            return "whole", sum(piece.count(b"\n") for piece in _pieces(file, more))
        file.seek(0)
        return "other", sum(piece.count(b"\n") for piece in _whole_lines(file))

    def close(self) -> None:
        """Release the file."""
        self._file.close()


def anew(path: Path, state: State, entries: Iterable[Entry]) -> Iterator[bytes]:
    """A readable file's content, made again.

    Lines that are not of the log stay above: addresses of them were given out.
    """
    if state == "other":
        with path.open("rb") as file:
            yield from _whole_lines(file)
    renderer = Renderer()
    for entry in entries:
        yield renderer.feed(entry).encode()


def _whole_lines(file: BinaryIO) -> Iterator[bytes]:
    """The rest of a file, and a newline where it does not end with one."""
    piece = b"\n"
    for piece in _pieces(file):
        yield piece
    if not piece.endswith(b"\n"):
        yield b"\n"


def _crc_of(file: BinaryIO) -> int:
    crc = 0
    for piece in _pieces(file):
        crc = zlib.crc32(piece, crc)
    return crc


def _pieces(file: BinaryIO, size: int = sys.maxsize) -> Iterator[bytes]:
    """The next ``size`` bytes of a file, as far as there are so many."""
    while piece := file.read(min(size, BUFFER_BYTES)):
        size -= len(piece)
        yield piece
