"""Prints a session's events on a terminal, in order, as they come."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Console
from rich.segment import Segment
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
from agent.ui.sanitize import StreamSanitizer, sanitize
from agent.ui.spinner import STALL_SECONDS, Spinner
from agent.ui.thinking import Thinking
from agent.ui.toolview import CommandOutput, ToolCalls

_LEVEL_STYLES = {"info": "dim", "warning": "yellow", "error": "red"}


class EventPrinter:
    """Consumes one event at a time. :meth:`tick` is to be called about ten times a second.

    Lines that belong together form a group; a blank line stands between groups.
    ``clock`` counts seconds and is only compared with itself. ``last_answer`` is the
    last piece of an answer that was shown, as written. ``below`` gives the lines that
    stand below all that moves, for a width in columns.
    """

    def __init__(
        self,
        console: Console,
        *,
        show_thinking: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.console = console
        self._shows_thinking = show_thinking
        self._clock = clock
        self._region = LiveRegion(console)
        self._markdown = MarkdownStream(self._region, clock=clock)
        self._spinner = Spinner(clock)
        self._text = StreamSanitizer()
        self._answering = False
        self._paused = self._quiet = self._text_in_request = False
        self._said: list[str] = []
        self.last_answer = ""
        self._thinking: Thinking | None = None
        self._tools = ToolCalls()
        self._command = CommandOutput()
        self._group = ""
        self.below: Callable[[int], list[Line]] = lambda _: []

    @property
    def live(self) -> bool:
        """Whether lines on the screen may be redrawn."""
        return self._region.live

    def handle(self, event: Event) -> None:
        """Print one event."""
        quiet, self._quiet = self._quiet, isinstance(event, ServerQuiet)
        if not isinstance(event, TextDelta | ServerQuiet):
            self._end_answer()
        if not isinstance(event, ThinkingDelta | ServerQuiet):
            self._end_thinking()
        match event:
            case TextDelta(text):
                self._answer(text)
            case ThinkingDelta(text):
                self._think(text)
            case ToolOutput():
                self._tools.output(event)
            case TurnStarted() | RequestFinished():
                self._spinner.received = 0
                self._spinner.start("working")
            case RequestStarted():
                self._text_in_request = False
                self._spinner.received = 0
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
        if self._below():
            self.tick()

    def output(self, text: str, *, final: bool = False) -> None:
        """Print a piece of what a command of the user's prints; ``final`` ends it."""
        self._spinner.start("running")
        if lines := self._command.take(text, final=final):
            self._print(Text("\n".join(lines)), "output")

    def tick(self) -> None:
        """Move what moves by itself: the spinner, the output of a running tool, a late redraw."""
        spinner = self._spinner.line()
        waiting = [*([spinner] if spinner else []), *self._below()]
        if self._answering:
            self._markdown.show_below(waiting)
            self._markdown.tick()
        elif not self._paused:
            self._region.draw([*self._moving(), *waiting])

    def _moving(self) -> list[Line]:
        """What runs, below everything that is final."""
        if self._thinking is not None:
            return [*self._gap("thinking"), *self._thinking.moving(self.console)]
        if self._command.line:
            return [[Segment(self._command.line)]]
        calls = [[*call.render(self.console)] for call in self._tools.calls()]
        return [*self._gap("tool"), *calls, *self._tools.outputs()] if calls else []

    def _gap(self, group: str) -> list[Line]:
        return [[]] if self._group != group else []

    def pause(self) -> None:
        """Leave the screen to somebody else, such as a question."""
        self._end_answer()
        self._end_thinking()
        self._begin("question")
        self._paused = True

    def resume(self) -> None:
        """Take the screen back."""
        self._paused = False
        self._spinner.restart()

    def diff_was_shown(self, diff: str) -> None:
        """Tell that this diff stands on the screen already; its result will not repeat it."""
        self._tools.diff_was_shown(diff)

    def show_whole(self, address: str) -> None:
        """Print the last tool result whole; asked again, the one before it.

        ``address`` is where everything can be read.
        """
        lines = self._tools.next_whole(address) or [Text("there are no more tool results", "dim")]
        self.console.print(*lines, Text(), sep="\n", soft_wrap=True)

    def interrupted(self) -> None:
        """End what is on the screen after the stream of events was cancelled."""
        self.finish()
        self.say(describe.INTERRUPTED, "yellow")

    def finish(self) -> None:
        """Write out what is unfinished and leave the cursor on a new line."""
        self._end_answer()
        self._end_thinking()
        self._spinner.stop()
        if self._region.live:
            for call in self._tools.calls():
                self._print(call, "tool")
        self._tools.stop()
        self._region.erase()
        self._paused = False
        self._group = ""

    def say(self, text: str, style: str = "") -> None:
        """Print a line, made harmless."""
        self._print(Text(sanitize(text), style=style), "line")

    def _print(self, text: Text, group: str) -> None:
        self._begin(group)
        self.console.print(text, soft_wrap=True)

    def _below(self) -> list[Line]:
        return self.below(self._region.width)

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
            self._said = []
            self._begin("answer")
        self._spinner.received += len(text)
        self._spinner.start("receiving", STALL_SECONDS)
        self._spinner.restart()
        self._markdown.show_below(self._below())
        self._show(self._text.feed(text))

    def _show(self, text: str) -> None:
        self._said.append(text)
        self._markdown.feed(text)

    def _end_answer(self) -> None:
        if self._answering:
            self._show(self._text.close())
            self._markdown.close()
            self._answering = False
            self.last_answer = "".join(self._said)

    def _think(self, text: str) -> None:
        self._spinner.start("thinking")
        self._spinner.received += len(text)
        if self._shows_thinking and (self._thinking or text.strip()):
            if self._thinking is None:
                self._thinking = Thinking(self._clock)
            self._thinking.feed(text)

    def _end_thinking(self) -> None:
        """Leave the reasoning folded, below how long it took."""
        thinking, self._thinking = self._thinking, None
        if thinking is not None and (rows := thinking.folded(self.console)):
            self._begin("thinking")
            self._region.commit(rows)

    def _retry(self, event: RetryScheduled) -> None:
        if self._text_in_request or not self._region.live:
            # The answer so far is void and comes again: the screen must say why.
            self.say(describe.retry(event, event.seconds), "yellow")
        self._spinner.count_down(lambda left: describe.retry(event, left), event.seconds)

    def _tool_call(self, event: ToolCallStarted) -> None:
        self._tools.start(event)
        if not self._region.live:
            self._print(self._tools.calls()[-1], "tool")
        self._spinner.start(f"running {figures.one_line(event.name, 60)}")
        self.tick()

    def _tool_result(self, event: ToolCallFinished) -> None:
        for line in self._tools.finish(event, self._region.width if self._region.live else 0):
            self._print(line, "tool")
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


def _style(event: Event) -> str:
    match event:
        case CompactionFailed():
            return "yellow"
        case Notice(_, level):
            return _LEVEL_STYLES[level]
        case _:
            return ""
