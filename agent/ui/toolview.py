"""Tool calls on the screen: one line each, and the first lines of what they returned."""

from __future__ import annotations

from collections import deque

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from agent.events import ToolCallFinished, ToolCallStarted, ToolOutput
from agent.ui import describe, figures
from agent.ui.diff import diff_lines
from agent.ui.live import Line
from agent.ui.sanitize import StreamSanitizer, sanitize

RESULT_LINES = 3
"""Lines of a tool's result that are shown."""

ERROR_LINES = 6
DIFF_LINES = 60
OUTPUT_LINES = 4
"""Lines of a running tool's output on the screen at a time."""

KEPT_RESULTS = 20
"""How many of the last results can be shown whole."""

WHOLE_LINES = 1_000
"""Lines of a result that are shown at most when it is shown whole."""

_LEAST_ARGUMENT = 12
_MAX_LINE = 400
_DOT = "● "


class ToolCalls:
    """The tool calls on the screen: those that run, and the last that can be shown whole."""

    def __init__(self) -> None:
        self._running: dict[str, str] = {}
        self._tails: dict[str, _OutputTail] = {}
        self._results: deque[tuple[str, ToolCallFinished]] = deque(maxlen=KEPT_RESULTS)
        self._to_show = 0
        self._shown_diff = ""

    def start(self, event: ToolCallStarted) -> None:
        """A call begins."""
        self._running[event.id] = describe.tool_call(event)

    def output(self, event: ToolOutput) -> None:
        """A running call printed something."""
        self._tails.setdefault(event.id, _OutputTail()).feed(event.text)

    def stop(self) -> None:
        """Nothing runs any more."""
        self._to_show = 0
        self._running.clear()
        self._tails.clear()

    def diff_was_shown(self, diff: str) -> None:
        """A diff stands on the screen already; its result will not repeat it."""
        self._shown_diff = diff

    def calls(self) -> list[Text]:
        """The running calls, one line each."""
        return [call_line(call) for call in self._running.values()]

    def outputs(self) -> list[Line]:
        """The last lines that running calls printed."""
        lines = [line for tail in self._tails.values() for line in tail.lines()]
        return lines[-OUTPUT_LINES:]

    def finish(self, event: ToolCallFinished, width: int = 0) -> list[Text]:
        """A call's end, in lines: what it was, unless ``width`` is 0, and what it returned."""
        call = self._running.pop(event.id, figures.one_line(event.name, 60))
        self._tails.pop(event.id, None)
        self._results.append((call, event))
        result = Text(describe.tool_result(event), "red" if event.is_error else "dim")
        known = _has_diff(event) and event.diff == self._shown_diff
        said = [] if known else _returned(event)
        limit = DIFF_LINES if _has_diff(event) else RESULT_LINES
        limit = ERROR_LINES if event.is_error else limit
        self._shown_diff = ""
        shown = [Text("  ").append_text(_preview(line)) for line in said[:limit]]
        if len(said) > limit:
            more = figures.count(len(said) - limit, "more line")
            shown.append(Text(f"  … {more}: Ctrl-O", "dim"))
        if not width:
            return [*shown, Text("  ").append_text(result)]
        return [call_line(call, result, width), *shown]

    def next_whole(self, address: str) -> list[Text]:
        """The last result whole; asked again, the one before it, and so on; then nothing.

        ``address`` is where what is too long for a screen can be read.
        """
        self._to_show += 1
        if self._to_show > len(self._results):
            self._to_show = 0
            return []
        call, event = self._results[-self._to_show]
        said = _returned(event)
        lines = [call_line(call, Text(describe.tool_result(event), "dim")), *said[:WHOLE_LINES]]
        if len(said) > WHOLE_LINES:
            more = figures.count(len(said) - WHOLE_LINES, "more line")
            lines.append(Text(f"… {more}: {figures.one_line(address)}", "dim"))
        return lines


def call_line(call: str, result: Text | None = None, width: int = 0) -> Text:
    """A call in one line; with a width, its argument is cut so that the line fits."""
    name, _, argument = call.partition(" ")
    end = Text.assemble((" · ", "dim"), result) if result else Text()
    if width:
        room = width - cell_len(f"{_DOT}{name} ") - end.cell_len
        room = max(room, _LEAST_ARGUMENT)
        if cell_len(argument) > room:
            argument = set_cell_size(argument, room - 1).rstrip() + "…"
    return Text.assemble(_DOT, (name, "bold"), f" {argument}".rstrip(), end)


def _has_diff(event: ToolCallFinished) -> bool:
    return bool(event.diff) and not event.is_error


def _returned(event: ToolCallFinished) -> list[Text]:
    """The lines of a result, harmless."""
    if _has_diff(event):
        return diff_lines(event.diff)
    return [Text(line) for line in sanitize(event.content).rstrip("\n").split("\n")]


def _preview(line: Text) -> Text:
    """A line, cut to a length worth showing; dimmed, if it has no colours of its own."""
    if not line.spans:
        line.style = "dim"
    line.truncate(_MAX_LINE, overflow="ellipsis")
    return line


class CommandOutput:
    """What a command of the user's prints, in whole lines; ``line`` is the one in progress."""

    def __init__(self) -> None:
        self._sanitizer = StreamSanitizer()
        self.line = ""

    def take(self, text: str, *, final: bool) -> list[str]:
        """Take more; the lines that are whole now. With ``final``, the last one is, too."""
        more = self._sanitizer.feed(text) + (self._sanitizer.close() if final else "")
        *whole, self.line = (self.line + more).split("\n")
        if final and self.line:
            whole.append(self.line)
            self.line = ""
        return whole


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
