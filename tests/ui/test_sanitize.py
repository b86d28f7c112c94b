from __future__ import annotations

import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.ui.sanitize import MAX_STRING, StreamSanitizer, reveal, sanitize
from tests.ui.screens import CSI, SEQUENCES, STRINGS

CONTROLS = {chr(code) for code in (*range(0x20), *range(0x7F, 0xA0))} - {"\n", "\t"}

nasty_text = st.lists(
    st.one_of(st.sampled_from(SEQUENCES), st.text(max_size=4), st.sampled_from("\x1b]\\[;m\r\n"))
).map("".join)


def streamed(pieces: list[str]) -> str:
    sanitizer = StreamSanitizer()
    return "".join([*(sanitizer.feed(piece) for piece in pieces), sanitizer.close()])


def test_there_are_sixty_sequences() -> None:
    assert len(set(SEQUENCES)) >= 60


@pytest.mark.parametrize("sequence", [*CSI, *STRINGS])
def test_a_whole_sequence_leaves_nothing(sequence: str) -> None:
    assert sanitize(f"a{sequence}b") == "ab"


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_split_anywhere_nothing_reaches_the_terminal(sequence: str) -> None:
    text = f"before{sequence}after"
    expected = sanitize(text)
    assert not set(expected) & CONTROLS
    assert expected.startswith("before")
    assert "after" in expected or sequence.endswith(("\x1b", "[31", "\x9b"))
    for split in range(len(text) + 1):
        assert streamed([text[:split], text[split:]]) == expected
    assert streamed(list(text)) == expected


@given(nasty_text, st.lists(st.integers(0, 200)))
def test_pieces_give_what_the_whole_gives(text: str, cuts: list[int]) -> None:
    edges = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    pieces = [text[a:b] for a, b in pairwise(edges)]
    assert streamed(pieces) == sanitize(text)


@given(nasty_text)
def test_the_result_is_safe_and_stable(text: str) -> None:
    clean = sanitize(text)
    assert not set(clean) & CONTROLS
    clean.encode("utf-8")
    assert sanitize(clean) == clean


@given(
    st.text(st.characters(exclude_categories=["Cc", "Cf", "Cs"]) | st.sampled_from("\u200d\u200f"))
)
def test_ordinary_text_is_untouched(text: str) -> None:
    assert sanitize(text) == text
    assert StreamSanitizer().feed(text) == text


def test_line_ends_and_tabs_stay() -> None:
    assert sanitize("a\r\nb\rc\n\td") == "a\nb\nc\n\td"


def test_lone_surrogates_are_replaced() -> None:
    assert sanitize("a\ud83db\udc00") == "a\ufffdb\ufffd"


def test_a_stream_holds_back_only_so_much() -> None:
    sanitizer = StreamSanitizer()
    assert sanitizer.feed("\x1b]52;c;") == ""
    out = sanitizer.feed("A" * (2 * MAX_STRING))
    assert len(out) >= 2 * MAX_STRING
    assert "\x1b" not in out
    assert sanitizer.feed("ordinary") == "ordinary"


@given(st.text())
def test_reveal_loses_nothing_and_leaves_nothing_hidden(text: str) -> None:
    shown = reveal(text)
    hidden = {"Cc", "Cs", "Zl", "Zp"}
    assert not [c for c in shown if unicodedata.category(c) in hidden and c not in "\n\t"]
    for character in text:
        if character.isalnum() and unicodedata.category(character) != "Lo":
            assert shown.count(character) >= text.count(character)
    assert "\n" not in reveal(text, one_line=True)


@pytest.mark.parametrize(
    "character",
    [
        *"\u202a\u202e\u2066\u2069\u200e\u200f\u061c\u200b\u200d\ufeff\u2060\xad\x1b\x07\x85",
        *["\ufe0f", "\u3164", "\U000e0041", "\ud800", "\xa0", "\u2028"],
    ],
)
def test_reveal_writes_hidden_characters_as_escapes(character: str) -> None:
    code = ord(character)
    width = 2 if code < 0x100 else 4 if code < 0x10000 else 8
    letter = {2: "x", 4: "u", 8: "U"}[width]
    assert reveal(f"a{character}b") == f"a\\{letter}{code:0{width}x}b"


def test_reveal_knows_every_format_character_but_the_visible_ones() -> None:
    visible = {0x6DD, 0x70F, 0x8E2, 0x890, 0x891, 0x110BD, 0x110CD}
    visible |= {*range(0x600, 0x606), *range(0x13430, 0x13456)}
    for code in range(0x110000):
        if unicodedata.category(chr(code)) == "Cf" and code not in visible:
            assert reveal(chr(code)).startswith("\\"), hex(code)


def test_reveal_keeps_readable_text() -> None:
    text = "grep -n 'Größe' 日本語.txt | head\n\t# ok"
    assert reveal(text) == text
    assert reveal("a\nb\tc", one_line=True) == "a\\nb\\tc"
