from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ui.documents import DOCUMENT
from tests.ui.scripted import ANSWER
from tests.ui.terminal import Chat, chat

CLEARING = (b"\x1b[2J", b"\x1b[3J", b"\x1b[?1049h", b"\x1b[?47h", b"\x1bc")
TURN_LINE = "in 12.3k (cached 11.0k) · out 512 · context 27% · 3.4 s"
PROMPT = ">"
EXPECTED_LINES = (
    "Heading one",
    "    • nested two",
    "name   value",
    "a          1",
    "日本      22",
    "▌ a quote going on",
    "Last words.",
)
"""Lines of the document that are the same at every width."""


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Chat]:
    with chat(tmp_path) as running:
        running.wait_for_prompt()
        yield running
        assert not [code for code in CLEARING if code in running.written]


def test_first_lines_are_few_and_say_what_matters(started: Chat) -> None:
    assert started.lines[:2] == ["model   scripted-1", f"folder  {started.lines[1][8:]}"]
    assert started.lines[2:] == [
        "budget  140k tokens of a window of 200k (table)",
        "/help shows what can be typed",
        "",
        PROMPT,
    ]


def test_an_answer_streams_as_markdown(started: Chat) -> None:
    started.type("markdown\r")
    started.wait_for(TURN_LINE)
    started.wait_for_prompt()
    shown = started.lines[started.lines.index("> markdown") :]
    assert shown == [
        "> markdown",
        "",
        "Result",
        "",
        "Some bold words, code and 日本語.",
        "",
        " 1 first",
        " 2 second",
        "",
        "def add(a: int, b: int) -> int:",
        "    return a + b",
        "",
        "name   value",
        "────────────",
        "one        1",
        "",
        "Done.",
        "",
        TURN_LINE,
        "",
        PROMPT,
    ]
    assert "**bold**" in ANSWER


def test_ctrl_c_stops_an_answer_and_the_prompt_is_back_at_once(started: Chat) -> None:
    started.type("slow\r")
    started.wait_for("word20")
    started.type("\x03")
    assert started.wait_for_prompt() < 0.5
    assert "interrupted; what was received is kept" in started.lines
    assert any("word20" in line for line in started.lines)
    started.type("again\r")
    started.wait_for("You said: again")


def test_ctrl_c_clears_the_box_and_needs_two_presses_to_leave(started: Chat) -> None:
    started.type("some text")
    started.wait_for("> some text")
    started.type("\x03")
    started.wait_for_prompt()
    started.type("\x03")
    started.wait_for("press Ctrl-D or type /exit to leave")
    started.wait_for_prompt()
    started.type("\x03")
    assert started.exit_code() == 0


def test_ctrl_d_leaves_and_says_how_to_resume(started: Chat) -> None:
    started.type("hello\r")
    started.wait_for("You said: hello")
    started.wait_for_prompt()
    started.type("\x04")
    started.wait_for("resume with: agent chat --resume s1")
    assert started.exit_code() == 0


def test_there_is_nothing_to_resume_when_nothing_was_said(started: Chat) -> None:
    started.type("/exit\r")
    assert started.exit_code() == 0
    assert "resume with" not in started.picture


def test_an_unknown_command_is_not_sent(started: Chat) -> None:
    started.type("/contxt\r")
    started.wait_for("unknown command /contxt; did you mean /context?")
    started.wait_for_prompt()
    assert "You said" not in started.picture


def test_failures_are_one_line_and_the_chat_goes_on(started: Chat) -> None:
    started.type("boom\r")
    started.wait_for("error: unexpected KeyError: 'boom'")
    started.type("fail\r")
    started.wait_for("error: the server stayed busy; try again later")
    started.type("/resume missing\r")
    started.wait_for("error: no session 'missing' in this folder")
    started.type("still here\r")
    started.wait_for("You said: still here")
    assert "Traceback" not in started.picture


@pytest.mark.parametrize(
    ("keys", "decision"),
    [
        (["\r"], "decision False False"),
        (["y\r"], "decision True False"),
        (["a\r"], "decision True True"),
        (["n\r", "too risky\r"], "decision False False too risky"),
        (["use make\r"], "decision False False use make"),
        (["\x04"], "decision False False"),
    ],
)
def test_approval(started: Chat, keys: list[str], decision: str) -> None:
    started.type("ask\r")
    started.wait_for("y yes · a always")
    assert "│ make" in started.lines
    for key in keys:
        started.type(key)
        started.read(0.1)
    started.wait_until(lambda: decision in started.lines, decision)
    started.wait_for("So be it.")


