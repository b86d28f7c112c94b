"""What sessions of other programs are made into: records of this one, with their times.

A reader of a format calls a :class:`Builder` with what it finds, in order. The builder
keeps what every format needs: turns are numbered, ids of calls are made such that a
server accepts them, and what a file leaves open is closed.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

from agent.errors import MediaError, SessionError
from agent.media import load_media
from agent.messages import (
    Block,
    MediaBlock,
    OpaqueBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    Usage,
)
from agent.transcript.records import (
    AssistantEndRecord,
    BlockRecord,
    DiscardedRecord,
    InterruptedRecord,
    ModelRecord,
    Record,
    RewindRecord,
    ToolResultRecord,
    ToolStartRecord,
    UserRecord,
)
from agent.wire import compact_json

Json: TypeAlias = Mapping[str, Any]

Line: TypeAlias = tuple[int, Json]
"""An entry of a file and the number of its line, from 1."""

NO_BEGINNING = "[The beginning of this conversation is not in the imported file.]"


@dataclass(frozen=True, slots=True)
class Place:
    """A line of the file, from 1, and its time in seconds since the epoch."""

    line: int
    when: float = 0.0


@dataclass(frozen=True, slots=True)
class Placed:
    """A record and where in the file it comes from."""

    place: Place
    record: Record


@dataclass(frozen=True)
class Conversation:
    """A whole conversation of another program; nothing in it is folded.

    ``records`` begin with the first user record: a session record is put before them
    when they are saved. ``model`` and ``cwd`` are the first that the file names.
    ``compactions`` are those of that program, ``damaged`` lines could not be read,
    ``left_out`` messages stand on branches that the conversation has left.
    """

    program: str
    model: str
    cwd: str
    records: tuple[Placed, ...]
    compactions: int = 0
    damaged: int = 0
    left_out: int = 0

    @property
    def turns(self) -> int:
        """How many turns it has."""
        return sum(isinstance(placed.record, UserRecord) for placed in self.records)

    @property
    def models(self) -> frozenset[str]:
        """The models that have answered."""
        ends = (placed.record for placed in self.records)
        return frozenset(end.model for end in ends if isinstance(end, AssistantEndRecord))


_UNFIT = re.compile(r"[^a-zA-Z0-9_-]+")
"""What the Messages API takes neither in an id of a call nor in a tool's name."""

_MOST_NAME_CHARS = 128


@dataclass
class Builder:
    """Collects a conversation's records."""

    program: str
    model: str = ""
    cwd: str = ""
    turns: int = 0
    compactions: int = 0
    _placed: list[Placed] = field(default_factory=list)
    _call_ids: dict[str, str] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)
    _open: set[str] = field(default_factory=set)
    """Calls of the newest message that have no result yet."""

    _held: list[tuple[Place, str, tuple[MediaBlock, ...]]] = field(default_factory=list)

    def typed(self, place: Place, text: str, media: tuple[MediaBlock, ...] = ()) -> None:
        """A user's words. Several messages in a row are one, as a server joins them.

        What was typed while tools were running comes after their results.
        """
        last = self._placed[-1].record if self._placed else None
        if not text.strip():
            return
        if self._open:
            self._held.append((place, text, media))
        elif isinstance(last, UserRecord):
            joined = f"{last.text}\n\n{text}"
            self._put_last(UserRecord(self.turns, joined, last.media + media))
        else:
            self.turns += 1
            self._add(place, UserRecord(self.turns, text, media))

    def said(self, placed: Iterable[tuple[Place, Block]]) -> None:
        """Blocks of an assistant message."""
        for number, (place, block) in enumerate(placed):
            if number == 0:
                self._go_on()
                if not self.turns:
                    self.typed(place, NO_BEGINNING)
            own = self._own_call(block) if isinstance(block, ToolUseBlock) else block
            self._add(place, BlockRecord(own))

    def ended(self, place: Place, stop_reason: str, model: str, usage: Usage) -> None:
        """The assistant message is complete, and its calls have been started.

        Whether one that gets no result was run to its end is unknown.
        """
        self.model = self.model or model
        self._add(place, AssistantEndRecord(stop_reason, model, usage))
        self._add(place, *map(ToolStartRecord, sorted(self._open)))

    def answered(self, place: Place, call: str, content: object, *, is_error: bool = False) -> None:
        """A tool's result; ``call`` and ``content`` are as the file has them."""
        own = self._call_ids.get(call) or _UNFIT.sub("_", call)
        self._add(
            place, ToolResultRecord(own, plain(content), is_error, media=tuple(media(content)))
        )
        self._open.discard(own)
        if not self._open:
            self._go_on()

    def appended(self, text: str) -> bool:
        """Add a text to the result that came last, if one did; whether it was added."""
        match self._placed:
            case [*_, Placed(record=ToolResultRecord() as last)]:
                self._put_last(replace(last, content=f"{last.content}\n\n{text}"))
                return True
            case _:
                return False

    def interrupted(self, place: Place, reason: str) -> None:
        """The turn ended early. Calls of a message that is not complete were never run."""
        self._add(place, InterruptedRecord(reason))
        self._go_on()

    def discarded(self, place: Place, reason: str) -> None:
        """The request failed; what came of its answer is left out."""
        self._add(place, DiscardedRecord(reason))
        self._open.clear()

    def changed_model(self, place: Place, model: str) -> None:
        """From here on another model answers."""
        self.model = self.model or model
        self._add(place, ModelRecord(model))

    def rewound(self, place: Place, turn: int) -> None:
        """The conversation goes on from before a turn."""
        self._go_on()
        self._add(place, RewindRecord(turn))

    def build(self, *, damaged: int = 0, left_out: int = 0) -> Conversation:
        """The whole conversation."""
        self._go_on()
        records = tuple(self._placed)
        return Conversation(
            self.program, self.model, self.cwd, records, self.compactions, damaged, left_out
        )

    def _add(self, place: Place, *records: Record) -> None:
        self._placed.extend(Placed(place, record) for record in records)

    def _put_last(self, record: Record) -> None:
        self._placed[-1] = replace(self._placed[-1], record=record)

    def _own_call(self, call: ToolUseBlock) -> ToolUseBlock:
        """The call with an id of its own and a name that a server takes."""
        base = own = _UNFIT.sub("_", call.id) or "call"
        while own in self._taken:
            own = f"{base}-{len(self._taken)}"
        self._taken.add(own)
        self._call_ids[call.id] = own
        self._open.add(own)
        name = _UNFIT.sub("_", call.name)[:_MOST_NAME_CHARS] or "tool"
        return replace(call, id=own, name=name)

    def _go_on(self) -> None:
        """No result comes any more: what was typed meanwhile takes its turn."""
        self._open.clear()
        held, self._held = self._held, []
        for place, text, shown in held:
            self.typed(place, text, shown)


