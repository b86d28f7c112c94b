from __future__ import annotations

import re
import time
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.segment import Segment

from agent.ui.answer import render
from agent.ui.live import LiveRegion
from agent.ui.markdown import MarkdownStream
from tests.ui.documents import DOCUMENT, documents
from tests.ui.screens import FORBIDDEN, SEQUENCES, console, shown, unexpected_controls

LONG = 400
_SGR = re.compile(r"\x1b\[[0-9;]*m")


def stream(
    text: str, sizes: list[int], columns: int = 80, lines: int = 24, *, live: bool = True
) -> str:
    """What is written while the text comes in pieces of these sizes, with every redraw."""
    made, file = console(columns, lines, live=live)
    ticks = count()
    markdown = MarkdownStream(LiveRegion(made), clock=lambda: float(next(ticks)))
    start = 0
    for size in (sizes[n % len(sizes)] for n in count()):
        if start >= len(text):
            break
        markdown.feed(text[start : start + size])
        start += size
    markdown.close()
    return file.getvalue()


def test_an_answer_looks_the_same_however_it_came() -> None:
    whole = shown(stream(DOCUMENT, [10_000], lines=100), lines=100)
    assert shown(stream(DOCUMENT, [1], lines=100), lines=100) == whole
    assert shown(stream(DOCUMENT, [7, 1, 40], lines=12), lines=12) == whole
    assert whole[0] == "Heading one"
    assert whole[-1] == "Last words."


@given(documents, st.lists(st.integers(1, 30), min_size=1, max_size=5))
@settings(max_examples=60, deadline=None)
def test_redraws_leave_no_trace(text: str, sizes: list[int]) -> None:
    written = stream(text, sizes, 40, 10)
    assert shown(written, 40, 10) == shown(stream(text, [len(text) + 1], 40, 10), 40, 10)
    assert not [code for code in FORBIDDEN if code in written]


def test_blocks_look_as_in_a_rendering_of_the_whole() -> None:
    made, _ = console(110, 200)
    whole = ["".join(s.text for s in line).expandtabs(8) for line in render(made, DOCUMENT, 109)]
    streamed = shown(stream(DOCUMENT, [5], 110, 200), 110, 200)
    assert [line for line in streamed if line] == [line for line in whole if line]
    gaps = [number for number, line in enumerate(streamed) if not line]
    code = streamed.index("def hello(name: str) -> str:")
    within_code = [number for number in gaps if code < number < code + 6]
    assert len(within_code) == 1
    assert all(streamed[number - 1] and streamed[number + 1] for number in gaps)


def test_finished_lines_are_written_once() -> None:
    text = "".join(f"Paragraph number {n:02} has words.\n\n" for n in range(50))
    written = stream(text, [len("Paragraph number 01 has words.\n\n")])
    for number in range(50):
        assert written.count(f"number {number:02} has") == 1


def test_code_is_written_as_it_is() -> None:
    code = ["def f():", "", "\treturn [" + "1, " * 100 + "]", "    x = '日本'  # <b>&amp;"]
    text = "\n".join(["before", "```python", *code, "```", "after", ""])
    written = stream(text, [9], 60)
    last_drawn = [row.rpartition("\x1b[2K")[2] for row in written.split("\n")]
    lines = [_SGR.sub("", row) for row in last_drawn]
    assert lines[2:6] == code


def test_code_within_a_list_is_not_broken() -> None:
    command = "pip install " + " ".join(f"--option-{n}" for n in range(20))
    text = f"1. Run:\n\n   ```bash\n   {command}\n   ```\n2. Done\n"
    made, _ = console(60)
    lines = ["".join(s.text for s in line) for line in render(made, text, 59)]
    assert f"   {command}" in lines


@given(documents)
@settings(max_examples=60, deadline=None)
def test_lines_fit_and_carry_no_padding(text: str) -> None:
    made, _ = console(50)
    for line in render(made, text, 49):
        assert not line or not line[-1].text.endswith(" ")
        assert not any("\n" in segment.text for segment in line)


def test_a_table_loses_no_word_however_narrow_the_screen() -> None:
    words = [f"word{n}" for n in range(12)]
    text = f"| {' | '.join(words)} |\n{'|---' * 12}|\n| {' | '.join(words)} |\n"
    for width in (30, 75, 100):
        made, _ = console(width + 1)
        lines = ["".join(s.text for s in line) for line in render(made, text, width)]
        assert sum(line.count("w") for line in lines) == 24
        assert "…" not in "".join(lines)


def test_html_and_angle_brackets_are_shown() -> None:
    for text in ("Use Map<String, T> here", "<div>\nkept\n</div>", "</kbd> <kbd>x"):
        flat = " ".join(shown(stream(text, [3])))
        assert all(word in flat for word in text.split())


def test_links_show_their_address_once() -> None:
    flat = " ".join(shown(stream("[name](http://a.b/c) <http://d.e/> ![pic](http://f/g.png)", [4])))
    assert flat == "name (http://a.b/c) http://d.e/ pic (http://f/g.png)"


