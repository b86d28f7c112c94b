from __future__ import annotations

import re

import pytest

from agent.errors import AgentError, ProviderBusyError
from agent.events import (
    CompactionFailed,
    CompactionFinished,
    CompactionReport,
    CompactionStarted,
    Event,
    Notice,
    RequestFinished,
    RequestStarted,
    RetryScheduled,
    TextDelta,
    ThinkingDelta,
    ToolCallFinished,
    ToolCallStarted,
    ToolOutput,
    TurnFinished,
    TurnStarted,
)
from agent.ui import describe
from agent.ui.render import EventPrinter
from tests.ui.screens import SEQUENCES, Screen, console, shown, unexpected_controls
from tests.ui.scripted import DIFF, REPORT, SIZE, USAGE, finished

TURN_LINE = "in 12.3k (cached 11.0k) · out 512 · context 27% · 3.4 s"


class Stage:
    """A printer with a clock that is set by hand, and the screen it prints on."""

    def __init__(self, *, live: bool = True, columns: int = 100) -> None:
        made, self.file = console(columns, 30, live=live)
        self.now = 0.0
        self.columns = columns
        self.printer = EventPrinter(made, clock=lambda: self.now)

    def play(self, *events: Event) -> None:
        for event in events:
            self.printer.handle(event)

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.printer.tick()

    @property
    def lines(self) -> list[str]:
        return shown(self.file.getvalue(), self.columns, 30)


def printed(*events: Event, live: bool = True) -> list[str]:
    stage = Stage(live=live)
    stage.play(*events)
    stage.printer.finish()
    return stage.lines


def report(method: str, turns: int, address: str = "x.md:1-9") -> CompactionReport:
    return CompactionReport("auto", method, turns, 12_300, 3_100, 4.2, address)


@pytest.mark.parametrize("live", [True, False])
def test_a_turn_with_a_tool(live: bool) -> None:
    lines = printed(
        TurnStarted(1),
        RequestStarted(1, SIZE),
        TextDelta("I will "),
        TextDelta("look."),
        RequestFinished("tool_use", USAGE),
        ToolCallStarted("t", "shell", {}, "ls -la"),
        ToolOutput("t", "a\nb\n"),
        ToolCallFinished("t", "shell", "a\nb\nc\nd\n", False, 0.3),
        RequestStarted(2, SIZE),
        TextDelta("\n\nDone."),
        RequestFinished("end_turn", USAGE),
        finished("Done."),
        live=live,
    )
    assert lines == [
        "",
        "I will look.",
        "",
        "● shell ls -la",
        "  a",
        "  b",
        "  c",
        "  … 4 lines · 8 B · 0.3 s",
        "",
        "Done.",
        "",
        TURN_LINE,
    ]


@pytest.mark.parametrize(
    ("done", "line"),
    [
        (
            REPORT,
            "📦 folded 7 turns · 12.3k -> 3.1k tokens · 4.2 s · "
            "read back: .transcripts/s1.md:1-188",
        ),
        (
            report("digest", 1),
            "📦 folded 1 turn without the model · 12.3k -> 3.1k tokens · 4.2 s · "
            "read back: x.md:1-9",
        ),
        (report("stub", 0, ""), "📦 put old tool results aside · 12.3k -> 3.1k tokens · 4.2 s"),
        (report("clip", 0, ""), "📦 shortened the running turn · 12.3k -> 3.1k tokens · 4.2 s"),
        (report("summary", 0, ""), "📦 shortened the summary · 12.3k -> 3.1k tokens · 4.2 s"),
    ],
)
def test_a_compaction_is_one_line(done: CompactionReport, line: str) -> None:
    assert printed(CompactionStarted("auto", 12_300), CompactionFinished(done)) == ["", line]


def test_other_lines() -> None:
    assert printed(
        CompactionFailed("auto", "the summary\nwas empty"),
        Notice("take care", "warning"),
        Notice("by the way"),
    ) == [
        "",
        "not compacted, nothing has changed: the summary was empty",
        "warning: take care",
        "by the way",
    ]


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ProviderBusyError("the server stayed busy"), "error: the server stayed busy"),
        (
            AgentError(""),
            "error: unexpected AgentError; with --debug the traceback goes to a file",
        ),
    ],
)
def test_an_error_is_one_line(error: AgentError, line: str) -> None:
    assert line in printed(TurnStarted(1), finished(error=error))


def test_a_wait_shows_what_for_and_how_long_and_leaves_no_trace() -> None:
    stage = Stage()
    stage.play(TurnStarted(1), RequestStarted(1, SIZE))
    stage.wait(0.1)
    assert stage.lines == []
    stage.wait(7)
    assert stage.lines[0].endswith("waiting for the model · 7 s")
    stage.play(ThinkingDelta("hm"))
    stage.wait(3)
    assert stage.lines[0].endswith("thinking · 3 s")
    stage.play(ThinkingDelta("hm"))
    stage.wait(1)
    assert stage.lines[0].endswith("thinking · 4 s")
    stage.play(TextDelta("Hello"))
    stage.wait(1)
    assert stage.lines == ["", "Hello"]


