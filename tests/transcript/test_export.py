from __future__ import annotations

import json
import re
import stat
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.context.validity import history_fault
from agent.errors import SessionError
from agent.messages import OpaqueBlock, TextBlock, ThinkingBlock, ToolUseBlock, Usage
from agent.transcript.export import FORMS, export_session, json_object, markdown, web_page
from agent.transcript.log import Recovered
from agent.transcript.records import (
    AssistantEndRecord,
    BlockRecord,
    CompactionRecord,
    DiscardedRecord,
    Entry,
    InterruptedRecord,
    ModelRecord,
    PartialRecord,
    Record,
    RewindRecord,
    SessionRecord,
    ToolResultRecord,
    UncompactRecord,
    UserRecord,
    encode,
)
from agent.transcript.view import build
from agent.wire import message_to_wire
from tests.strategies import stories

MARKUP = (
    "<script>alert(1)</script>",
    "</div></section><img src=x onerror=alert(1)>",
    "<!-- hidden -->",
    '"><b onmouseover=alert(1)>',
    "' autofocus onfocus=alert(1) '",
    "&lt;b&gt; &amp;amp; &#60;i&#62; &nbsp",
    "]]><![CDATA[ x",
    "<style>*{display:none}</style>",
    "</body></html>",
    "\x1b]8;;http://evil\x07link\x00end\x85",
    "\r\ntwo\rlines\n",
)
foreign = st.one_of(st.sampled_from(MARKUP), st.text(min_size=1, max_size=40))
SLOTS = 14


def found(records: Sequence[Record], skipped: int = 0) -> Recovered:
    entries = tuple(Entry(seq, 100.0 + seq, record) for seq, record in enumerate(records, 1))
    return Recovered(entries, skipped, torn=False)


def session_of(texts: Sequence[str]) -> list[Record]:
    """A session in which every foreign text is one of these, one of each kind of record."""
    (cwd, asked, said, thought, name, call, argument, result, file, reason) = texts[:10]
    summary, data, cut, partial = texts[10:SLOTS]
    return [
        SessionRecord("s-1", cwd, "m", "system", (), parent=cwd),
        UserRecord(1, asked),
        BlockRecord(ThinkingBlock(thought, "signature")),
        BlockRecord(TextBlock(said)),
        BlockRecord(ToolUseBlock(call, name, {"key": argument})),
        AssistantEndRecord("tool_use", "m", Usage(1, 2)),
        ToolResultRecord(call, result, is_error=True, output_file=file),
        CompactionRecord("auto", "summary", 1, summary, folded_turns=1),
        BlockRecord(OpaqueBlock({"type": "other", "data": data})),
        PartialRecord(cut),
        DiscardedRecord(reason),
        RewindRecord(1),
        UserRecord(2, asked),
        PartialRecord(partial),
    ]


