from __future__ import annotations

import pytest

from agent.events import ContextSize
from agent.ui import figures


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1_000, "1.0k"),
        (12_345, "12.3k"),
        (99_949, "99.9k"),
        (99_950, "100k"),
        (140_000, "140k"),
        (999_499, "999k"),
        (999_500, "1.0M"),
        (1_234_567, "1.2M"),
    ],
)
def test_tokens(number: int, text: str) -> None:
    assert figures.tokens(number) == text


@pytest.mark.parametrize(
    ("duration", "text"),
    [(0, "0.0 s"), (3.44, "3.4 s"), (9.96, "10 s"), (59.4, "59 s"), (59.6, "1 min 0 s")],
)
def test_seconds(duration: float, text: str) -> None:
    assert figures.seconds(duration) == text


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 B"), (999, "999 B"), (1_200, "1.2 kB"), (3_400_000, "3.4 MB")]
)
def test_size(number: int, text: str) -> None:
    assert figures.size(number) == text


@pytest.mark.parametrize(
    ("duration", "text"),
    [(5, "just now"), (300, "5 min"), (3 * 3600, "3 h"), (12 * 86_400, "12 d")],
)
def test_age(duration: float, text: str) -> None:
    assert figures.age(duration) == text


def test_an_estimate_is_marked_and_a_full_context_is_coloured() -> None:
    def at(tokens: int, *, exact: bool) -> ContextSize:
        return ContextSize(tokens, 100, 200, exact)

    assert figures.share(at(27, exact=True)) == "27%"
    assert figures.share(at(27, exact=False)) == "~27%"
    styles = [figures.share_style(at(tokens, exact=True)) for tokens in (69, 70, 90)]
    assert styles == ["", "yellow", "red"]
    assert figures.share(ContextSize(5, 0, 0, exact=True)) == "0%"


def test_one_line_is_one_harmless_line() -> None:
    assert figures.one_line("a\n b\x1b[2J\tc\r\nd") == "a b c d"
    assert figures.one_line("x" * 300, 10) == "x" * 9 + "…"
    assert figures.count(1, "turn") == "1 turn"
    assert figures.count(1_200, "turn") == "1,200 turns"
