"""Writes the summary of a fold: inline where that works, else told; now or ahead of time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from agent.context.background import Prepared
from agent.context.budget import lower_window
from agent.context.drafts import Descent, affordable_keep
from agent.context.engine import ContextEngine
from agent.context.overflow import classify
from agent.context.plan import FoldPlan, plan_fold
from agent.context.summary import (
    Summariser,
    Summary,
    SummaryTooLargeError,
    SummaryToolCallError,
    inline_request,
    summarise_inline,
    summarise_told,
    summary_tokens,
)
from agent.errors import ProviderError
from agent.events import Event
from agent.messages import Usage

PREPARE_FROM = 0.85
"""The part of the budget from which on the next summary is prepared.

Earlier, what is prepared covers too little of what is due when the budget is full."""


SUMMARY_PATIENCE_SECONDS = 30.0
"""How long a busy server is waited for when a summary is due; then code folds."""


async def write_summary(
    engine: ContextEngine,
    descent: Descent,
    folding: FoldPlan,
    tell: Callable[[Event], None] | None = None,
) -> Summary:
    """The model's summary of the folded turns and the previous summary.

    Within the live conversation where the model is the same one and it all fits;
    otherwise, or when the model answers with a tool call, told as text. With ``tell``,
    a busy server is waited for, and ``tell`` is given what is waited for.

    :raises SummaryError: the model's answer is not usable.
    :raises ProviderError: the server refused or failed.
    """
    summariser = engine.summariser
    if tell is not None:
        summariser = replace(summariser, patience_seconds=SUMMARY_PATIENCE_SECONDS, tell=tell)
    view = replace(engine.view, factor=descent.factor)
    spent = Usage()
    if summariser.model == view.model and engine.provider.summary_form == "inline":
        try:
            return await _inline(engine, summariser, descent, folding)
        except (SummaryTooLargeError, SummaryToolCallError) as error:
            spent = error.usage
        except ProviderError as error:
            if classify(error) is None:
                raise
    tokens = summary_tokens(engine.budget.tokens)
    try:
        told = await summarise_told(summariser, view, folding, tokens, descent.focus)
    except ProviderError as error:
        overflow = classify(error)
        if overflow is None or overflow.limit is None or engine.summary_budget is None:
            raise
        engine.summary_budget = lower_window(engine.summary_budget, overflow.limit)
        summariser = replace(summariser, budget=engine.summariser.budget)
        told = await summarise_told(summariser, view, folding, tokens, descent.focus)
    return Summary(told.text, spent + told.usage)


async def _inline(
    engine: ContextEngine, summariser: Summariser, descent: Descent, folding: FoldPlan
) -> Summary:
    """Ask within the live conversation.

    A refusal because of the answer's length is met with a shorter one, once; a
    window that a refusal tells is learnt.
    """
    view = replace(engine.view, factor=descent.factor)
    request = inline_request(view, folding, engine.budget, descent.focus)
    meter = engine.meter
    size = meter.system(view) + meter.tools(view) + meter.messages(view, request.messages)
    uncertain = size // 2
    while True:
        try:
            return await summarise_inline(summariser, request, size, uncertain)
        except ProviderError as error:
            overflow = classify(error)
            if overflow is None or not overflow.limit:
                raise
            engine.budget = lower_window(engine.budget, overflow.limit)
            summariser = replace(summariser, budget=engine.summariser.budget)
            if overflow.kind != "input_plus_output" or not overflow.size or not uncertain:
                raise
            size, uncertain = overflow.size, 0


def prepare_ahead(engine: ContextEngine) -> None:
    """Start the next summary in the background, if the budget is getting full.

    Nothing happens while one is in preparation or ready, while a turn is running, or
    while the breaker is open. What is prepared is the fold that would be due now.
    """
    size, view = engine.size(), engine.view
    filling = size.tokens >= PREPARE_FROM * size.budget
    if not (filling and engine.background.idle and engine.breaker.allows(view.last_turn + 1)):
        return
    descent = Descent("auto", engine.keep_recent_turns, use_model=True, factor=view.factor)
    folding = plan_fold(view, affordable_keep(engine, descent))
    if folding is None or view.running:
        return

    async def prepare() -> Prepared:
        return Prepared(folding.fold, await write_summary(engine, descent, folding))

    engine.background.start(asyncio.create_task(prepare()))