class Page(HTMLParser):
    """What a browser makes of a page: its tags in order, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, object]] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append((tag, attrs))

    def handle_endtag(self, tag: str) -> None:
        self.tags.append((f"/{tag}", None))

    def handle_comment(self, data: str) -> None:
        self.tags.append(("comment", data))

    def handle_data(self, data: str) -> None:
        self.text += data


@given(st.lists(foreign, min_size=SLOTS, max_size=SLOTS))
def test_a_page_holds_every_word_and_lets_no_markup_through(texts: list[str]) -> None:
    page = Page(web_page("s-1", found(session_of(texts))))
    for text in texts:
        for word in re.findall(r"\w+", text):
            assert word in page.text, (word, text)
    assert page.tags == Page(web_page("s-1", found(session_of(["x"] * SLOTS)))).tags
    assert not {tag for tag, _ in page.tags} & {"script", "img", "link", "iframe", "a"}
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", page.text)


@pytest.mark.parametrize("text", MARKUP)
def test_what_was_said_stands_in_the_page_letter_by_letter(text: str) -> None:
    page = Page(web_page("s-1", found([UserRecord(1, text), BlockRecord(TextBlock(text))])))
    shown = re.sub(r"\r\n", "\n", text)
    shown = re.sub(r"[\x00-\x08\x0b-\x1f]", lambda c: chr(0x2400 + ord(c[0])), shown)
    assert page.text.count(shown.replace("\x85", "\ufffd")) == 2


def test_a_page_loads_nothing() -> None:
    page = web_page("s-1", found(session_of(["http://x.example/a.js"] * SLOTS)))
    assert "default-src 'none'" in page
    assert "color-scheme: light dark" in page
    assert not re.search(r"(src|href)\s*=", page.replace("default-src", ""))
    assert not re.search(r"url\(|@import", page)


@given(stories())
def test_the_json_form_is_a_valid_conversation_with_nothing_folded(records: list[Record]) -> None:
    whole = json.loads(json_object("s-1", found(records)))
    typed = [record for record in records if isinstance(record, UserRecord)]
    assert [turn["number"] for turn in whole["turns"]] == [record.turn for record in typed]
    assert [turn["messages"][0]["content"][0]["text"] for turn in whole["turns"]] == [
        record.text for record in typed
    ]
    counting = [turn for turn in whole["turns"] if not turn["rewound"]]
    view = build(records)
    assert [turn["number"] for turn in counting] == [
        *(facts.number for facts in view.past),
        *(turn.number for turn in view.turns),
    ]
    for turn in whole["turns"]:
        assert list(roles(turn["messages"]))[:1] == ["user"]
    finished = [r for r in records if isinstance(r, AssistantEndRecord)]
    assert whole["usage"]["output_tokens"] == sum(r.usage.output_tokens for r in finished)


LOSSY = CompactionRecord | UncompactRecord | ModelRecord


def roles(messages: Sequence[dict[str, object]]) -> Iterator[object]:
    return (message["role"] for message in messages)


def test_folded_dropped_and_undone_parts_are_in_the_json_form() -> None:
    records: list[Record] = [
        SessionRecord("s-1", "/w", "m-1", "Be brief.", (), parent="s-0"),
        UserRecord(1, "first"),
        BlockRecord(ThinkingBlock("hm", "signature")),
        BlockRecord(TextBlock("one")),
        AssistantEndRecord("end_turn", "m-1", Usage(10, 1)),
        ModelRecord("m-2"),
        UserRecord(2, "second"),
        BlockRecord(ToolUseBlock("t", "shell", {"command": "ls"})),
        AssistantEndRecord("tool_use", "m-1", Usage(20, 2)),
        CompactionRecord(
            "auto", "summary", 2, "told", folded_turns=1, tokens_before=9, usage=Usage(5, 5)
        ),
        InterruptedRecord("by the user"),
        UncompactRecord(),
    ]
    whole = json.loads(json_object("s-1", found(records, skipped=3)))
    assert (whole["format"], whole["version"]) == ("agent-chat-session", 1)
    facts = whole["session"]
    assert (facts["parent"], facts["folder"], facts["system"]) == ("s-0", "/w", "Be brief.")
    assert facts["model"] == "m-2"
    assert (facts["started"], facts["ended"], facts["damaged_lines"]) == (101.0, 112.0, 3)
    first, second = whole["turns"]
    assert [block["type"] for block in first["messages"][1]["content"]] == ["thinking", "text"]
    assert first["usage"]["input_tokens"] == 10
    assert " ".join(map(str, roles(second["messages"]))) == "user assistant user assistant"
    (compaction,) = whole["compactions"]
    assert (compaction["turn"], compaction["undone"], compaction["summary"]) == (2, True, "told")
    assert whole["usage"]["output_tokens"] == 8
    unfolded = build(r for r in records if not isinstance(r, LOSSY))
    messages = [message for turn in whole["turns"] for message in turn["messages"]]
    assert messages == [message_to_wire(message) for message in unfolded.messages]
    assert history_fault(unfolded.messages) == ""


def test_the_markdown_form_ends_with_what_was_still_coming() -> None:
    text = markdown("s-1", found([UserRecord(1, "tell me"), PartialRecord("Once upon")]))
    assert text.startswith("## Turn 1 · user")
    assert text.endswith("assistant, unfinished\n\nOnce upon\n\n")


def write(folder: Path, records: Sequence[Record]) -> None:
    (folder / "s-1.jsonl").write_bytes(b"".join(map(encode, found(records).entries)))


@pytest.mark.parametrize("suffix", [*FORMS, ".HTML"])
def test_files_are_private_and_never_overwritten(tmp_path: Path, suffix: str) -> None:
    write(tmp_path, [UserRecord(1, "hello there")])
    target = tmp_path / f"out{suffix}"
    assert export_session(tmp_path, "s-1", target) == 0
    assert "hello there" in target.read_text(encoding="utf-8")
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    with pytest.raises(SessionError, match="exists"):
        export_session(tmp_path, "s-1", target)


def test_bad_targets_are_refused(tmp_path: Path) -> None:
    write(tmp_path, [UserRecord(1, "hello there")])
    for name in ("out.txt", "out", ".md", "out.md.gz"):
        with pytest.raises(SessionError, match=r"must end in one of \.md, \.html, \.json"):
            export_session(tmp_path, "s-1", tmp_path / name)
    (tmp_path / "link.md").symlink_to(tmp_path / "elsewhere.md")
    with pytest.raises(SessionError, match="exists"):
        export_session(tmp_path, "s-1", tmp_path / "link.md")
    with pytest.raises(SessionError, match="cannot write"):
        export_session(tmp_path, "s-1", tmp_path / "missing" / "out.md")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.md", "s-1.jsonl"]


def test_damage_is_counted_and_the_rest_is_there(tmp_path: Path) -> None:
    write(tmp_path, [UserRecord(1, "hello there"), UserRecord(2, "and again")])
    log = tmp_path / "s-1.jsonl"
    log.write_bytes(b"\0\0\0\n" + log.read_bytes().replace(b"hello", b"hullo"))
    for suffix in FORMS:
        assert export_session(tmp_path, "s-1", tmp_path / f"out{suffix}") == 2
        assert "and again" in (tmp_path / f"out{suffix}").read_text(encoding="utf-8")
