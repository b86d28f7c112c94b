"""The records of a transcript and their form on disk.

A record is one line: a JSON object with ``v`` (format version), ``seq`` (position
from 1), ``ts`` (seconds since the epoch), ``type``, the record's own fields, and
last ``crc``, the CRC-32 of the line as it stands without it, in eight hex digits.
Records of unknown types or newer versions are kept as :class:`UnknownRecord`.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

from agent.messages import (
    Block,
    MediaBlock,
    OpaqueBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolSpec,
    ToolUseBlock,
    Usage,
    scrub,
)
from agent.transcript.facts import TurnFacts, facts_from_json, facts_to_json
from agent.wire import (
    block_from_wire,
    block_to_wire,
    compact_json,
    tool_from_wire,
    tool_to_wire,
    usage_from_wire,
    usage_to_wire,
)

VERSION = 1

START_FACTOR = 1.2
"""Real tokens per token of the installed vocabulary, before anything was learnt.

In real sessions with Claude models content is 1.1 to 1.3 times that count."""

_CRC_FIELD = ',"crc":"'
_CRC_LENGTH = len(_CRC_FIELD) + 8 + len('"}')


@dataclass(frozen=True)
class SessionRecord:
    """The first record: what stays the same for the whole session.

    ``factor`` corrects estimates until the first answer, as earlier sessions have
    learnt it; ``parent`` is the id of the session that this one was forked from.
    """

    id: str
    cwd: str
    model: str
    system: str
    tools: tuple[ToolSpec, ...]
    factor: float = START_FACTOR
    parent: str = ""


@dataclass(frozen=True)
class UserRecord:
    """A typed user message. It begins turn number ``turn`` (from 1).

    Attached to it are texts, each with a heading that names its file, and images or
    documents.
    """

    turn: int
    text: str
    media: tuple[MediaBlock, ...] = ()
    attached: tuple[str, ...] = ()


@dataclass(frozen=True)
class BlockRecord:
    """One finished block of the assistant message being received."""

    block: Block


@dataclass(frozen=True)
class PartialRecord:
    """Text of a block that is not finished, since the last such record.

    The block's own record, when it comes, takes the place of all of them.
    """

    text: str


@dataclass(frozen=True)
class AssistantEndRecord:
    """The assistant message is complete.

    ``prompt_tokens`` is the size of the prompt it answers, as far as the server's
    report can be believed; 0 if it cannot. ``factor`` corrects estimates from here
    on: real tokens per estimated token. ``window`` is a window that a server's refusal
    has told, 0 for none.
    """

    stop_reason: str
    model: str
    usage: Usage
    factor: float = START_FACTOR
    prompt_tokens: int = 0
    window: int = 0


@dataclass(frozen=True)
class ToolStartRecord:
    """A tool is about to act. Without a result, its outcome is unknown."""

    tool_use_id: str


@dataclass(frozen=True)
class ToolResultRecord:
    """A tool's result as the model sees it.

    ``output_file`` names the file with the whole output when ``content`` is
    capped, as the model is told it; ``seconds`` is how long the tool ran.
    """

    tool_use_id: str
    content: str
    is_error: bool
    seconds: float = 0.0
    output_file: str = ""
    media: tuple[MediaBlock, ...] = ()


@dataclass(frozen=True)
class CompactionRecord:
    """Turns were folded. The view after it is wholly described by this record.

    ``kept_from`` is the first turn that stays in the view (turns before it are
    covered by ``summary``, the text of the summary message; ``body`` is the part
    of it that a model wrote). ``replaced`` maps ids of tool calls in kept turns to
    the text that stands for their result from now on. In the newest turn, the
    first ``told_messages`` messages after the user's are replaced by the lines
    ``told``, which then stand below the user's words. Of the images and documents in
    the turns that stay, the oldest ``shed`` are replaced by a line with their address.
    ``facts`` are those of the turns that are folded or shortened, as far as they are
    known; what is not is found in the turns themselves, which takes long in a long
    session. ``window`` is a window that a server's refusal has shown, 0 for none;
    ``factor`` as in :class:`AssistantEndRecord`. Sizes are in tokens.
    """

    trigger: str
    method: str
    kept_from: int
    summary: str = ""
    body: str = ""
    replaced: Mapping[str, str] = field(default_factory=dict)
    told: tuple[str, ...] = ()
    told_messages: int = 0
    shed: int = 0
    facts: tuple[TurnFacts, ...] = ()
    address: str = ""
    folded_turns: int = 0
    tokens_before: int = 0
    tokens_after: int = 0
    seconds: float = 0.0
    usage: Usage = field(default_factory=Usage)
    factor: float = START_FACTOR
    window: int = 0


@dataclass(frozen=True)
class UncompactRecord:
    """The last compaction is taken back: its turns are in the view again."""


@dataclass(frozen=True)
class RewindRecord:
    """Back to before turn ``turn``: it and all records after it count no more."""

    turn: int


@dataclass(frozen=True)
class InterruptedRecord:
    """The running turn ended early; ``reason`` says why, for the model and for people."""

    reason: str


@dataclass(frozen=True)
class DiscardedRecord:
    """The unfinished assistant message is left out of the view; the request is sent again."""

    reason: str


@dataclass(frozen=True)
class ModelRecord:
    """From here on another model answers; ``factor`` corrects estimates for it."""

    model: str
    factor: float = START_FACTOR


@dataclass(frozen=True)
class ThinkingDroppedRecord:
    """The thinking blocks of the view are left out from here on."""

    reason: str


@dataclass(frozen=True)
class UnknownRecord:
    """A record that this version does not know: kept, and skipped by the view."""

    type: str
    data: Mapping[str, object]


Record: TypeAlias = (
    SessionRecord
    | UserRecord
    | BlockRecord
    | PartialRecord
    | AssistantEndRecord
    | ToolStartRecord
    | ToolResultRecord
    | CompactionRecord
    | UncompactRecord
    | RewindRecord
    | InterruptedRecord
    | DiscardedRecord
    | ModelRecord
    | ThinkingDroppedRecord
    | UnknownRecord
)


@dataclass(frozen=True)
class Entry:
    """A record with its place in the log."""

    seq: int
    ts: float
    record: Record


class BadLineError(ValueError):
    """A line of the log is not a whole record: torn, altered, or not ours."""


def encode(entry: Entry) -> bytes:
    """One line of the log, newline included."""
    kind, values = _to_fields(entry.record)
    payload_text = compact_json(
        {"v": VERSION, "seq": entry.seq, "ts": entry.ts, "type": kind, **values}
    )
    # Everything is scrubbed where it comes in; a record that cannot be encoded would
    # end the conversation, so it is made sure of here.
    payload = scrub(payload_text).encode("utf-8")
    crc = f'{_CRC_FIELD}{zlib.crc32(payload):08x}"}}'.encode()
    return payload[:-1] + crc + b"\n"


def decode(line: bytes) -> Entry:
    """The entry that a line (without its newline) holds.

    :raises BadLineError: the line is torn, its checksum is wrong, or it is no record.
    """
    # Lines may be long: nothing of them is copied before they are known to be whole.
    checksum = zlib.crc32(b"}", zlib.crc32(memoryview(line)[:-_CRC_LENGTH]))
    if line[-_CRC_LENGTH:] != f'{_CRC_FIELD}{checksum:08x}"}}'.encode():
        raise BadLineError("the checksum does not match")
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadLineError(f"not JSON: {error}") from error
    match data:
        case {"v": int(version), "seq": int(seq), "ts": int() | float() as ts, "type": str(kind)}:
            return Entry(seq, float(ts), _from_fields(version, kind, data))
        case _:
            raise BadLineError("not a record")


_KINDS: Mapping[str, type] = {
    "session": SessionRecord,
    "user": UserRecord,
    "block": BlockRecord,
    "partial": PartialRecord,
    "assistant_end": AssistantEndRecord,
    "tool_start": ToolStartRecord,
    "tool_result": ToolResultRecord,
    "compaction": CompactionRecord,
    "uncompact": UncompactRecord,
    "rewind": RewindRecord,
    "interrupted": InterruptedRecord,
    "discarded": DiscardedRecord,
    "model": ModelRecord,
    "thinking_dropped": ThinkingDroppedRecord,
}

_NAMES = {record_type: name for name, record_type in _KINDS.items()}

_ENVELOPE = frozenset({"v", "seq", "ts", "type", "crc"})


def _to_fields(record: Record) -> tuple[str, dict[str, object]]:
    if isinstance(record, UnknownRecord):
        return record.type, dict(record.data)
    return _NAMES[type(record)], {name: _to_json(value) for name, value in vars(record).items()}


def _to_json(value: object) -> object:
    match value:
        case Usage():
            return usage_to_wire(value)
        case ToolUseBlock(defect=str(defect)) if defect:
            return {**block_to_wire(value), "defect": defect}
        case MediaBlock(tokens=tokens, address=address):
            return {**block_to_wire(value), "tokens": tokens, "address": address}
        case TextBlock() | ThinkingBlock() | ToolUseBlock() | ToolResultBlock() | OpaqueBlock():
            return block_to_wire(value)
        case ToolSpec():
            return tool_to_wire(value)
        case TurnFacts():
            return facts_to_json(value)
        case tuple():
            return [_to_json(item) for item in value]
        case Mapping():
            return dict(value)
        case _:
            return value


def _from_fields(version: int, kind: str, data: Mapping[str, object]) -> Record:
    record_type = _KINDS.get(kind)
    if record_type is None or version != VERSION:
        values = {name: value for name, value in data.items() if name not in _ENVELOPE}
        return UnknownRecord(kind, values)
    readers = _FIELD_READERS[record_type]
    known = {name: readers[name](value) for name, value in data.items() if name in readers}
    try:
        record: Record = record_type(**known)
    except TypeError as error:
        raise BadLineError(f"a {kind} record lacks a field: {error}") from error
    return record


def _expect(*kinds: type) -> Callable[[object], Any]:
    def read(value: object) -> object:
        if not isinstance(value, kinds):
            raise BadLineError(f"{value!r:.40} where {kinds[0].__name__} belongs")
        return value

    return read


def _tools(value: object) -> tuple[ToolSpec, ...]:
    return tuple(tool_from_wire(item) for item in _expect(list)(value) if isinstance(item, dict))


def _media(value: object) -> tuple[MediaBlock, ...]:
    blocks = map(block_from_wire, _expect(list)(value))
    return tuple(block for block in blocks if isinstance(block, MediaBlock))


def _facts(value: object) -> tuple[TurnFacts, ...]:
    try:
        return tuple(map(facts_from_json, _expect(list)(value)))
    except ValueError:
        # Another version's: they are found in the turns again.
        return ()


_READERS: Mapping[str, Callable[[object], Any]] = {
    "str": _expect(str),
    "int": _expect(int),
    "float": _expect(float, int),
    "bool": _expect(bool),
    "Block": lambda value: block_from_wire(_expect(dict)(value)),
    "Usage": lambda value: usage_from_wire(_expect(dict)(value)),
    "tuple[ToolSpec, ...]": _tools,
    "tuple[MediaBlock, ...]": _media,
    "tuple[TurnFacts, ...]": _facts,
    "tuple[str, ...]": lambda value: tuple(str(item) for item in _expect(list)(value)),
    "Mapping[str, str]": _expect(dict),
}
"""How a field is read, by its annotation."""

_FIELD_READERS = {
    record_type: {item.name: _READERS[str(item.type)] for item in fields(record_type)}
    for record_type in _KINDS.values()
}