def json_lines(path: Path) -> tuple[list[Line], int]:
    """The objects of a file of JSON lines with their line numbers; how many lines are damaged.

    :raises SessionError: the file cannot be read.
    """
    found: list[Line] = []
    damaged = 0
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                text = line.decode("utf-8", "replace").strip("\ufeff \t\r\n")
                try:
                    value = json.loads(text) if text else {}
                except (ValueError, RecursionError):
                    value = None
                if isinstance(value, dict):
                    found.extend([(number, value)] if value else [])
                else:
                    damaged += 1
    except OSError as error:
        raise SessionError(f"cannot read {path}: {error.strerror}") from error
    return found, damaged


def items(content: object) -> list[Any]:
    """The blocks of a content field, which may be a text instead."""
    return content if isinstance(content, list) else [content]


def blocks(content: object) -> Iterator[Block]:
    """An assistant's content, in Claude Code's form (the Messages API's) or in pi's."""
    for block in items(content):
        match block:
            case {"type": "thinking", "thinking": str(thinking)}:
                signature = next(strings(block, "signature", "thinkingSignature"), "")
                yield ThinkingBlock(thinking, signature)
            case {"type": "redacted_thinking", "data": str()}:
                yield OpaqueBlock(block)
            case {"type": "tool_use" | "toolCall", "id": str(call), "name": str(name)}:
                given = block.get("input", block.get("arguments"))
                yield ToolUseBlock(call, name, given if isinstance(given, dict) else {})
            case _:
                yield TextBlock(plain(block))


def media(content: object) -> Iterator[MediaBlock]:
    """The images and documents of a content field, in either form, as they may be sent.

    What cannot be sent is left out; :func:`plain` has a note in the place of each.
    """
    for block in items(content):
        match block:
            case {
                "type": "image" | "document",
                "source": {"data": str(data), "media_type": str(media_type)},
            } | {"type": "image", "data": str(data), "mimeType": str(media_type)}:
                try:
                    yield load_media(base64.b64decode(data), media_type)
                except (MediaError, binascii.Error):
                    # Other programs keep what a server has refused, too.
                    continue


def strings(entry: Json, *names: str) -> Iterator[str]:
    """The fields of these names that are strings with something in them."""
    for name in names:
        value = entry.get(name)
        if isinstance(value, str) and value:
            yield value


def seconds(entry: Json, otherwise: float) -> float:
    """An entry's ``timestamp``, ISO 8601, in seconds since the epoch."""
    try:
        return datetime.fromisoformat(str(entry.get("timestamp"))).timestamp()
    except (ValueError, OverflowError):
        return otherwise


def plain(content: object) -> str:
    """A content field as text; anything but text becomes a short note."""
    match content:
        case None:
            return ""
        case str(text) | {"type": "text", "text": str(text)}:
            return text
        case {"type": "image" | "document" as kind}:
            return f"[{'an' if kind == 'image' else 'a'} {kind}]"
        case list(parts):
            return "\n".join(filter(None, map(plain, parts)))
        case _:
            return compact_json(content)
