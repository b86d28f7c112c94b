"""The ladder: the steps that bring a conversation under its budget, in order.

stub, summarise (or digest), fewer kept turns, clip. Each step is a transaction: it
makes the view smaller and is recorded, or nothing has changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import replace
from functools import partial

from agent.context import drafts, plan
from agent.context.budget import lower_window
from agent.context.drafts import Descent
from agent.context.engine import ContextEngine
from agent.context.overflow import Overflow, classify
from agent.context.plan import FoldPlan
from agent.context.shedding import shed_half, shed_over_limits
from agent.context.summariser import write_summary
from agent.context.summary import Summary, SummaryError, summary_tokens
from agent.context.validity import history_fault
from agent.errors import ContextTooLargeError, ProviderError
from agent.events import (
    CompactionFailed,
    CompactionFinished,
    CompactionPreview,
    CompactionStarted,
    Event,
    EventStream,
    Notice,
)
from agent.messages import Usage
from agent.tasks import Telling
from agent.transcript.records import CompactionRecord, UncompactRecord
from agent.transcript.view import apply

LEAST_ANSWER = 256
"""An answer of fewer tokens is of no use."""


async def fit(engine: ContextEngine) -> EventStream:
    """Before a request: bring the view under the budget if it is over.

    :raises ContextTooLargeError: what cannot be folded exceeds the window.
    :raises TranscriptError: a compaction could not be saved.
    """
    for event in shed_over_limits(engine):
        yield event
    size = await engine.measure()
    if size.tokens <= size.budget:
        return
    await _require_room(engine, unfoldable(engine))
    worthwhile = unfoldable(engine) + drafts.LEAST_SUMMARY <= size.budget
    if not worthwhile:
        # Folding cannot reach the budget, so it is left alone while there is room.
        for notice in _tell_unfoldable(engine):
            yield notice
        if size.tokens <= engine.budget.most_input:
            return
    factor = _calibrated(engine, size.tokens)
    descent = Descent("auto", engine.keep_recent_turns, use_model=worthwhile, factor=factor)
    async with aclosing(_descend(engine, descent, size.tokens)) as events:
        async for event in events:
            yield event


async def compact(engine: ContextEngine, focus: str = "") -> EventStream:
    """Fold every finished turn, because the user asked for it.

    :raises TranscriptError: the compaction could not be saved.
    """
    folding = plan.plan_fold(engine.view, 0)
    if folding is None:
        yield Notice("nothing to fold: no turn was finished since the last compaction")
        return
    size = engine.size().tokens
    yield CompactionStarted("manual", size)
    factor = _calibrated(engine, size)
    descent = Descent("manual", 0, use_model=True, factor=factor, focus=focus)
    async with aclosing(_fold(engine, descent, folding, size)) as events:
        async for event in events:
            yield event


def preview(engine: ContextEngine) -> CompactionPreview | None:
    """What :func:`compact` would do, without doing it; ``None`` if there is nothing to fold."""
    folding = plan.plan_fold(engine.view, 0)
    if folding is None:
        return None
    size = engine.size().tokens
    descent = Descent("manual", 0, use_model=False, factor=_calibrated(engine, size))
    folded = engine.meter.messages(engine.view, engine.view.messages)
    words = "word " * min(summary_tokens(engine.budget.tokens) // 2, folded // 4)
    draft = drafts.summary_draft(engine, descent, folding, words)
    after = engine.meter.whole(apply(engine.view, draft))
    return CompactionPreview(draft.folded_turns, size, after, draft.address)


def uncompact(engine: ContextEngine) -> str:
    """Take the last compaction back; what was done, or why it was not, in one line.

    :raises TranscriptError: the record could not be saved; nothing has changed.
    """
    view = engine.view
    if view.before is None:
        return "there is no compaction to take back"
    if view.running:
        return "a turn is running; take the compaction back when it has ended"
    before = engine.size().tokens
    candidate = apply(view, UncompactRecord())
    if fault := history_fault(candidate.messages):
        return f"the last compaction cannot be taken back: {fault}"
    after = engine.meter.whole(candidate)
    if after > engine.budget.tokens:
        return (
            f"the last compaction is not taken back: the conversation would be about {after} "
            f"tokens, and the budget is {engine.budget.tokens}"
        )
    engine.background.drop()
    engine.transcript.append(UncompactRecord())
    engine.meter.forget()
    return f"the last compaction was taken back: {before} -> about {after} tokens"


def lower_output(engine: ContextEngine, overflow: Overflow, max_tokens: int) -> bool:
    """Whether a shorter answer alone may make a refused request fit; then it is shortened.

    ``max_tokens`` is what the request asked for. Without figures the answer is cut to
    a quarter, as long as that leaves one.
    """
    if overflow.kind != "input_plus_output":
        return False
    if overflow.size:
        engine.know_size(overflow.size)
    if overflow.limit:
        return engine.size().tokens <= engine.budget.most_input
    engine.output_cap = max_tokens // 4
    return engine.output_cap >= LEAST_ANSWER


async def rescue(engine: ContextEngine, overflow: Overflow, max_tokens: int) -> EventStream:
    """After a server refused the view as too long: learn from it and make it fit.

    No model is called. ``max_tokens`` is what the refused request asked for.

    :raises ContextTooLargeError: what cannot be folded exceeds the window.
    :raises TranscriptError: a compaction could not be saved.
    """
    real = overflow.size or engine.size().tokens
    engine.know_size(real)
    if overflow.kind == "bytes":
        shed = False
        for event in shed_half(engine):
            shed = shed or isinstance(event, CompactionFinished)
            yield event
        if shed:
            return
        tokens = max(min(engine.budget.tokens, real // 2), 1)
        engine.budget = replace(engine.budget, tokens=tokens)
    else:
        guess = _guessed_window(engine, overflow, real, max_tokens)
        engine.budget = lower_window(engine.budget, overflow.limit or guess)
    await _require_room(engine, unfoldable(engine))
    descent = Descent(
        trigger="overflow",
        keep=engine.keep_recent_turns,
        use_model=False,
        factor=_calibrated(engine, real),
        window=engine.budget.window if overflow.limit else 0,
    )
    async with aclosing(_descend(engine, descent, real)) as events:
        async for event in events:
            yield event


def _guessed_window(engine: ContextEngine, overflow: Overflow, real: int, max_tokens: int) -> int:
    """A window for a refusal without figures: a quarter less than what was refused."""
    refused = real + (max_tokens if overflow.kind == "input_plus_output" else 0)
    return max(min(engine.budget.window, refused) * 3 // 4, 1)


def _calibrated(engine: ContextEngine, real: int) -> float:
    """The factor by which the estimate of the present view becomes its real size."""
    return engine.meter.calibrated(engine.view, real)


async def _descend(engine: ContextEngine, descent: Descent, size: int) -> EventStream:
    yield CompactionStarted(descent.trigger, size)
    budget = engine.budget.tokens
    if size > budget:
        for event in _stub(engine, descent, size):
            yield event
    size = engine.size().tokens
    while size > budget:
        keep = drafts.affordable_keep(engine, descent)
        folding = plan.plan_fold(engine.view, keep)
        if folding is None:
            break
        compactions = engine.view.compactions
        async with aclosing(_fold(engine, descent, folding, size)) as events:
            async for event in events:
                yield event
        if engine.view.compactions == compactions:
            break
        size = engine.size().tokens
        descent = replace(descent, keep=keep - 1)
        if keep == 0:
            break
    if size > budget:
        for event in _clip(engine, descent, size):
            yield event
    await _require_room(engine, engine.size().tokens)


def _stub(engine: ContextEngine, descent: Descent, size: int) -> Iterator[Event]:
    """Shorten old tool results, if that alone is enough."""
    folding = plan.plan_fold(engine.view, descent.keep)
    if folding is None:
        return
    started = engine.clock()
    draft = drafts.stub_results(engine, descent, folding)
    if draft is None:
        return
    if engine.meter.whole(apply(engine.view, draft)) <= drafts.TARGET * engine.budget.tokens:
        yield _adopt(engine, descent, draft, size, started)


async def _fold(
    engine: ContextEngine, descent: Descent, folding: FoldPlan, size: int
) -> EventStream:
    """Fold turns into the summary: by the model, or by code where it cannot.

    A compaction that was asked for changes nothing when the model fails, so that it
    can be asked for again; only a history too large for the model goes to code.
    """
    started = engine.clock()
    automatic, turn = descent.trigger == "auto", engine.view.last_turn
    if automatic and (ready := await engine.background.take(folding)) is not None:
        served, summary = ready
        if drafts.reaches(engine, descent, served, summary.text):
            event = _adopt_summary(engine, descent, served, summary, size, started)
            if isinstance(event, CompactionFinished):
                yield event
                return
        engine.background.wasted += summary.usage
    engine.background.drop()
    if descent.use_model and (engine.breaker.allows(turn) or not automatic):
        writing = Telling[Event, Summary](partial(write_summary, engine, descent, folding))
        async with aclosing(writing.items()) as events:
            async for told_event in events:
                yield told_event
        try:
            written = writing.result
        except (SummaryError, ProviderError) as error:
            usage = error.usage if isinstance(error, SummaryError) else Usage()
            event = CompactionFailed(descent.trigger, " ".join(str(error).split()), usage)
            too_large = isinstance(error, ProviderError) and classify(error) is not None
        else:
            event = _adopt_summary(engine, descent, folding, written, size, started)
            too_large = False
        yield event
        if isinstance(event, CompactionFinished):
            told = engine.breaker.succeeded(turn) if automatic else ""
        else:
            told = engine.breaker.failed(turn) if automatic else ""
        if told:
            yield Notice(told, "warning")
        if isinstance(event, CompactionFinished) or not (automatic or too_large):
            return
    draft = drafts.digest_draft(engine, descent, folding)
    yield _adopt(engine, descent, draft, size, started)


def _adopt_summary(
    engine: ContextEngine,
    descent: Descent,
    folding: FoldPlan,
    summary: Summary,
    size: int,
    started: float,
) -> CompactionFinished | CompactionFailed:
    draft = drafts.summary_draft(engine, descent, folding, summary.text)
    return _adopt(engine, descent, replace(draft, usage=summary.usage), size, started)


def _clip(engine: ContextEngine, descent: Descent, size: int) -> Iterator[Event]:
    """Within the running turn: tell finished calls as text, then cut the newest results.

    A step that would not shrink the view is passed over in silence; the next one
    shrinks more.
    """
    for make_draft in (drafts.tell_older_calls, drafts.cut_newest_results, drafts.tell_all_calls):
        if size <= engine.budget.tokens or not engine.view.running:
            return
        draft = make_draft(engine, descent)
        if draft is None:
            continue
        event = _adopt(engine, descent, draft, size, engine.clock())
        if isinstance(event, CompactionFinished):
            yield event
        size = engine.size().tokens


def unfoldable(engine: ContextEngine) -> int:
    """What no step can shorten, in tokens: system prompt, tools, and the present request."""
    view, meter = engine.view, engine.meter
    request = view.turns[-1].messages[:1] if view.running else ()
    return meter.system(view) + meter.tools(view) + meter.messages(view, request)


def _tell_unfoldable(engine: ContextEngine) -> Iterator[Notice]:
    if engine.unfoldable_told:
        return
    engine.unfoldable_told = True
    view, meter = engine.view, engine.meter
    yield Notice(
        f"the budget of {engine.budget.tokens} tokens cannot be kept: the system prompt takes "
        f"{meter.system(view)} and the tools {meter.tools(view)}, with this request "
        f"{unfoldable(engine)}; nothing is folded for it. Set --max-input-tokens higher",
        "warning",
    )


async def _require_room(engine: ContextEngine, tokens: int) -> None:
    """See that ``tokens``, which nothing can shorten further, fit the window.

    An estimate is checked with the server, if all of the view is meant.

    :raises ContextTooLargeError: they do not; the message says which part is how large.
    """
    if tokens > engine.budget.window and tokens == engine.size().tokens:
        await engine.ask_size()
        tokens = engine.size().tokens
    view, meter, window = engine.view, engine.meter, engine.budget.window
    if tokens <= window:
        return
    request = meter.messages(view, view.turns[-1].messages) if view.turns else 0
    raise ContextTooLargeError(
        f"this request does not fit the model's window of {window} tokens: about {tokens} are "
        f"needed (system prompt {meter.system(view)}, tools {meter.tools(view)}, this turn "
        f"{request}); shorten the message, or choose a model with a larger window"
    )


def _adopt(
    engine: ContextEngine, descent: Descent, draft: CompactionRecord, size: int, started: float
) -> CompactionFinished | CompactionFailed:
    outcome = engine.adopt(draft, size, started)
    if isinstance(outcome, str):
        return CompactionFailed(descent.trigger, outcome, draft.usage)
    return CompactionFinished(outcome)
