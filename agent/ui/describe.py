"""Events in words: one line each, harmless to a terminal, without colours."""

from __future__ import annotations

from agent.errors import AgentError
from agent.events import (
    CompactionFailed,
    CompactionFinished,
    CompactionPreview,
    CompactionReport,
    ContextSize,
    Event,
    Notice,
    Recap,
    RetryScheduled,
    ServerQuiet,
    ToolCallFinished,
    ToolCallStarted,
    TurnFinished,
)
from agent.messages import Usage
from agent.ui import figures
from agent.ui.diff import changed_lines
from agent.ui.sanitize import reveal

INTERRUPTED = "interrupted; what was received is kept"


def compaction(report: CompactionReport) -> str:
    """What a compaction did, and where the folded turns can be read."""
    parts = [
        _what_was_done(report),
        f"{figures.tokens(report.tokens_before)} -> {figures.tokens(report.tokens_after)} tokens",
        figures.seconds(report.seconds),
    ]
    if report.trigger == "manual":
        parts.append(f"kept {figures.count(report.kept_turns, 'turn')}")
        parts.append(", ".join(_cost(report.usage)))
        if report.cost is not None:
            parts.append(f"${report.cost:.4f}")
    if report.address:
        parts.append(f"read back: {figures.one_line(report.address)}")
    return "📦 " + " · ".join(parts)


def folded(recap: Recap) -> str:
    """What the summary of a conversation covers, in place of its text."""
    turns = figures.count(recap.folded_turns, "turn")
    return f"📦 {turns} in a summary · read back: {figures.one_line(recap.folded_address)}"


def filled(size: ContextSize) -> str:
    """How far the context is filled, and what follows where it is too full."""
    used, budget = figures.tokens(size.tokens), figures.tokens(size.budget)
    line = f"context {used} / {budget} · {figures.share(size)}"
    return f"{line}: it is compacted before the next request" if size.share > 1 else line


def preview(plan: CompactionPreview) -> str:
    """What a compaction would do."""
    before, after = figures.tokens(plan.tokens_before), figures.tokens(plan.tokens_after)
    return (
        f"would fold {figures.count(plan.folded_turns, 'turn')} · {before} -> about {after} tokens "
        f"· one model call · read back: {figures.one_line(plan.address)}"
    )


def _what_was_done(report: CompactionReport) -> str:
    turns = figures.count(report.folded_turns, "turn")
    match report.method:
        case "stub":
            return "put old tool results aside"
        case "shed":
            return "left images or documents out"
        case "clip":
            return "shortened the running turn"
        case "digest" if report.folded_turns:
            return f"folded {turns} without the model"
        case "summary" if report.folded_turns:
            return f"folded {turns}"
        case _:
            return "shortened the summary"


def _cost(usage: Usage) -> list[str]:
    """What was read and written, in tokens."""
    cached = usage.cache_read_input_tokens
    share = f" (cached {figures.tokens(cached)})" if cached else ""
    prompt, output = figures.tokens(usage.prompt_tokens), figures.tokens(usage.output_tokens)
    return [f"in {prompt}{share}", f"out {output}"]


def compaction_failed(event: CompactionFailed) -> str:
    """Why a compaction was not adopted."""
    return f"not compacted, nothing has changed: {figures.one_line(event.reason)}"


def retry(event: RetryScheduled, remaining: float) -> str:
    """Why a request is sent again, and when; ``remaining`` in seconds."""
    again = f"trying again in {figures.whole_seconds(max(remaining, 0.0))}"
    attempt = f" (attempt {event.attempt})" if event.attempt > 1 else ""
    return f"{figures.one_line(event.reason)}: {again}{attempt}"


def quiet(event: ServerQuiet, remaining: float) -> str:
    """How long the server has been silent, and how long it is still waited for."""
    silence = figures.whole_seconds(event.seconds)
    most = f"waiting at most {figures.whole_seconds(remaining)} more"
    if event.alive:
        return f"the server is there, but has sent no content for {silence}: {most}"
    return f"nothing from the server for {silence}: {most}"


def tool_call(event: ToolCallStarted) -> str:
    """A tool's name and main argument, with everything invisible visible."""
    name, summary = figures.one_line(event.name, 60), figures.one_line(reveal(event.summary))
    return f"{name} {summary}".rstrip()


def tool_result(event: ToolCallFinished) -> str:
    """Whether a tool failed, how much it returned, and how long it took."""
    lines = len(event.content.splitlines())
    size = figures.size(len(event.content.encode("utf-8", "replace")))
    parts = [figures.count(lines, "line"), size, figures.seconds(event.seconds)]
    if event.diff:
        added, removed = changed_lines(event.diff)
        parts = [f"+{added} -{removed}", figures.seconds(event.seconds)]
    return " · ".join(["failed", *parts] if event.is_error else parts)


def turn(event: TurnFinished) -> str:
    """Tokens of the turn, how full the context is, and seconds."""
    context = f"context {figures.share(event.context)}"
    return " · ".join([*_cost(event.usage), context, figures.seconds(event.seconds)])


def error(failure: BaseException) -> str:
    """A failure in one line; one that this program did not raise is named by its type."""
    text = figures.one_line(str(failure), 600)
    if isinstance(failure, AgentError) and text:
        return f"error: {text}"
    what = f"error: unexpected {type(failure).__name__}: {text}".rstrip(": ")
    return f"{what}; with --debug the traceback goes to a file"


def notice(event: Notice) -> str:
    """A notice, with its level when it is more than information."""
    text = figures.one_line(event.text, 600)
    return text if event.level == "info" else f"{event.level}: {text}"


def progress(event: Event) -> str:
    """The line that a log shows of an event; empty for events that a log leaves out."""
    match event:
        case CompactionFinished(report):
            return compaction(report)
        case CompactionFailed():
            return compaction_failed(event)
        case RetryScheduled():
            return retry(event, event.seconds)
        case ServerQuiet():
            return quiet(event, event.left)
        case ToolCallStarted():
            return tool_call(event)
        case ToolCallFinished():
            return f"{figures.one_line(event.name, 60)}: {tool_result(event)}"
        case Notice():
            return notice(event)
        case TurnFinished() if event.error is not None:
            return error(event.error)
        case _:
            return ""
