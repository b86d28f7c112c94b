from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from rich.segment import Segment

from agent.ui.code import CONTEXT_LINES, MAX_LINE, PLAIN, Highlighter


def coloured(code: list[str], language: str) -> list[list[Segment]]:
    return Highlighter(Console(), language).lines(code)


@given(
    st.text(
        st.characters(exclude_categories=["Cc", "Cs"], include_characters="\t\n"), max_size=200
    ),
    st.sampled_from(["python", "sh", "html", "json", "yaml", "diff", "c", "nonsense", ""]),
)
@settings(deadline=None)
def test_every_character_is_kept(code: str, language: str) -> None:
    lines = coloured(code.split("\n"), language)
    assert ["".join(segment.text for segment in line) for line in lines] == code.split("\n")


def test_a_string_keeps_its_colour_over_lines() -> None:
    highlighter = Highlighter(Console(), "python")
    texts = ['x = """first', "", "second = 1", '"""', "y = 1"]
    lines = [line for text in texts for line in highlighter.lines([text])]
    assert lines == coloured(texts, "python")
    colours = [[segment.style for segment in line] for line in lines]
    assert colours[2] == [colours[0][-1]]
    assert colours[4][-1] != colours[0][-1]


@pytest.mark.parametrize("language", ["", "text", "no-such-language"])
def test_unknown_code_has_one_colour(language: str) -> None:
    (line,) = coloured(["def f(): pass"], language)
    assert [(segment.text, segment.style) for segment in line] == [("def f(): pass", PLAIN)]


def test_very_long_lines_cost_nothing() -> None:
    started = time.process_time()
    lines = coloured(["(" * 100 * MAX_LINE, "x = 1"], "python")
    assert time.process_time() - started < 0.5
    assert [len("".join(s.text for s in line)) for line in lines] == [100 * MAX_LINE, 5]


def test_the_cost_of_a_line_does_not_grow_with_the_code() -> None:
    highlighter = Highlighter(Console(), "python")

    def seconds() -> float:
        started = time.process_time()
        for number in range(20):
            highlighter.lines([f"x = f({number}, 'a')  # comment"])
        return time.process_time() - started

    highlighter.lines(["y = 1"] * CONTEXT_LINES)
    first = seconds()
    highlighter.lines(["y = 1"] * 2_000)
    assert seconds() < 3 * first + 0.05
