"""One turn: make it fit, ask the model, run tools, until the model stops.

The loop yields events and knows no screen. Every step is a record on disk before the
next begins. A consumer stops a turn by cancelling the task that iterates over it:
what was received is kept, and calls without a result are answered on the next turn.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from agent.attachments import NOTHING, Attachments
from agent.calls import ToolRunner
from agent.context import ladder
from agent.context.engine import ContextEngine
from agent.context.overflow import classify, classify_stop
from agent.errors import AgentError, ContextTooLargeError, ProviderError, TranscriptError
from agent.events import (
    TOLD_QUIET_SECONDS,
    CompactionFailed,
    CompactionFinished,
    CompactionReport,
    EventStream,
    Notice,
    RequestFinished,
    RequestStarted,
    ServerQuiet,
    TextDelta,
    ThinkingDelta,
    TurnFinished,
    TurnStarted,
)
from agent.messages import Block, TextBlock, ThinkingBlock, ToolUseBlock, Usage
from agent.providers.base import (
    BlockPart,
    EndPart,
    LackPart,
    QuietPart,
    Request,
    TextPart,
    ThinkingPart,
)
from agent.recovery import Recovery
from agent.retry import Retries
from agent.transcript.records import (
    AssistantEndRecord,
    BlockRecord,
    InterruptedRecord,
    PartialRecord,
    Record,
    RewindRecord,
    UserRecord,
)
from agent.transcript.turns import NO_ANSWER

CHECKPOINT_SECONDS = 1.0
"""How much of an answer a power cut may cost."""


def never() -> bool:
    """The answer of who never wants a turn to end early."""
    return False


@dataclass
class Turn:
    """What one turn works with, and what it adds up.

    ``prepare`` is awaited once the user's message is on disk. ``max_requests`` bounds
    the answers of the turn; ``retry_limit_seconds`` the waiting for a busy server within
    one request, ``None`` for no bound. ``should_yield`` is asked when all results of a
    message are recorded: where it says yes, the turn ends there, before the next request.
    """

    engine: ContextEngine
    tools: ToolRunner
    max_requests: int
    retry_limit_seconds: float | None
    prepare: Callable[[], Awaitable[None]]
    should_yield: Callable[[], bool] = never
    clock: Callable[[], float] = time.monotonic
    usage: Usage = field(default_factory=Usage)
    requests: int = 0
    answers: int = 0
    stop_reason: str = ""
    compactions: list[CompactionReport] = field(default_factory=list)
    summary_usage: Usage = field(default_factory=Usage)
    summaries: int = 0

    def add_summary(self, usage: Usage) -> None:
        """Count what a summary has cost; steps without a model cost nothing."""
        if usage.prompt_tokens:
            self.summaries += 1
            self.summary_usage += usage


async def run_turn(turn: Turn, text: str, attached: Attachments = NOTHING) -> EventStream:
    """Answer one typed user message; see :mod:`agent.events` for the order of events.

    Ends with ``TurnFinished`` whatever goes wrong. Only cancellation passes through.
    """
    transcript = turn.engine.transcript
    started = turn.clock()
    number = transcript.next_turn
    error: AgentError | None = None
    try:
        transcript.append(UserRecord(number, text, attached.media, attached.texts))
        yield TurnStarted(number)
        for failure in attached.failures:
            yield Notice(failure, "warning")
        await turn.prepare()
        async with aclosing(_steps(turn)) as steps:
            async for event in steps:
                if isinstance(event, CompactionFinished):
                    turn.compactions.append(event.report)
                    turn.add_summary(event.report.usage)
                elif isinstance(event, CompactionFailed):
                    turn.add_summary(event.usage)
                yield event
    except AgentError as failure:
        error = failure
        _end_early(turn, number, f"it failed: {failure}")
        if isinstance(failure, ContextTooLargeError):
            _leave_out(turn, number)
    except (asyncio.CancelledError, GeneratorExit):
        _end_early(turn, number, "by the user")
        raise
    yield TurnFinished(
        turn=number,
        text=_final_text(turn, number),
        stop_reason=turn.stop_reason,
        usage=turn.usage + turn.summary_usage,
        context=turn.engine.size(),
        seconds=turn.clock() - started,
        requests=turn.requests,
        compactions=tuple(turn.compactions),
        error=error,
    )


def _end_early(turn: Turn, number: int, reason: str) -> None:
    """Close the turn in the transcript, if it began and the transcript can be written."""
    # On resuming, a turn without an end is closed in the same way.
    if turn.engine.view.last_turn == number:
        _append_or_warn(turn, InterruptedRecord(reason))


def _leave_out(turn: Turn, number: int) -> None:
    """Take a request that fits no window out of the view, or every later one would carry it."""
    view = turn.engine.view
    if view.turns and view.turns[-1].number == number and not view.turns[-1].answered:
        _append_or_warn(turn, RewindRecord(number))


def _append_or_warn(turn: Turn, record: Record) -> None:
    """Save a record that the turn does not depend on; a failure is told at its end."""
    try:
        turn.engine.transcript.append(record)
    except TranscriptError as failure:
        turn.engine.transcript.warn(str(failure))


def _final_text(turn: Turn, number: int) -> str:
    """The text of the last assistant message of the turn; empty if there was none."""
    view = turn.engine.view
    messages = view.turns[-1].messages if view.turns and view.last_turn == number else ()
    text = messages[-1].text if messages and messages[-1].role == "assistant" else ""
    return "" if text == NO_ANSWER else text


async def _steps(turn: Turn) -> EventStream:
    """Requests and tool calls in turn, until the model stops."""
    while True:
        if turn.answers >= turn.max_requests:
            turn.stop_reason = "max_requests"
            raise AgentError(
                f"stopped after {turn.answers} requests in one turn; "
                "say how to go on, or allow more with --max-requests"
            )
        async with aclosing(_request(turn)) as events:
            async for event in events:
                yield event
        calls = _open_calls(turn)
        if not calls and turn.stop_reason != "pause_turn":
            break
        for call in calls:
            refusal = _why_not_run(call, turn.stop_reason)
            async with aclosing(turn.tools.run(call, refusal)) as events:
                async for event in events:
                    yield event
        if calls and turn.should_yield():
            turn.engine.transcript.append(InterruptedRecord("the user went on"))
            return
    if notice := _stop_notice(turn.stop_reason):
        yield notice


def _open_calls(turn: Turn) -> tuple[ToolUseBlock, ...]:
    last = turn.engine.view.turns[-1].messages[-1]
    return last.tool_uses if last.role == "assistant" else ()


def _why_not_run(call: ToolUseBlock, stop_reason: str) -> str:
    if call.defect:
        return f"Not run: {call.defect}. Send the call again, whole."
    if stop_reason != "tool_use":
        return f"Not run: the message with this call ended early ({stop_reason}). Send it again."
    return ""


def _stop_notice(stop_reason: str) -> Notice | None:
    match stop_reason:
        case "end_turn" | "stop_sequence" | "tool_use":
            return None
        case "max_tokens":
            return Notice("the answer was cut at its length limit; ask to go on", "warning")
        case "refusal":
            return Notice("the model declined to answer this", "warning")
        case _:
            return Notice(f"the answer ended unusually ({stop_reason or 'no reason'})", "warning")


async def _request(turn: Turn) -> EventStream:
    """Get one whole assistant message: fit, send, and send again where that helps."""
    engine = turn.engine
    recovery = Recovery(engine, Retries(turn.retry_limit_seconds))
    engine.output_cap = None
    while True:
        async with aclosing(ladder.fit(engine)) as events:
            async for event in events:
                yield event
        max_tokens = engine.max_tokens()
        turn.requests += 1
        yield RequestStarted(turn.requests, engine.size())
        try:
            async with aclosing(_receive(turn, engine.request(max_tokens))) as events:
                async for event in events:
                    yield event
        except ProviderError as error:
            failure, overflow = error, classify(error)
        else:
            overflow = classify_stop(turn.stop_reason)
            if overflow is None:
                return
            failure = ProviderError("the model's window is full")
        if overflow is not None:
            steps = recovery.after_overflow(overflow, failure, max_tokens)
        else:
            steps = recovery.after_failure(failure)
        async with aclosing(steps) as events:
            async for event in events:
                yield event


async def _receive(turn: Turn, request: Request) -> EventStream:
    """Receive one message; each finished block is a record at once.

    However it ends, what was received is in the transcript.
    """
    engine = turn.engine
    unfinished = _Unfinished(turn)
    try:
        async with aclosing(engine.provider.stream(request)) as parts:
            async for part in parts:
                match part:
                    case TextPart(text):
                        unfinished.add(text)
                        yield TextDelta(text)
                    case ThinkingPart(text):
                        unfinished.thinking.append(text)
                        yield ThinkingDelta(text)
                    case QuietPart(seconds, left, alive):
                        if seconds >= TOLD_QUIET_SECONDS:
                            yield ServerQuiet(seconds, left, alive)
                    case LackPart(text):
                        yield Notice(text)
                    case BlockPart(block):
                        unfinished.finish(_with_own_id(turn, block))
                    case EndPart():
                        _end_message(turn, part)
                        yield RequestFinished(part.stop_reason, part.usage)
    finally:
        unfinished.keep()


class _Unfinished:
    """The block that is being received.

    No piece of its text stays unsaved for longer than a second, also while nothing more
    comes.
    """

    def __init__(self, turn: Turn) -> None:
        self.thinking: list[str] = []
        self._turn = turn
        self._text: list[str] = []
        self._saved = 0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, text: str) -> None:
        """One more piece of text."""
        self._text.append(text)
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(CHECKPOINT_SECONDS, self._save)

    def _save(self) -> None:
        self._timer = None
        text = "".join(self._text[self._saved :])
        self._saved = len(self._text)
        _append_or_warn(self._turn, PartialRecord(text))

    def finish(self, block: Block) -> None:
        """The block is complete: save it in place of what was received of it."""
        if self._timer is not None:
            self._timer.cancel()
        self.thinking, self._text, self._saved, self._timer = [], [], 0, None
        self._turn.engine.transcript.append(BlockRecord(block))

    def keep(self) -> None:
        """Save what was received of a block that will not be completed."""
        if self._text:
            self.finish(TextBlock("".join(self._text)))
        elif self.thinking:
            self.finish(ThinkingBlock("".join(self.thinking), ""))


def _end_message(turn: Turn, end: EndPart) -> None:
    engine = turn.engine
    turn.stop_reason = end.stop_reason
    turn.answers += 1
    turn.usage += end.usage
    if classify_stop(end.stop_reason) is not None:
        # The message stays pending: it is discarded, and the request sent again.
        return
    view = engine.view
    prompt = end.usage.prompt_tokens
    if not engine.meter.believable(view, prompt):
        prompt = 0
    factor = engine.meter.learnt(view, prompt) if prompt else view.factor
    engine.transcript.append(
        AssistantEndRecord(
            end.stop_reason, view.model, end.usage, factor, prompt, engine.shown_window
        )
    )


def _with_own_id(turn: Turn, block: Block) -> Block:
    """The block, with another id where a server gave a call none or one that was used."""
    if not isinstance(block, ToolUseBlock):
        return block
    transcript = turn.engine.transcript
    if block.id and not transcript.knows_call(block.id):
        return block
    numbered = (f"toolu_{number:04d}" for number in itertools.count(transcript.call_count + 1))
    return replace(block, id=next(new for new in numbered if not transcript.knows_call(new)))