def test_definitions_of_links_are_shown() -> None:
    text = "See [one][1].\n\n[1]: http://example.com\n\nEnd\n"
    assert "[1]: http://example.com" in shown(stream(text, [5]))


def test_character_references_make_no_control_characters() -> None:
    text = "".join(f"&#{code};&#x{code:x};" for code in range(0xA0) if code not in {9, 10})
    assert not unexpected_controls("".join(s.text for s in flat_segments(text)))
    assert not unexpected_controls(stream(text + "\n\n" + f"`{text}`", [len(text) * 3]), "\x1b\r")


def flat_segments(text: str) -> list[Segment]:
    made, _ = console(80)
    return [segment for line in render(made, text, 79) for segment in line]


def test_a_block_higher_than_the_screen_is_shown_by_its_end_and_kept_whole() -> None:
    text = "\n".join(f"- item {n}" for n in range(LONG))
    lines = shown(stream(text, [50], 40, 10), 40, 10)
    assert lines == [f" • item {n}" for n in range(LONG)]


@pytest.mark.parametrize("live", [True, False])
def test_a_second_answer_starts_afresh(live: bool) -> None:
    made, file = console(80, live=live)
    markdown = MarkdownStream(LiveRegion(made))
    for text in ("first\n\n```\ncode", "second"):
        markdown.feed(text)
        markdown.close()
    assert shown(file.getvalue())[-1] == "second"


def test_plain_output_is_the_text_as_it_came() -> None:
    assert stream(DOCUMENT, [3], live=False) == DOCUMENT
    assert stream("no line end", [3], live=False) == "no line end\n"


@pytest.mark.parametrize(
    ("opening", "line"),
    [
        ("", "A paragraph of some words.\n\n"),
        ("", "- an item of a list\n"),
        ("```python\n", "x = f(1, 'a')  # comment\n"),
        ("| a | b |\n|---|---|\n", "| 1 | 2 |\n"),
    ],
)
def test_the_cost_of_a_token_does_not_grow_with_the_answer(opening: str, line: str) -> None:
    def seconds_per_line(lines: int) -> float:
        made, _ = console(80, 40)
        markdown = MarkdownStream(LiveRegion(made))
        markdown.feed(opening)
        started = time.process_time()
        for _ in range(lines):
            for start in range(0, len(line), 5):
                markdown.feed(line[start : start + 5])
        return (time.process_time() - started) / lines

    seconds_per_line(20)
    short, long = seconds_per_line(60), seconds_per_line(600)
    assert long < 4 * short + 0.002


def test_redraws_are_throttled() -> None:
    made, file = console(80)
    now = 0.0
    markdown = MarkdownStream(LiveRegion(made), clock=lambda: now)
    for number in range(1000):
        now = number / 1000
        markdown.feed("x" if number % 10 else " ")
    redraws = file.getvalue().count("\x1b[2K")
    assert 5 <= redraws <= 40


def test_sequences_in_code_and_prose_never_come_through() -> None:
    from agent.ui.sanitize import StreamSanitizer

    for sequence in SEQUENCES:
        sanitizer = StreamSanitizer()
        clean = sanitizer.feed(f"a{sequence}b\n\n```sh\nc{sequence}d\n```\n") + sanitizer.close()
        assert unexpected_controls(stream(clean, [4]), "\x1b\r") == set()


URL = "https://example.com/a/" + "very-long-path/" * 12 + "end.html?q=1"


@pytest.mark.parametrize(
    "text",
    [
        f"See {URL} for more of this, which is quite a lot of text and goes on.",
        f"See <{URL}>, and [this one]({URL}).",
        f"- one\n- two\n  1. deep: {URL} and more\n     > {URL}",
        f"> quoted {URL}\n> and on",
        f"# Heading {URL}",
        f"`{URL}`",
        f"| a | b |\n|---|---|\n| {URL} | x |",
        f"日本語のテキスト{URL}日本語のテキスト",
    ],
)
@pytest.mark.parametrize("columns", [20, 80, 120])
def test_a_long_url_is_written_as_it_is(text: str, columns: int) -> None:
    written = _SGR.sub("", stream(text, [9], columns))
    final = written.rpartition("\x1b")[2]
    assert max(final.count(URL), written.count(URL)) >= 1
    made, file = console(columns)
    for line in render(made, text, columns - 1):
        file.write("".join(segment.text for segment in line) + "\n")
    assert file.getvalue().count(URL) == text.count(URL)


def test_other_words_are_laid_out_around_a_long_one() -> None:
    text = f"Before it some words. {URL} After it some more words that fill the line up."
    made, _ = console(40)
    lines = ["".join(segment.text for segment in line) for line in render(made, text, 40)]
    assert lines == [
        "Before it some words.",
        URL,
        "After it some more words that fill the",
        "line up.",
    ]


def test_characters_for_private_use_are_left_alone() -> None:
    made, _ = console(40)
    text = f"\U00100000\U00100000 {URL}"
    assert render(made, text, 40)[0][0].text == "\U00100000\U00100000"
