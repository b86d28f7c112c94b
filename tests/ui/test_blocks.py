from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent.ui.blocks import BlockScanner, CodeClosed, CodeLines, CodeOpened, Piece, Prose, parser
from tests.ui.documents import documents


def scan(pieces: list[str]) -> list[Piece]:
    scanner = BlockScanner()
    found: list[Piece] = []
    for text in pieces:
        scanner.feed(text)
        found += scanner.take()
    return [*found, *scanner.take(final=True)]


def finished_after(text: str) -> list[Piece]:
    """What is finished after this text, while more may come."""
    scanner = BlockScanner()
    scanner.feed(text)
    return list(scanner.take())


def code_lines(pieces: list[Piece]) -> list[str]:
    return [line for piece in pieces if isinstance(piece, CodeLines) for line in piece.lines]


def test_blocks_of_a_document() -> None:
    assert scan(
        ["# T\ntext\nmore\n\n- a\n- b\n\n  c\n1. x\n```python\nx = 1\n\n```\n> q\n\nend"]
    ) == [
        Prose("# T"),
        Prose("text\nmore"),
        Prose("- a\n- b\n\n  c"),
        Prose("1. x"),
        CodeOpened("python"),
        CodeLines(("x = 1", "")),
        CodeClosed(),
        Prose("> q"),
        Prose("end"),
    ]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("text\n", 0),
        ("text\n\nmore\n", 1),
        ("# head\ntext\n\n- item\n", 2),
        ("text\n---\n", 0),
        ("- item\n\n", 0),
        ("- item\n\ntext\n", 1),
        ("| a |\n|---|\n| 1 |\n", 0),
        ("| a |\n|---|\n| 1 |\n\ntext\n", 1),
        ("- item\n  ```\n  code\n\n  ```\n", 0),
        ("> quote\n> ```\n> code\n\ntext\n", 1),
        ("    indented\n\n", 0),
        ("***\ntext\n", 1),
        ("text\n```\n", 2),
        ("```\na\nb\nc", 2),
    ],
)
def test_a_block_is_finished_once_another_begins(text: str, count: int) -> None:
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
    assert code_lines(pieces) == inside
    assert pieces[-2:] == [CodeClosed(), Prose("after")]


def test_code_of_an_indented_fence_loses_only_that_indentation() -> None:
    pieces = scan(["  ```\n  a\n      b\nc\n  ```\n"])
    assert code_lines(pieces) == ["a", "    b", "c"]


def test_an_open_fence_ends_with_the_text() -> None:
    assert scan(["```\ncode"]) == [CodeOpened(""), CodeLines(("code",)), CodeClosed()]


def test_the_beginning_of_a_fence_is_not_shown_as_text() -> None:
    scanner = BlockScanner()
    for piece in ("text\n``", "`py"):
        scanner.feed(piece)
        assert list(scanner.take()) == []
        assert scanner.pending == "text"


def test_link_definitions_are_kept() -> None:
    assert scan(["see [a][1]\n\n[1]: http://x\n\nend\n"])[1] == Prose("[1]: http://x")


def joined(pieces: list[Piece]) -> list[Piece | str]:
    """The pieces with the lines of code one by one."""
    lines: list[Piece | str] = []
    for piece in pieces:
        lines += piece.lines if isinstance(piece, CodeLines) else [piece]
    return lines


@given(documents, st.lists(st.integers(1, 40), min_size=1))
@settings(max_examples=60, deadline=None)
def test_where_the_text_is_split_makes_no_difference(text: str, sizes: list[int]) -> None:
    pieces: list[str] = []
    start = 0
    while start < len(text):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(text[start : start + size])
        start += size
    assert joined(scan(pieces)) == joined(scan([text]))


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
        if isinstance(piece, Prose):
            got += piece.text.split("\n")
        elif isinstance(piece, CodeLines):
            got += piece.lines
    kept = [line.strip() for line in got if line.strip()]
    wanted = [line.strip() for line in text.split("\n") if line.strip()]
    fences = [line for line in wanted if line.startswith(("```", "~~~"))]
    assert [line for line in wanted if line not in fences] == [
        line for line in kept if line not in fences
    ]
