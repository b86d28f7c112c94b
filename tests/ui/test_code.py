from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.ui.code import MAX_LINE, PLAIN, Highlighter, highlight


def plain(code: str, language: str) -> list[str]:
    return ["".join(segment.text for segment in line) for line in highlight(code, language)]


@given(
    st.text(
        st.characters(exclude_categories=["Cc", "Cs"], include_characters="\t\n"), max_size=200
    ),
    st.sampled_from(["python", "sh", "html", "json", "yaml", "diff", "c", "nonsense", ""]),
)
@settings(deadline=None)
def test_every_character_is_kept(code: str, language: str) -> None:
    assert plain(code, language) == code.split("\n")


def test_a_string_keeps_its_colour_over_lines() -> None:
    highlighter = Highlighter("python")
    lines = ['x = """first', "", "second = 1", '"""', "y = 1"]
    colours = [[segment.style for segment in highlighter.line(line)] for line in lines]
    assert colours[2] == [colours[0][-1]]
    assert colours[4][-1] != colours[0][-1]


@pytest.mark.parametrize("language", ["", "text", "no-such-language"])
def test_unknown_code_has_one_colour(language: str) -> None:
    line = Highlighter(language).line("def f(): pass")
    assert [(segment.text, segment.style) for segment in line] == [("def f(): pass", PLAIN)]


def test_very_long_lines_cost_nothing() -> None:
    started = time.process_time()
    Highlighter("python").line("(" * 100 * MAX_LINE)
    assert time.process_time() - started < 0.5