def test_ctrl_c_at_a_question_is_no_and_stops_the_turn(started: Chat) -> None:
    started.type("ask\r")
    started.wait_for("y yes · a always")
    started.type("\x03")
    started.wait_for("decision False False interrupted by the user")
    started.wait_for_prompt()
    assert "So be it." not in started.picture
    assert "interrupted; what was received is kept" in started.lines


def test_what_was_typed_early_does_not_answer_a_question(started: Chat) -> None:
    started.type("tools\ry\r")
    started.wait_for("│ ls \\u202eevil")
    started.read(0.5)
    assert "decision" not in started.picture
    started.type("\r")
    started.wait_for("decision False False")
    started.wait_for("│ 2 +new")
    started.type("\r")
    started.wait_for("You said: y")


def test_who_types_on_is_not_asked_until_a_pause(started: Chat) -> None:
    started.type("ask\r")
    started.type("ea")
    started.wait_for("│ make")
    for key in "s", "y", "\r":
        started.type(key)
        started.read(0.2)
    assert "y yes" not in started.picture
    started.wait_for("y yes · a always")
    assert "decision" not in started.picture
    started.type("\r")
    started.wait_for("decision False False")
    started.wait_for("You said: easy")


def test_text_typed_during_an_answer_stands_below_it_and_then_in_the_box(started: Chat) -> None:
    started.type("slow\r")
    started.wait_for("word5")
    started.type("later")
    assert started.wait_for("> later") < 0.5
    started.wait_for("word30")
    assert started.lines[-1] == "> later"
    started.type("\x03")
    started.wait_until(lambda: started.lines[-1] == "> later", "the text in the box")
    assert started.picture.count("later") == 1
    started.type("\r")
    started.wait_for("You said: later")


@pytest.mark.parametrize("new_line", ["\x1b\r", "\n", "\\\r", "\x1b[27;2;13~", "\x1b[13;2u"])
def test_new_lines(started: Chat, new_line: str) -> None:
    started.type("one")
    started.type(new_line)
    started.read(0.1)
    started.type("two\r")
    started.wait_for("You said: one two")
    at = started.lines.index("> one")
    assert started.lines[at + 1] == "  two"


def test_a_paste_is_one_text_without_control_characters(started: Chat) -> None:
    started.type("\x1b[200~first\r\nsec\x9b2Jond\x1b[201~")
    started.wait_for("  second")
    started.type("\r")
    started.wait_for("You said: first second")


def test_wide_characters_and_the_cursor(started: Chat) -> None:
    started.type("日本語")
    started.wait_for("> 日本語")
    assert started.cursor_column == 2 + 6
    started.type("\x1b[D\x1b[D한\r")
    started.wait_for("You said: 日한本語")


def test_completion(started: Chat) -> None:
    started.type("/comp")
    started.wait_for("fold the conversation")
    started.type("\t\r")
    started.wait_for("📦 folded 7 turns")
    started.wait_for_prompt()
    started.type("@pyproj")
    started.wait_for("pyproject.toml")
    started.type("\t\r")
    started.wait_for("You said: @pyproject.toml")


def test_history_outlives_the_chat(tmp_path: Path) -> None:
    with chat(tmp_path) as first:
        first.wait_for_prompt()
        first.type("remember me\r")
        first.wait_for("You said")
        first.wait_for_prompt()
        first.type("\x04")
        first.exit_code()
    with chat(tmp_path) as second:
        second.wait_for_prompt()
        second.type("\x1b[A")
        second.wait_for("> remember me")


def test_a_first_prompt_is_sent_first(tmp_path: Path) -> None:
    with chat(tmp_path, "hello there") as running:
        running.wait_for("You said: hello there")
        running.wait_for_prompt()
        assert "> hello there" in running.lines


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("busy", [True, False])
def test_the_terminal_is_sane_after_a_signal(
    tmp_path: Path, number: signal.Signals, busy: bool
) -> None:
    with chat(tmp_path, "slow" if busy else "") as running:
        if busy:
            running.wait_for("word3")
        else:
            running.wait_for_prompt()
        assert running.is_quiet()
        running.signal(number)
        assert running.exit_code() == 128 + number
        assert not running.is_quiet()
        assert ("resume with" in running.picture) == (busy and number is signal.SIGTERM)


def test_a_resize_during_an_answer_leaves_the_rest_alone(tmp_path: Path) -> None:
    with chat(tmp_path, "hello", columns=100) as running:
        running.wait_for_prompt()
        running.type("slow\r")
        running.wait_for("word30")
        running.resize(60, 24)
        running.wait_for("word60")
        running.resize(90, 24)
        running.wait_for("word90")
        running.type("\x03")
        running.wait_for_prompt()
        for line in ("> hello", "You said: hello", TURN_LINE, "> slow"):
            assert running.lines.count(line) == 1
        assert not [code for code in CLEARING if code in running.written]


