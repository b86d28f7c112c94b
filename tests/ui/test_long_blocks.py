from __future__ import annotations

import io
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from agent.ui.blocks import BlockScanner, Prose
from agent.ui.live import LiveRegion
from agent.ui.markdown import MarkdownStream

BLOCKS = {
    "paragraph": "all of it is one paragraph, ",
    "list": "- an item of a long list\n  - and one below it\n",
    "table": "| a | row | of a long table |\n",
    "line of code": "0, ",
}
OPENINGS = {"table": "| a | b | c |\n|---|---|---|\n", "line of code": "```\n"}
SHORT, LONG = 150, 450
"""Pieces."""


def cost(kind: str, pieces: int) -> tuple[float, float]:
    """Function calls, and bytes written, for each piece of a block that is redrawn each time."""
    file, seconds, calls = io.StringIO(), 0.0, 0
    console = Console(file=file, force_terminal=True, width=40, height=10, _environ={})
    stream = MarkdownStream(LiveRegion(console), clock=lambda: seconds)
    stream.feed(OPENINGS.get(kind, "") + BLOCKS[kind])
    stream.tick()

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    before, start = sys.getprofile(), len(file.getvalue())
    sys.setprofile(note)
    try:
        for _ in range(pieces):
            seconds += 0.01
            stream.feed(BLOCKS[kind])
        stream.close()
    finally:
        sys.setprofile(before)
    return calls / pieces, (len(file.getvalue()) - start) / pieces


@pytest.mark.parametrize("kind", BLOCKS)
def test_a_piece_of_a_long_block_costs_what_one_of_a_short_block_does(kind: str) -> None:
    (calls, written), (more_calls, more_written) = cost(kind, SHORT), cost(kind, LONG)
    assert more_calls < 1.3 * calls
    assert more_written < 1.3 * written


@given(
    st.lists(st.text("ab \n-|", max_size=12), max_size=60),
    st.integers(1, 40),
)
def test_the_end_of_what_is_pending_is_as_long_as_wanted(pieces: list[str], wanted: int) -> None:
    scanner = BlockScanner()
    for piece in pieces:
        scanner.feed(piece)
        shown, whole = scanner.end_of_pending(wanted), scanner.pending
        end = shown if whole.endswith(shown) else shown.split("\n", 2)[2]
        assert whole.endswith(end)
        assert len(end) >= min(wanted, len(whole))


def test_the_end_of_a_table_keeps_its_headings_and_begins_with_a_row() -> None:
    scanner = BlockScanner()
    scanner.feed("| a | b |\n|---|---|\n" + "".join(f"| {n} | x |\n" for n in range(100)))
    lines = scanner.end_of_pending(100).splitlines()
    assert lines[:2] == ["| a | b |", "|---|---|"]
    assert all(line.endswith(" | x |") for line in lines[2:])
    assert lines[-1] == "| 99 | x |"


def test_the_end_begins_at_the_same_place_until_it_is_too_long() -> None:
    scanner = BlockScanner()
    starts = set()
    for _ in range(200):
        scanner.feed("some words ")
        starts.add(len(scanner.pending) - len(scanner.end_of_pending(100)))
    assert len(starts) < 200 * 11 / 100 + 2


@given(st.lists(st.sampled_from([*BLOCKS.values(), "\n\n", "# title\n", "text\n"]), max_size=400))
def test_what_a_long_block_is_cut_into_is_what_the_whole_text_is(pieces: list[str]) -> None:
    scanner, found = BlockScanner(), list[object]()
    for piece in pieces:
        scanner.feed(piece)
        found += scanner.take()
    found += scanner.take(final=True)
    whole = BlockScanner()
    whole.feed("".join(pieces))
    assert found == list(whole.take(final=True))
    assert all(isinstance(piece, Prose) for piece in found)
