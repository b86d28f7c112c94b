"""What slash commands draw: the context, the messages, the sessions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.text import Text

from agent.events import ContextReport, SessionEntry, SessionTotals
from agent.messages import (
    Block,
    MediaBlock,
    Message,
    OpaqueBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from agent.ui import figures

if TYPE_CHECKING:
    from rich.table import Table

BAR_CELLS = 60


@dataclass(frozen=True)
class Part:
    """One part of the context: its name, size in tokens, glyph and style in the bar."""

    name: str
    tokens: int
    glyph: str
    style: str
    remark: str = ""


def grid(rows: Iterable[Sequence[Text]], right: Sequence[int] = ()) -> Table:
    """Columns without lines; the ones in ``right`` hold figures."""
    from rich.table import Table

    cells = [list(row) for row in rows]
    table = Table.grid(padding=(0, 2))
    for index in range(max((len(row) for row in cells), default=0)):
        table.add_column(justify="right" if index in right else "left", overflow="fold")
    for row in cells:
        table.add_row(*row)
    return table


def context_parts(report: ContextReport) -> tuple[Part, ...]:
    """The parts that fill the budget, in the order of the request, and what is free."""
    kept = sum(turn.tokens for turn in report.turns)
    folded = ""
    if report.folded_turns:
        turns = figures.count(report.folded_turns, "turn")
        folded = f"for {turns}, read back: {figures.one_line(report.folded_address)}"
    free = max(report.size.budget - report.size.tokens, 0)
    return (
        Part("system", report.system, "█", "blue"),
        Part("tools", report.tools, "▓", "cyan"),
        Part("summary", report.summary - report.ledger, "▒", "magenta", folded),
        Part("ledger", report.ledger, "░", "magenta", "kept by the program"),
        Part("turns", kept, "█", "green", figures.count(len(report.turns), "turn")),
        Part("free", free, "·", "dim"),
    )


def bar(parts: Sequence[Part], cells: int = BAR_CELLS) -> Text:
    """The parts' shares as one line of ``cells`` cells; a part that is not empty has at least one.

    The last part is the free room and takes what rounding leaves.
    """
    whole = sum(part.tokens for part in parts) or 1
    text = Text()
    for part in parts[:-1]:
        room = cells - len(text)
        wanted = round(part.tokens * cells / whole)
        width = min(max(wanted, 1), room) if part.tokens else 0
        text.append(part.glyph * width, part.style)
    return text.append(parts[-1].glyph * (cells - len(text)), parts[-1].style)


def context_summary(report: ContextReport) -> Text:
    """The line above the bar: used, budget, window."""
    size = report.size
    window = f"window {figures.tokens(size.window)}"
    source = f" ({figures.one_line(report.window_source)})" if report.window_source else ""
    return Text.assemble(
        (figures.one_line(report.model), "bold"),
        f" · {figures.tokens(size.tokens)} of {figures.tokens(size.budget)} tokens (",
        (figures.share(size), figures.share_style(size)),
        f") · {window}{source}",
    )


def context_view(report: ContextReport) -> list[Text | Table]:
    """``/context``: how full the window is, and with what."""
    parts = context_parts(report)
    legend = [
        [
            Text(part.glyph, part.style),
            Text(part.name),
            Text(figures.tokens(part.tokens)),
            Text(part.remark, "dim"),
        ]
        for part in parts
        if part.tokens or part.name not in ("summary", "ledger")
    ]
    view: list[Text | Table] = [context_summary(report), bar(parts), grid(legend, right=[2])]
    if report.output_reserve:
        reserve = figures.tokens(report.output_reserve)
        view.append(Text(f"{reserve} tokens of the window are kept for the answer", "dim"))
    if report.turns:
        rows = [
            [
                Text(f"turn {turn.turn}"),
                Text(figures.tokens(turn.tokens)),
                Text(figures.one_line(turn.first_words, 50)),
                Text(figures.one_line(turn.address), "dim"),
            ]
            for turn in report.turns
        ]
        view += [Text(), grid(rows, right=[1])]
    return view


def _described(block: Block) -> tuple[str, str]:
    """What a block is, in a word, and what it says."""
    match block:
        case TextBlock(text):
            return "text", text
        case ThinkingBlock(thinking, _):
            return "thinking", thinking
        case ToolUseBlock(_, name, arguments):
            said = " ".join(f"{key}={value}" for key, value in arguments.items())
            return f"call {figures.one_line(name, 30)}", said
        case OpaqueBlock(data):
            said = " ".join(str(value) for value in data.values())
            return figures.one_line(block.kind, 30) or "other", said
        case MediaBlock():
            return block.media_type, block.line
        case ToolResultBlock():
            return "error result" if block.is_error else "result", block.told


def messages_view(messages: Sequence[Message]) -> Table:
    """``/messages``: one line for each message of the next request."""
    rows = []
    for number, message in enumerate(messages, 1):
        blocks = [_described(block) for block in message.blocks]
        size = sum(len(text) for _, text in blocks)
        rows.append(
            [
                Text(str(number), "dim"),
                Text(message.role, "bold" if message.role == "user" else ""),
                Text(f"{figures.tokens(size)} chars"),
                Text(", ".join(kind for kind, _ in blocks), "cyan"),
                Text(figures.one_line(" ".join(text[:200] for _, text in blocks), 60)),
            ]
        )
    return grid(rows, right=[0, 2])


def sessions_view(sessions: Sequence[SessionEntry], now: float) -> Text:
    """``/sessions``: one line each, cut at the screen's edge; see :func:`session_lines`."""
    lines = session_lines(sessions, now)
    return Text("\n", no_wrap=True, overflow="ellipsis", end="").join(lines)


def session_lines(sessions: Sequence[SessionEntry], now: float) -> list[Text]:
    """Sessions in columns: id, how long ago, turns, tokens, size, first words.

    The open one has a mark; ``now`` is in seconds since the epoch.
    """
    rows = [
        (
            f"{'*' if entry.current else ' '} {figures.one_line(entry.id)}",
            figures.age(max(now - entry.modified, 0)),
            figures.count(entry.turns, "turn"),
            f"{'?' if entry.tokens is None else figures.tokens(entry.tokens)} tokens",
            figures.size(entry.size),
        )
        for entry in sessions
    ]
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for entry, row in zip(sessions, rows, strict=True):
        pads = [" " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)]
        figures_ = [pad + cell for cell, pad in zip(row[1:], pads[1:], strict=True)]
        line = Text(row[0] + pads[0], "bold" if entry.current else "")
        line.append("  ".join(("", *figures_)), "not bold")
        lines.append(line.append(f"  {figures.one_line(entry.first_words)}", "dim not bold"))
    return lines


def totals_view(totals: SessionTotals) -> Text:
    """``/cost``: requests, tokens and, when prices are known, dollars."""
    usage = totals.usage
    cost = "cost unknown: no prices for this model"
    if totals.cost is not None:
        cost = figures.dollars(totals.cost)
    return Text(
        f"{figures.count(totals.requests, 'request')} · in {figures.tokens(usage.prompt_tokens)} "
        f"(cached {figures.tokens(usage.cache_read_input_tokens)}, "
        f"written {figures.tokens(usage.cache_creation_input_tokens)}) · "
        f"out {figures.tokens(usage.output_tokens)} · {cost}"
    )