def test_everything_can_be_scrolled_back_on_a_small_screen(tmp_path: Path) -> None:
    with chat(tmp_path, columns=40, lines=10) as running:
        running.wait_for_prompt()
        for _ in range(2):
            running.type("markdown\r")
            running.wait_until(lambda: running.lines[-1:] == [PROMPT], "prompt")
            running.read(0.7)
            running.wait_for_prompt()
        assert running.lines.count("Result") == 2
        assert running.lines.count("    return a + b") == 2
        assert not [code for code in CLEARING if code in running.written]


@pytest.mark.parametrize("variables", [{"TERM": "dumb"}, {"NO_COLOR": "1"}])
def test_plain_terminals_get_text_as_it_comes(tmp_path: Path, variables: dict[str, str]) -> None:
    with chat(tmp_path, "markdown", variables=variables) as running:
        running.wait_for("Done.")
        answer = running.written.split(b"> markdown")[1].split(b"Done.")[0]
        assert b"\x1b" not in answer
        assert b"Some **bold** words" in answer


def test_warming_up_begins_once_the_prompt_is_drawn(started: Chat) -> None:
    started.type("warm\r")
    started.wait_for("warmed up: True")


def test_a_first_prompt_does_not_wait_for_warming_up(tmp_path: Path) -> None:
    with chat(tmp_path, "warm") as running:
        running.wait_for("warmed up: False")


def test_resuming_shows_the_last_turns(started: Chat) -> None:
    started.type("a question\r")
    started.wait_for("You said: a question")
    started.wait_for_prompt()
    started.type("/resume s0\r")
    started.wait_for("resumed s0")
    started.wait_for_prompt()
    resumed = started.lines[started.lines.index("resumed s0") :]
    filled = "context 38.2k / 140k · ~27%"
    assert resumed == ["resumed s0", "", "> a question", "", "an answer", "", filled, "", PROMPT]


def test_only_a_long_turn_rings_the_bell(started: Chat) -> None:
    started.type("hello\r")
    started.wait_for("You said: hello")
    started.wait_for_prompt()
    assert b"\x07" not in started.written
    started.type("long\r")
    started.wait_for(" · 20 s")
    started.wait_for_prompt()
    assert started.written.count(b"\x07") == 1


def test_ctrl_o_shows_the_last_results_whole(started: Chat) -> None:
    started.type("tools\r")
    for count in (1, 2):
        started.wait_for_count("y yes · a always", count)
        started.read(0.2)
        started.type("y\r")
    started.wait_for(TURN_LINE)
    started.wait_for_prompt()
    assert "  line 2" in started.lines
    assert "line 15" not in started.picture
    started.type("half a text")
    started.type("\x0f")
    started.wait_for("● edit_file x.py · +1 -1 · 0.1 s")
    started.type("\x0f")
    started.wait_for("line 15")
    started.type("\x0f")
    started.wait_for("there are no more tool results")
    started.wait_for("> half a text")
    assert not started.picture.count("> half a text") > 1


def test_only_the_terminals_own_colours_are_used(started: Chat) -> None:
    started.type("markdown\r")
    started.wait_for(TURN_LINE)
    started.wait_for_prompt()
    started.type("/comp")
    started.wait_for("fold the conversation")
    started.type("\x1b[B")
    started.read(0.2)
    codes = re.findall(rb"\x1b\[([0-9;]*)m", started.written)
    numbers = {int(number) for code in codes for number in code.split(b";") if number}
    assert {1, 2, 32} < numbers
    assert not numbers - {0, 1, 2, 3, 4, 7, 9, 39, 49, *range(22, 30), *range(31, 37)}


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (120, 40)])
def test_a_document_looks_right_at_any_size_and_stays_through_a_resize(
    tmp_path: Path, columns: int, lines: int
) -> None:
    with chat(tmp_path, columns=columns, lines=lines) as running:
        running.wait_for_prompt()
        running.type("document\r")
        running.wait_for("Steps")
        running.wait_for("Then that")
        above = running.lines[: running.lines.index("Steps") + 1]
        running.resize(columns - 30, lines)
        running.wait_for("Last words.")
        running.wait_for_prompt()
        # pyte cuts what is too long for the new width.
        for before, after in zip(above, running.lines, strict=False):
            assert before.startswith(after)
            assert len(after) >= min(len(before), columns // 4)
        for line in EXPECTED_LINES:
            assert running.lines.count(line) == 1, line
        code = DOCUMENT.split("```python\n")[1].split("```")[0].expandtabs().splitlines()
        first = running.lines.index(code[0])
        assert running.lines[first : first + len(code)] == code
        assert not [code for code in CLEARING if code in running.written]
        assert not [mode for mode in (b"\x1b[?1000h", b"\x1b[?1006h") if mode in running.written]
