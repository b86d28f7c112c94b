"""The tool that reads a file, a page at a time, however large it is."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import BinaryIO

from agent.errors import MediaError, ToolError
from agent.media import MEDIA_TYPES, MOST_SOURCE_BYTES, load_media
from agent.messages import ToolSpec
from agent.tools.arguments import integer, object_schema, one_line, text
from agent.tools.base import Action, ToolContext, ToolOutcome
from agent.tools.paths import Target, explained, open_regular, resolve
from agent.tools.threads import Stop, in_thread

DEFAULT_LIMIT = 2_000
_BINARY_PROBE_BYTES = 8_192
_CHUNK = 1 << 20
# Counting the lines after a page is a courtesy; it must not take minutes.
_MAX_COUNTED_BYTES = 256 << 20
_ADDRESS = re.compile(r"(.+?):(\d{1,12})(?:-(\d{1,12}))?(?:, turns? \d+(?:-\d+)?)?")
_NOTE_CHARS = 130
_MIN_PAGE_CHARS = 200


@dataclass(frozen=True)
class Start:
    """Where a page starts: a line and a character in it, both counted from 1."""

    offset: int
    column: int


@dataclass(frozen=True)
class Layout:
    """The lines of a page as they are shown, and where it stops.

    ``next_column`` is above 1 when the last line is shown in part; ``finished``
    tells that the file ends with this page.
    """

    lines: tuple[str, ...]
    last: int
    next_column: int
    finished: bool
    crlf: bool


class ReadFile:
    """Shows numbered lines; the last line of each page says how to go on."""

    spec = ToolSpec(
        "read_file",
        "Read a text file in pages of numbered lines; the last line says how to go on. "
        "Images and PDFs are shown. "
        "Earlier turns that left this conversation are in .transcripts/ and can be read, too.",
        object_schema(
            "path",
            path={"type": "string"},
            offset={"type": "integer", "minimum": 1, "description": "first line, from 1"},
            limit={"type": "integer", "minimum": 1, "description": "most lines, default 2000"},
            column={"type": "integer", "minimum": 1, "description": "first character of it"},
        ),
    )

    def summary(self, arguments: Mapping[str, object]) -> str:
        """The path and the first line."""
        path = one_line(arguments.get("path", ""))
        offset = arguments.get("offset")
        return f"{path} from line {one_line(offset, 12)}" if offset else path

    def plan(self, arguments: Mapping[str, object], context: ToolContext) -> Action:
        """A read of the path."""
        return _action(_located(arguments, context)[0])

    async def run(self, arguments: Mapping[str, object], context: ToolContext) -> ToolOutcome:
        """Read one page."""
        target, first, count = _located(arguments, context)
        context.confirm(_action(target))
        start = Start(integer(arguments, "offset", first), integer(arguments, "column", 1))
        limit = integer(arguments, "limit", count)
        room = max(context.max_chars, _MIN_PAGE_CHARS) - _NOTE_CHARS

        if media_type := MEDIA_TYPES.get(target.path.suffix.lower()):
            return await in_thread(lambda _: _shown(target, media_type, context.max_chars))

        def work(stop: Stop) -> str:
            with explained("read", target), os.fdopen(open_regular(target.path), "rb") as file:
                if context.files is not None:
                    context.files.note(target.path)
                return read_page(file, target.shown, start, limit, room, stop)

        return ToolOutcome(await in_thread(work), capped=True)


def _shown(target: Target, media_type: str, most_tokens: int) -> ToolOutcome:
    """An image or document as the model sees it, of at most so many tokens."""
    with explained("read", target), os.fdopen(open_regular(target.path), "rb") as file:
        content = file.read(MOST_SOURCE_BYTES + 1)
    if len(content) > MOST_SOURCE_BYTES:
        raise ToolError(f"{target.shown} has more than {MOST_SOURCE_BYTES:,} bytes.")
    try:
        media = load_media(content, media_type)
    except MediaError as error:
        raise ToolError(f"{target.shown}: {error}.") from error
    if media.tokens > most_tokens:
        raise ToolError(
            f"{target.shown} would take about {media.tokens:,} tokens, and {most_tokens:,} are "
            "free for it: take a part of it, or its text."
        )
    kept = replace(media, address=target.shown) if target.in_transcripts else media
    said = f"[{target.shown}: {media.media_type}, {len(content):,} bytes]"
    return ToolOutcome(said, capped=True, media=(kept,))


def _located(arguments: Mapping[str, object], context: ToolContext) -> tuple[Target, int, int]:
    """The file, and the first line and the number of lines unless arguments say otherwise.

    A path such as ``.transcripts/<id>.md:120-188, turn 12``, which is how a summary
    names the turns that it covers, is taken for those lines of the file.
    """
    path = text(arguments, "path")
    target = resolve(path, context)
    found = _ADDRESS.fullmatch(path)
    if found is None or target.path.exists():
        return target, 1, DEFAULT_LIMIT
    first = max(1, int(found[2]))
    last = int(found[3] or first)
    return resolve(found[1], context), first, max(1, last - first + 1)


def _action(target: Target) -> Action:
    return Action(
        kind="read",
        title=f"Read {one_line(target.shown)}",
        detail=target.shown + " (a file that also has other names)" * target.linked,
        key=f"read_file:{target.path}",
        inside=target.free_to_read,
    )


def read_page(file: BinaryIO, name: str, start: Start, limit: int, room: int, stop: Stop) -> str:
    """One page of a seekable file: numbered lines of at most ``room`` characters, and a note.

    Only line feeds end a line. Bytes that are no UTF-8 are shown as U+FFFD.

    Raises:
        ToolError: the file is binary, or has no such line or column.
    """
    if b"\0" in file.read(_BINARY_PROBE_BYTES):
        size = os.fstat(file.fileno()).st_size
        raise ToolError(f"{name} is a binary file of {size:,} bytes.")
    position, before = _find_line(file, start.offset, stop)
    file.seek(position)
    if before < start.offset - 1 or not file.read(1):
        return _no_such_line(file, name, start, stop)
    file.seek(position)
    # newline="\n": nothing else ends a line, and nothing is translated.
    reader = io.TextIOWrapper(file, encoding="utf-8", errors="replace", newline="\n")
    try:
        _skip_columns(reader, name, start, stop)
        # More than what fits, so that what is cut off here cannot fit either.
        following = reader.read(room + 2)
    finally:
        reader.detach()
    if not following:
        raise ToolError(f"Line {start.offset} of {name} ends before column {start.column:,}.")
    layout = lay_out(following, start, limit, room)
    file.seek(position)
    counted, ends_in_newline = _count_lines(file, stop)
    total = "" if counted is None else f" of {before + counted}"
    note = _note(layout, start, total)
    if layout.crlf:
        note += "; lines end in CRLF"
    if layout.finished and not ends_in_newline:
        note += "; no newline at the end"
    return "\n".join([*layout.lines, f"[{note}]"])


def _find_line(file: BinaryIO, wanted: int, stop: Stop) -> tuple[int, int]:
    """The byte position of a line, and the number of lines before it.

    Where the file ends too early, its end and the line feeds in it.
    """
    file.seek(0)
    position = before = 0
    while before < wanted - 1 and (chunk := file.read(_CHUNK)):
        stop.check()
        missing = wanted - 1 - before
        found = chunk.count(b"\n")
        if found < missing:
            before += found
            position += len(chunk)
            continue
        end = 0
        for _ in range(missing):
            end = chunk.index(b"\n", end) + 1
        return position + end, wanted - 1
    return position, before


def _no_such_line(file: BinaryIO, name: str, start: Start, stop: Stop) -> str:
    """What to say where the file ends before the page starts."""
    file.seek(0)
    counted, _ = _count_lines(file, stop)
    if counted == 0 and start == Start(1, 1):
        return f"[{name} is empty]"
    lines = "fewer" if counted is None else f"only {counted:,}"
    raise ToolError(f"{name} has {lines} lines; there is no line {start.offset:,}.")


def _skip_columns(reader: io.TextIOWrapper, name: str, start: Start, stop: Stop) -> None:
    """Read up to the first character of the page, within its line."""
    missing = start.column - 1
    while missing:
        stop.check()
        chunk = reader.read(min(missing, _CHUNK))
        if not chunk or "\n" in chunk:
            length = start.column - 1 - missing + len(chunk.split("\n")[0])
            raise ToolError(f"Line {start.offset} of {name} has only {length:,} characters.")
        missing -= len(chunk)


def _count_lines(file: BinaryIO, stop: Stop) -> tuple[int | None, bool]:
    """The lines from here on, ``None`` when too many to count; whether the last one is ended."""
    lines, size, last = 0, 0, b"\n"
    while chunk := file.read(_CHUNK):
        stop.check()
        lines += chunk.count(b"\n")
        size += len(chunk)
        last = chunk[-1:]
        if size > _MAX_COUNTED_BYTES:
            return None, True
    return lines + (last != b"\n"), last == b"\n"


def lay_out(following: str, start: Start, limit: int, room: int) -> Layout:
    """Number the lines that fit into ``room`` characters.

    ``following`` is the file's text from ``start`` on; unless it is shorter than
    ``room + 2``, the file may go on after it. A first line that does not fit is
    shown in part.
    """
    pieces = following.split("\n")
    ended = len(pieces) - 1
    to_the_end = len(following) < room + 2
    if to_the_end and not pieces[-1]:
        pieces.pop()
    shown: list[str] = []
    crlf = False
    free = room
    for index, piece in enumerate(pieces[:limit]):
        line = piece.removesuffix("\r") if index < ended else piece
        numbered = _numbered(start.offset + index, line)
        free -= len(numbered) + 1
        if free < 0:
            break
        crlf = crlf or line != piece
        shown.append(numbered)
    if not shown:
        part = pieces[0][: room - len(_numbered(start.offset, "")) - 1]
        return Layout(
            lines=(_numbered(start.offset, part),),
            last=start.offset,
            next_column=start.column + len(part),
            finished=False,
            crlf=False,
        )
    finished = to_the_end and len(shown) == len(pieces)
    return Layout(tuple(shown), start.offset + len(shown) - 1, 1, finished, crlf)


def _numbered(number: int, line: str) -> str:
    return f"{number:6}\t{line}"


def _note(layout: Layout, start: Start, total: str) -> str:
    """Which lines a page shows, and how to go on."""
    note = (
        f"line {start.offset}"
        if layout.last == start.offset
        else (f"lines {start.offset}-{layout.last}")
    )
    note += total
    if layout.next_column > 1:
        note += f", columns {start.column}-{layout.next_column - 1}"
        return f"{note}; go on with offset={start.offset}, column={layout.next_column}"
    if start.column > 1:
        note += f", from column {start.column}"
    return note if layout.finished else f"{note}; go on with offset={layout.last + 1}"
