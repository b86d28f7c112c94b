"""The status line: what it says, and where it stands."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agent.ui.status import Status, status_line
from tests.ui.scripted import SIZE
from tests.ui.terminal import chat

STATUS = Status("model-1", 140_000, SIZE, 0.0123, "ask", sandboxed=False, folder="~/project")


def told(status: Status, width: int = 100) -> str:
    return "".join(fragment[1] for fragment in status_line(status, width))


def style_of(status: Status, text: str) -> str:
    return next(str(part[0]) for part in status_line(status, 100) if text in part[1])


def test_it_says_what_matters() -> None:
    assert told(STATUS) == "model-1 · 38.2k / 140k · 27% · $0.0123 · ask · ~/project"
    unknown = replace(STATUS, context=None, cost=None)
    assert told(unknown) == "model-1 · … / 140k · ask · ~/project"
    assert "~27%" in told(replace(STATUS, context=replace(SIZE, exact=False)))


def test_a_narrow_screen_drops_parts_from_the_right() -> None:
    whole = told(STATUS)
    for width in range(7, 100):
        line = told(STATUS, width)
        assert whole.startswith(line)
        assert len(line) <= width
        assert whole == line or whole[len(line) :].startswith(" · ")
    assert told(replace(STATUS, model="日本語" * 30), 20)


@pytest.mark.parametrize(
    ("tokens", "style"),
    [(97_999, ""), (98_000, "class:status.yellow"), (126_000, "class:status.red")],
)
def test_the_figure_is_coloured_from_70_percent(tokens: int, style: str) -> None:
    assert style_of(replace(STATUS, context=replace(SIZE, tokens=tokens)), "/ 140k") == style


def test_yolo_is_red() -> None:
    assert style_of(replace(STATUS, approval_mode="yolo"), "yolo") == "class:status.red"
    assert style_of(STATUS, "ask") == ""


def test_the_sandbox_is_named_where_there_is_one() -> None:
    assert "ask (sandbox)" in told(replace(STATUS, sandboxed=True))
    assert "sandbox" not in told(STATUS)


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (120, 40)])
def test_it_stands_right_under_the_box_and_leaves_no_trace(
    tmp_path: Path, columns: int, lines: int
) -> None:
    with chat(tmp_path, columns=columns, lines=lines) as running:
        running.wait_for_prompt()
        running.wait_until(lambda: "3.1k / 140k · ~2%" in running.status, "the measured size")
        assert running.cursor_row == len(running.lines) - 1
        running.type("one\x1b\rtwo")
        running.wait_for("  two")
        assert running.status.startswith("scripted-1 · 3.1k / 140k")
        assert running.cursor_row == len(running.lines) - 1
        running.type("\r")
        running.wait_for("You said")
        running.wait_for_prompt()
        running.wait_until(lambda: "38.2k / 140k · 27%" in running.status, "the size after it")
        running.type("/model other\r")
        running.wait_until(lambda: running.status.startswith("other · "), "the other model")
        running.resize(50, lines)
        running.read(0.3)
        running.type("x")
        running.wait_for("> x")
        assert running.status == "other · 38.2k / 140k · 27% · $0.0123 · ask"
        assert running.picture.count(" / 140k") == 0
        assert b"\x1b[7m" not in running.written
        assert b"\x1b[0;7m" not in running.written


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_there_is_none_on_a_plain_terminal(tmp_path: Path, variables: dict[str, str]) -> None:
    with chat(tmp_path, variables=variables) as running:
        running.wait_for(">")
        running.read(0.5)
        assert not running.status
        assert "/ 140k" not in running.picture
