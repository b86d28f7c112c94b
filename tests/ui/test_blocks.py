from __future__ import annotations

import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent.ui.blocks import BlockScanner, CodeClosed, CodeLine, CodeOpened, Piece, Prose, parser
from tests.ui.documents import documents


def scan(pieces: list[str]) -> list[Piece]:
    scanner = BlockScanner()
    found = [piece for text in pieces for piece in scanner.feed(text)]
    return [*found, *scanner.finish()]


def finished_after(text: str) -> list[Piece]:
    """What is finished after this text, while more may come."""
    return list(BlockScanner().feed(text))


def test_blocks_of_a_document() -> None:
    assert scan(
        ["# T\ntext\nmore\n\n- a\n- b\n\n  c\n1. x\n```python\nx = 1\n\n```\n> q\n\nend"]
    ) == [
        Prose("# T"),
        Prose("text\nmore"),
        Prose("- a\n- b\n\n  c"),
        Prose("1. x"),
        CodeOpened("python"),
        CodeLine("x = 1"),
        CodeLine(""),
        CodeClosed(),
        Prose("> q"),
        Prose("end"),
    ]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("text\n", 0),
        ("text\n\n", 1),
        ("# head\n", 1),
        ("text\n---\n", 1),
        ("- item\n\n", 0),
        ("- item\n\ntext\n", 1),
        ("| a |\n|---|\n| 1 |\n", 0),
        ("| a |\n|---|\n| 1 |\n\n", 1),
        ("- item\n  ```\n  code\n\n  ```\n", 0),
        ("> quote\n> ```\n> code\n\n", 1),
        ("    indented\n\n", 0),
        ("***\n", 1),
    ],
)
def test_a_block_is_finished_as_soon_as_it_cannot_change(text: str, count: int) -> None:
    assert len(finished_after(text)) == count


@pytest.mark.parametrize(
    ("fence", "inside"),
    [
        ("```", ["``", "~~~", " x"]),
        ("````md", ["```", "```py"]),
        ("~~~", ["```", "~~"]),
        ("  ```", ["x"]),
    ],
)
def test_only_the_same_fence_closes_code(fence: str, inside: list[str]) -> None:
    marker = fence.strip().rstrip("md")
    pieces = scan(["\n".join([fence, *inside, marker, "after"])])
    assert [piece.text for piece in pieces if isinstance(piece, CodeLine)] == inside
    assert pieces[-2:] == [CodeClosed(), Prose("after")]


def test_code_of_an_indented_fence_loses_only_that_indentation() -> None:
    pieces = scan(["  ```\n  a\n      b\nc\n  ```\n"])
    assert [piece.text for piece in pieces if isinstance(piece, CodeLine)] == ["a", "    b", "c"]


def test_an_open_fence_ends_with_the_text() -> None:
    assert scan(["```\ncode"]) == [CodeOpened(""), CodeLine("code"), CodeClosed()]


def test_the_beginning_of_a_fence_is_not_shown_as_text() -> None:
    scanner = BlockScanner()
    assert list(scanner.feed("text\n``")) == []
    assert scanner.pending == "text"
    assert list(scanner.feed("`py")) == []
    assert scanner.pending == "text"


def test_link_definitions_are_kept() -> None:
    assert scan(["see [a][1]\n\n[1]: http://x\n\nend\n"])[1] == Prose("[1]: http://x")


@given(documents, st.lists(st.integers(1, 40), min_size=1))
@settings(max_examples=60, deadline=None)
def test_where_the_text_is_split_makes_no_difference(text: str, sizes: list[int]) -> None:
    pieces: list[str] = []
    start = 0
    while start < len(text):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(text[start : start + size])
        start += size
    assert scan(pieces) == scan([text])


@given(documents)
@settings(max_examples=60, deadline=None)
def test_blocks_are_those_of_a_parser_that_sees_all(text: str) -> None:
    expected = [
        token.type
        for token in parser().parse(text)
        if token.level == 0 and token.nesting >= 0 and token.map is not None
    ]
    found: list[str] = []
    for piece in scan([text]):
        match piece:
            case Prose(source):
                tokens = parser().parse(source)
                found += [t.type for t in tokens if t.level == 0 and t.nesting >= 0]
            case CodeOpened():
                found.append("fence")
            case _:
                continue
    assert found == expected


@given(documents)
@example("[ref]: http://example.com\n```\ncode\n\nmore\n```")
@settings(max_examples=60, deadline=None)
def test_no_line_is_lost(text: str) -> None:
    got: list[str] = []
    for piece in scan([text]):
        if isinstance(piece, Prose | CodeLine):
            got += piece.text.split("\n")
    kept = [line.strip() for line in got if line.strip()]
    wanted = [line.strip() for line in text.split("\n") if line.strip()]
    fences = [line for line in wanted if line.startswith(("```", "~~~"))]
    assert [line for line in wanted if line not in fences] == [
        line for line in kept if line not in fences
    ]


@pytest.mark.parametrize("line", ['"speech', "- item", "> quote", "| cell |", "    code"])
def test_the_cost_of_a_line_does_not_grow_with_its_block(line: str) -> None:
    scanner = BlockScanner()
    started = time.process_time()
    for number in range(4000):
        assert list(scanner.feed(f"{line} {number}\n")) == []
    # Parsing the whole block at every line takes more than a minute.
    assert time.process_time() - started < 6
    assert len(list(scanner.finish())) == 1
