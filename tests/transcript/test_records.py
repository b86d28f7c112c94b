from __future__ import annotations

import json
import zlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.messages import (
    OpaqueBlock,
    TextBlock,
    ThinkingBlock,
    ToolSpec,
    ToolUseBlock,
    Usage,
    user_text,
)
from agent.transcript.facts import facts_of
from agent.transcript.records import (
    AssistantEndRecord,
    BadLineError,
    BlockRecord,
    CompactionRecord,
    Entry,
    Record,
    SessionRecord,
    ToolResultRecord,
    UnknownRecord,
    UserRecord,
    decode,
    encode,
)

RECORDS: tuple[Record, ...] = (
    SessionRecord("a", "/tmp", "m", "sys", (ToolSpec("t", "does", {"type": "object"}),)),
    UserRecord(1, "line\u2028separator\x85 and \x00 and \U0001f600"),
    BlockRecord(TextBlock("héllo")),
    BlockRecord(ThinkingBlock("hm", "sig")),
    BlockRecord(ToolUseBlock("toolu_1", "shell", {"command": "ls"}, "cut off")),
    BlockRecord(OpaqueBlock({"type": "redacted_thinking", "data": "xx"})),
    AssistantEndRecord("end_turn", "m", Usage(1, 2, 3, 4), 1.5),
    ToolResultRecord("toolu_1", "out", is_error=True, seconds=0.25, output_file="a.txt"),
    CompactionRecord(
        "auto",
        "summary",
        3,
        "text",
        "body",
        replaced={"toolu_1": "[stub]"},
        told=("- a", "- b"),
        told_messages=2,
        facts=(facts_of(1, (user_text("always use port 8123"),)),),
        usage=Usage(5),
    ),
    UnknownRecord("hologram", {"depth": [1, 2, {"x": None}]}),
)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_a_record_survives_the_disk(record: Record) -> None:
    entry = Entry(7, 1_764_500_000.125, record)
    line = encode(entry)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert decode(line[:-1]) == entry


@given(st.text(max_size=200))
def test_any_text_survives_the_disk(text: str) -> None:
    entry = Entry(1, 0.0, UserRecord(1, text))
    assert decode(encode(entry)[:-1]) == entry


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_a_changed_byte_is_noticed(position: int, change: int) -> None:
    line = bytearray(encode(Entry(1, 5.0, UserRecord(1, "do not change me")))[:-1])
    line[position % len(line)] ^= change
    with pytest.raises(BadLineError):
        decode(bytes(line))


@given(st.integers(0, 200))
def test_a_truncated_line_is_noticed(length: int) -> None:
    line = encode(Entry(1, 5.0, UserRecord(1, "x" * 100)))[:-1]
    if length < len(line):
        with pytest.raises(BadLineError):
            decode(line[:length])


def test_a_newer_version_is_kept_as_unknown() -> None:
    entry = Entry(1, 5.0, UnknownRecord("user", {"turn": 1, "text": "from the future"}))
    line = encode(entry)[:-1]
    newer = encode(entry).replace(b'"v":1', b'"v":2')[:-1]
    assert decode(line).record == UserRecord(1, "from the future")
    with pytest.raises(BadLineError):
        decode(newer)


def test_facts_of_another_version_are_left_out_and_nothing_else() -> None:
    record = CompactionRecord("auto", "summary", 3, "text", facts=(facts_of(1, ()),))
    line = encode(Entry(1, 5.0, record))
    newer = line.replace(b'"facts":[[1,', b'"facts":[["a new field",1,')
    assert newer != line
    data = json.loads(newer)
    del data["crc"]
    body = json.dumps(data, separators=(",", ":")).encode()
    whole = body[:-1] + f',"crc":"{zlib.crc32(body):08x}"}}'.encode()
    assert decode(whole).record == replace(record, facts=())
