from __future__ import annotations

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from rich.segment import Segment

from agent.ui.live import Line, LiveRegion, reflows
from tests.ui.screens import FORBIDDEN, Screen, console, shown, without_blank_end

COLUMNS, ROWS = 20, 8

texts = st.text("ab 日", max_size=30).map(str.rstrip)
frames = st.tuples(st.sampled_from(["draw", "commit"]), st.lists(texts, max_size=12))


def as_lines(rows: list[str]) -> list[Line]:
    return [[Segment(row)] if row else [] for row in rows]


def wrapped(text: str) -> list[str]:
    """A final line as a terminal breaks it: a wide character never straddles the edge."""
    screen = Screen(COLUMNS, 50)
    screen.feed(text + "\n")
    return screen.lines or [""]


def cropped(text: str) -> str:
    """A line of the region: at most the columns but one."""
    width = 0
    kept = ""
    for character in text:
        width += 2 if character == "日" else 1
        if width > COLUMNS - 1:
            break
        kept += character
    return kept.rstrip()


@given(st.lists(frames, max_size=10))
@settings(max_examples=80, deadline=None)
def test_the_screen_shows_what_was_committed_and_the_last_drawing(
    steps: list[tuple[str, list[str]]],
) -> None:
    made, file = console(COLUMNS, ROWS)
    region = LiveRegion(made)
    final: list[str] = []
    drawn: list[str] = []
    for kind, rows in steps:
        if kind == "draw":
            region.draw(as_lines(rows))
            drawn = [cropped(row) for row in rows[-(ROWS - 2) :]]
        else:
            region.commit(as_lines(rows))
            final += [part for row in rows for part in wrapped(row)]
            drawn = []
    written = file.getvalue()
    assert shown(written, COLUMNS, ROWS) == without_blank_end([*final, *drawn])
    assert not [code for code in FORBIDDEN if code in written]


def test_unchanged_rows_are_not_written_again() -> None:
    made, file = console(COLUMNS, ROWS)
    region = LiveRegion(made)
    region.draw(as_lines(["first", "second"]))
    region.draw(as_lines(["first", "second", "third"]))
    region.commit(as_lines(["first", "second", "third"]))
    assert file.getvalue().count("first") == 1
    assert file.getvalue().count("second") == 1
    assert file.getvalue().count("third") == 1


def test_a_narrower_screen_never_touches_what_is_above() -> None:
    made, file = console(40, ROWS)
    region = LiveRegion(made, reflowing=False)
    screen = Screen(40, ROWS)
    region.commit(as_lines(["above"]))
    region.draw(as_lines(["x" * 30, "y" * 30]))
    screen.feed(file.getvalue())
    before = len(file.getvalue())
    made.width = 25
    screen.screen.resize(ROWS, 25)
    region.draw(as_lines(["x" * 24, "x" * 6, "y" * 24, "y" * 6]))
    screen.feed(file.getvalue()[before:])
    assert screen.lines[0] == "above"
    assert screen.lines[1:] == ["x" * 24, "x" * 6, "y" * 24, "y" * 6]


@pytest.mark.parametrize(("variable", "value"), [("TERM", "dumb"), ("NO_COLOR", "1")])
def test_plain_terminals_are_never_redrawn(variable: str, value: str) -> None:
    file = io.StringIO()
    plain = Console(file=file, force_terminal=True, width=40, _environ={variable: value})
    region = LiveRegion(plain)
    region.draw(as_lines(["drawn"]))
    region.erase()
    region.commit(as_lines(["final"]))
    assert not region.live
    assert file.getvalue() == "final\n"


def test_a_narrower_terminal_that_reflows_is_cleared_to_where_the_region_began() -> None:
    made, file = console(40, ROWS)
    region = LiveRegion(made, reflowing=True)
    region.commit(as_lines(["above"]))
    region.draw(as_lines(["x" * 30, "y" * 30]))
    # What such a terminal makes of it at 25 columns, the cursor behind the last letter.
    screen = Screen(25, ROWS)
    screen.feed("\n".join(["above", "x" * 25, "x" * 5, "y" * 25, "y" * 5]))
    before = len(file.getvalue())
    made.width = 25
    region.draw(as_lines(["new"]))
    screen.feed(file.getvalue()[before:])
    assert screen.lines == ["above", "new"]


@pytest.mark.parametrize(
    ("environ", "expected"),
    [({}, False), ({"TERM": "xterm", "XTERM_VERSION": "1"}, False), ({"TMUX": "/x"}, True)],
)
def test_terminals_that_reflow_are_known_by_their_variables(
    environ: dict[str, str], expected: bool
) -> None:
    assert reflows(environ) == expected
