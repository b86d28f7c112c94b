"""Prints a session's events on a terminal, in order, as they come."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from agent.events import (
    CompactionFailed,
    CompactionStarted,
    Event,
    Notice,
    RequestFinished,
    RequestStarted,
    RetryScheduled,
    ServerQuiet,
    TextDelta,
    ThinkingDelta,
    ToolCallFinished,
    ToolCallStarted,
    ToolOutput,
    TurnFinished,
    TurnStarted,
)
from agent.ui import describe, figures
from agent.ui.live import Line, LiveRegion
from agent.ui.markdown import MarkdownStream
from agent.ui.sanitize import StreamSanitizer, reveal, sanitize
from agent.ui.spinner import Spinner

RESULT_LINES = 3
"""Lines of a tool's result that are shown."""

ERROR_LINES = 6
DIFF_LINES = 60
OUTPUT_LINES = 4
"""Lines of a running tool's output on the screen at a time."""

_MAX_LINE = 400
_LEVEL_STYLES = {"info": "dim", "warning": "yellow", "error": "red"}


class EventPrinter:
    """Consumes one event at a time. :meth:`tick` is to be called about ten times a second.

    Lines that belong together form a group; a blank line stands between groups.
    ``clock`` counts seconds and is only compared with itself.
    """

    def __init__(self, console: Console, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.console = console
        self._region = LiveRegion(console)
        self._markdown = MarkdownStream(self._region, clock=clock)
        self._spinner = Spinner(clock)
        self._text = StreamSanitizer()
        self._answering = False
        self._text_in_request = False
        self._group = ""
        self._paused = self._quiet = self._text_in_request = False
        self._tails: dict[str, _OutputTail] = {}
        self._shown_diff = ""
        self._quiet = False

    def handle(self, event: Event) -> None:
        """Print one event."""
        quiet, self._quiet = self._quiet, isinstance(event, ServerQuiet)
        if not isinstance(event, TextDelta | ServerQuiet):
            self._end_answer()
        match event:
            case TextDelta(text):
                self._answer(text)
            case ThinkingDelta():
                self._spinner.start("thinking")
            case ToolOutput(call, text):
                self._tails.setdefault(call, _OutputTail()).feed(text)
            case TurnStarted() | RequestFinished():
                self._spinner.start("working")
            case RequestStarted():
                self._text_in_request = False
                self._spinner.start("waiting for the model")
            case CompactionStarted(_, tokens):
                self._spinner.start(f"compacting {figures.tokens(tokens)} tokens")
            case RetryScheduled():
                self._retry(event)
            case ServerQuiet() if self._region.live:
                self._spinner.count_down(lambda left: describe.quiet(event, left), event.left)
            case ServerQuiet() if quiet:
                pass
            case ToolCallStarted():
                self._tool_call(event)
            case ToolCallFinished():
                self._tool_result(event)
            case TurnFinished():
                self._turn(event)
            case _:
                self._end_answer()
                self.say(describe.progress(event), _style(event))

    def tick(self) -> None:
        """Move what moves by itself: the spinner, the output of a running tool, a late redraw."""
        if self._answering:
            waiting = self._spinner.line()
            self._markdown.show_below([waiting] if waiting else [])
            self._markdown.tick()
        elif not self._paused:
            lines = [line for tail in self._tails.values() for line in tail.lines()]
            spinner = self._spinner.line()
            self._region.draw([*lines[-OUTPUT_LINES:], *([spinner] if spinner else [])])

    def pause(self) -> None:
        """Leave the screen to somebody else, such as a question."""
        self._end_answer()
        self._region.erase()
        self._paused = True

    def resume(self) -> None:
        """Take the screen back."""
        self._paused = False
        self._spinner.restart()

    def diff_was_shown(self, diff: str) -> None:
        """Tell that this diff stands on the screen already; its result will not repeat it."""
        self._shown_diff = diff

    def interrupted(self) -> None:
        """End what is on the screen after the stream of events was cancelled."""
        self.finish()
        self.say(describe.INTERRUPTED, "yellow")

    def finish(self) -> None:
        """Write out what is unfinished and leave the cursor on a new line."""
        self._end_answer()
        self._spinner.stop()
        self._tails.clear()
        self._region.erase()
        self._paused = False
        self._group = ""

    def say(self, text: str, style: str = "") -> None:
        """Print a line, made harmless."""
        self._print(Text(sanitize(text), style=style), "line")

    def _print(self, text: Text, group: str) -> None:
        self._begin(group)
        self.console.print(text, soft_wrap=True)

    def _begin(self, group: str) -> None:
        self._region.erase()
        if self._group != group:
            self._group = group
            self.console.print()

    def _answer(self, text: str) -> None:
        if not self._answering:
            text = text.lstrip("\n")
            if not text:
                return
            self._answering = self._text_in_request = True
            self._begin("answer")
        self._spinner.stop()
        self._markdown.show_below([])
        self._markdown.feed(self._text.feed(text))

    def _end_answer(self) -> None:
        if self._answering:
            self._markdown.feed(self._text.close())
            self._markdown.close()
            self._answering = False

    def _retry(self, event: RetryScheduled) -> None:
        if self._text_in_request or not self._region.live:
            # The answer so far is void and comes again: the screen must say why.
            self.say(describe.retry(event, event.seconds), "yellow")
        self._spinner.count_down(lambda left: describe.retry(event, left), event.seconds)

    def _tool_call(self, event: ToolCallStarted) -> None:
        name, _, rest = describe.tool_call(event).partition(" ")
        self._print(Text.assemble("● ", (name, "bold"), " ", rest), "tool")
        self._spinner.start(f"running {name}")

    def _tool_result(self, event: ToolCallFinished) -> None:
        self._tails.pop(event.id, None)
        if event.diff and not event.is_error:
            preview = [] if event.diff == self._shown_diff else diff_lines(event.diff)
            limit = DIFF_LINES
        else:
            preview = [Text(line, "dim") for line in _clean_lines(event.content)]
            limit = ERROR_LINES if event.is_error else RESULT_LINES
        self._shown_diff = ""
        for line in preview[:limit]:
            self._print(Text("  ").append_text(line), "tool")
        more = "… " if len(preview) > limit else ""
        style = "red" if event.is_error else "dim"
        self._print(Text(f"  {more}{describe.tool_result(event)}", style), "tool")
        self._spinner.start("working")

    def _turn(self, event: TurnFinished) -> None:
        self.finish()
        if event.error is not None:
            self.say(describe.error(event.error), "red")
        if event.error is None or event.requests:
            before, context, after = describe.turn(event).partition(
                f"context {figures.share(event.context)}"
            )
            style = figures.share_style(event.context)
            self._print(Text.assemble(before, (context, style), after, style="dim"), "end")
        self._group = ""


class _OutputTail:
    """The last lines of a running tool's output."""

    def __init__(self) -> None:
        self._sanitizer = StreamSanitizer()
        self._lines: deque[str] = deque(maxlen=OUTPUT_LINES)
        self._partial = ""

    def feed(self, text: str) -> None:
        *whole, partial = (self._partial + self._sanitizer.feed(text)).split("\n")
        self._lines.extend(line[:_MAX_LINE] for line in whole[-OUTPUT_LINES:])
        self._partial = partial[:_MAX_LINE]

    def lines(self) -> list[Line]:
        last = [self._partial] if self._partial else []
        return [[Segment(f"  {line}", Style(dim=True))] for line in [*self._lines, *last]]


def _style(event: Event) -> str:
    match event:
        case CompactionFailed():
            return "yellow"
        case Notice(_, level):
            return _LEVEL_STYLES[level]
        case _:
            return ""


def _clean_lines(content: str) -> list[str]:
    """The lines of a tool's result, harmless, each cut to a length worth showing."""
    lines = sanitize(content).rstrip("\n").split("\n")
    return [line if len(line) <= _MAX_LINE else line[:_MAX_LINE] + "…" for line in lines]


def diff_lines(diff: str) -> list[Text]:
    """A unified diff in colours, one text per line, with everything invisible visible."""
    return [Text(line, _diff_style(line)) for line in reveal(diff).rstrip("\n").split("\n")]


def _diff_style(line: str) -> str:
    if line.startswith(("+++", "---")):
        return "bold"
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