def test_a_retry_counts_down() -> None:
    stage = Stage()
    stage.play(RequestStarted(1, SIZE), RetryScheduled("overloaded", 8.0, 1))
    stage.wait(0)
    assert stage.lines[0].endswith("overloaded: trying again in 8 s")
    stage.wait(3)
    assert stage.lines[0].endswith("trying again in 5 s")
    plain = printed(RequestStarted(1, SIZE), RetryScheduled("overloaded", 8.0, 2), live=False)
    assert plain == ["", "overloaded: trying again in 8 s (attempt 2)"]


def test_an_answer_that_broke_off_says_so_before_it_comes_again() -> None:
    lines = printed(
        RequestStarted(1, SIZE),
        TextDelta("Half an"),
        RetryScheduled("the stream broke", 1.0, 1),
        RequestStarted(1, SIZE),
        TextDelta("Half an answer."),
    )
    assert lines == [
        "",
        "Half an",
        "",
        "the stream broke: trying again in 1 s",
        "",
        "Half an answer.",
    ]


def test_output_of_a_running_tool_is_bounded_and_leaves_no_trace() -> None:
    stage = Stage()
    stage.play(ToolCallStarted("t", "shell", {}, "make"))
    stage.play(*[ToolOutput("t", f"line {n}\npart") for n in range(500)])
    stage.wait(1)
    assert stage.lines[2:] == [
        "  partline 497",
        "  partline 498",
        "  partline 499",
        "  part",
        stage.lines[-1],
    ]
    assert "running shell · 1 s" in stage.lines[-1]
    stage.play(ToolCallFinished("t", "shell", "ok", False, 1.0))
    assert stage.lines == ["", "● shell make", "  ok", "  1 line · 2 B · 1.0 s"]


def test_a_diff_is_shown_once() -> None:
    done = ToolCallFinished("t", "edit_file", "edited", False, 0.1, diff=DIFF)
    assert printed(done)[-2:] == ["  +new", "  +1 -1 · 0.1 s"]
    stage = Stage()
    stage.printer.diff_was_shown(DIFF)
    stage.play(done)
    assert stage.lines == ["", "  +1 -1 · 0.1 s"]
    stage.play(done)
    assert "  +new" in stage.lines


def test_a_failed_tool_says_so() -> None:
    lines = printed(ToolCallFinished("t", "shell", "no such file", True, 0.0))
    assert lines == ["", "  no such file", "  failed · 1 line · 12 B · 0.0 s"]


def test_diffs_and_levels_have_colours() -> None:
    stage = Stage()
    stage.play(ToolCallFinished("t", "edit_file", "", False, 0.1, diff=DIFF))
    written = stage.file.getvalue()
    assert "\x1b[32m+new" in written
    assert "\x1b[31m-old" in written


def test_nothing_is_drawn_while_paused() -> None:
    stage = Stage()
    stage.play(TurnStarted(1), ToolCallStarted("t", "shell", {}, "ls"))
    stage.wait(2)
    stage.printer.pause()
    before = stage.file.getvalue()
    stage.wait(2)
    assert stage.file.getvalue() == before
    stage.printer.resume()
    stage.wait(0.5)
    assert "running shell" in stage.lines[-1]


def test_an_interrupt_keeps_what_was_received() -> None:
    stage = Stage()
    stage.play(TurnStarted(1), RequestStarted(1, SIZE), TextDelta("Half a **wo"))
    stage.printer.interrupted()
    assert stage.lines == ["", "Half a **wo", "", describe.INTERRUPTED]


def test_markup_in_foreign_text_is_text() -> None:
    text = "[/foo] [bold]x[/bold] :smile:"
    assert printed(Notice(text)) == ["", text]
    assert text in " ".join(printed(ToolCallStarted("t", "shell", {}, text)))


def sinks(nasty: str) -> list[Event]:
    """An event for every place where foreign text is shown."""
    return [
        TextDelta(nasty),
        ToolCallStarted("t", nasty, {"x": nasty}, nasty),
        ToolOutput("t", nasty),
        ToolCallFinished("t", nasty, nasty, False, 0.1),
        ToolCallFinished("t", nasty, nasty, True, 0.1),
        ToolCallFinished("t", nasty, nasty, False, 0.1, diff=f"--- {nasty}\n+{nasty}\n"),
        CompactionFinished(report("summary", 1, nasty)),
        CompactionFailed("auto", nasty),
        RetryScheduled(nasty, 1.0, 1),
        Notice(nasty, "error"),
        finished(error=AgentError(nasty)),
    ]


@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize("sequence", SEQUENCES)
def test_no_sink_lets_a_sequence_through(sequence: str, live: bool) -> None:
    stage = Stage(live=live)
    for event in sinks(f"a{sequence}b"):
        stage.play(event)
        stage.wait(1)
    for split in range(1, len(sequence)):
        stage.play(TextDelta(sequence[:split]), TextDelta(f"{sequence[split:]}x"))
        stage.play(ToolOutput("u", sequence[:split]), ToolOutput("u", f"{sequence[split:]}x"))
        stage.wait(1)
    stage.printer.finish()
    written = stage.file.getvalue()
    if live:
        screen = Screen(100, 30)
        screen.feed(written)
        assert not screen.screen.title
        for code in ("\x1b[2K", "\r"):
            written = written.replace(code, "")
        written = re.sub(r"\x1b\[[0-9]+A", "", written)
    assert unexpected_controls(written) == set()


def test_the_turn_line_marks_an_estimate() -> None:
    event = TurnFinished(1, "", "end_turn", USAGE, SIZE, 3.4, 1)
    assert describe.turn(event) == TURN_LINE
