"""Drafts of compactions: what each step of the ladder would record.

Making a draft changes nothing; :meth:`.engine.ContextEngine.adopt` decides about it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from agent.context import ledger, plan
from agent.context.engine import ContextEngine
from agent.context.plan import FoldPlan
from agent.context.summary import summary_tokens
from agent.events import Trigger
from agent.transcript.records import CompactionRecord
from agent.transcript.view import apply

_CHARS_PER_TOKEN = 3

KEPT_SHARE = 0.6
"""The part of the budget, beside system prompt and tools, that kept turns may take."""

LEAST_SUMMARY = 300
"""Room in tokens for a summary and a ledger beside the kept turns; both adapt to it."""

TARGET = 0.5
"""The part of the budget that a view may fill after a compaction, where kept turns allow it."""

_CUT_MARGIN = 0.9
"""Heads and tails may be denser in tokens than the text they are taken from."""


@dataclass(frozen=True)
class Descent:
    """How the ladder is to be gone down this time.

    ``factor`` corrects estimates; ``window`` is a window that a refusal has told, or 0.
    """

    trigger: Trigger
    keep: int
    use_model: bool
    factor: float
    focus: str = ""
    window: int = 0


def affordable_keep(engine: ContextEngine, descent: Descent) -> int:
    """How many finished turns stay word for word beside a summary.

    As many as leave room for the conversation to go on, so that the next fold is far
    away: each one writes the prompt cache anew.
    """
    view = replace(engine.view, factor=descent.factor)
    meter = engine.meter
    free = engine.budget.tokens - meter.system(view) - meter.tools(view)
    room = round(KEPT_SHARE * free) - LEAST_SUMMARY
    if view.running:
        room -= meter.messages(view, view.turns[-1].messages)
    return plan.fitting_keep(
        view,
        max(descent.keep, 0),
        max(room, 0),
        lambda turn: meter.messages(view, turn.messages),
    )


def summary_draft(
    engine: ContextEngine, descent: Descent, folding: FoldPlan, body: str
) -> CompactionRecord:
    """A fold whose summary a model has written; a ledger is added to it."""
    room = ledger.ledger_tokens(engine.budget.tokens)
    return _folding_draft(engine, descent, folding, "summary", body, room)


REACH = 0.75
"""A prepared summary must bring the view to this part of the budget; else it came too early."""


def reaches(engine: ContextEngine, descent: Descent, folding: FoldPlan, body: str) -> bool:
    """Whether a fold leaves enough room for the conversation to go on."""
    draft = summary_draft(engine, descent, folding, body)
    after = engine.meter.whole(apply(engine.view, draft))
    return after <= REACH * engine.budget.tokens


def digest_draft(engine: ContextEngine, descent: Descent, folding: FoldPlan) -> CompactionRecord:
    """A summary written by code: the last one, clipped, and a larger ledger."""
    tokens = summary_tokens(engine.budget.tokens)
    body = engine.view.summary_body[: tokens * _CHARS_PER_TOKEN]
    room = ledger.ledger_tokens(engine.budget.tokens) + tokens // 2
    return _folding_draft(engine, descent, folding, "digest", body, room)


def _folding_draft(
    engine: ContextEngine,
    descent: Descent,
    folding: FoldPlan,
    method: str,
    body: str,
    ledger_room: int,
) -> CompactionRecord:
    """The record of a fold: ``body``, and a ledger of at most ``ledger_room`` tokens.

    The ledger gives way to the kept turns, leaves half the budget free where they
    allow it, and never takes more than a third of what is folded.
    """
    view, meter, address = engine.view, engine.meter, engine.transcript.address
    past = view.past + tuple(turn.all_facts for turn in folding.fold)
    draft = CompactionRecord(
        trigger=descent.trigger,
        method=method,
        kept_from=folding.kept_from,
        summary=body,
        body=body,
        address=address(folding.fold[0].number, folding.fold[-1].number),
        folded_turns=len(folding.fold),
        factor=descent.factor,
        window=descent.window,
    )
    bare = apply(view, draft)
    folded = replace(bare, turns=folding.fold, summary=view.summary)
    third = meter.messages(bare, folded.messages) // 3
    taken = meter.whole(bare)
    free = max(round(TARGET * engine.budget.tokens) - taken, ledger.LEAST_TOKENS)
    room = max(min(ledger_room, third, free, engine.budget.tokens - taken), 0)
    known = "\n".join((body, *(message.text for turn in bare.turns for message in turn.messages)))
    kept = ledger.render_ledger(
        past, address, round(room / descent.factor), known, summarised=method == "summary"
    )
    return replace(draft, summary="\n\n".join(part for part in (body, kept) if part))


def stub_results(
    engine: ContextEngine, descent: Descent, folding: FoldPlan
) -> CompactionRecord | None:
    """Lines with an address in place of the long results of old turns, if there are any."""
    replaced = plan.stub_results(folding.fold, engine.transcript.result_address)
    if not replaced:
        return None
    return replace(_clipping_draft(engine, descent), method="stub", replaced=replaced)


def tell_older_calls(engine: ContextEngine, descent: Descent) -> CompactionRecord | None:
    """The running turn's calls told as text, all but the last group, if there are any."""
    count = plan.call_groups(engine.view.turns[-1].messages) - 2
    return _telling_draft(engine, descent, count) if count > 0 else None


def tell_all_calls(engine: ContextEngine, descent: Descent) -> CompactionRecord | None:
    """The running turn's calls told as text, the last group too, if there are any."""
    count = plan.call_groups(engine.view.turns[-1].messages)
    return _telling_draft(engine, descent, count) if count > 0 else None


def _telling_draft(engine: ContextEngine, descent: Descent, count: int) -> CompactionRecord:
    turn = engine.view.turns[-1]
    transcript = engine.transcript
    whole = transcript.address(turn.number, turn.number)
    chars = engine.budget.tokens * _CHARS_PER_TOKEN // 5
    return replace(
        _clipping_draft(engine, descent),
        told=plan.tell(turn, count, whole, transcript.result_address, chars),
        told_messages=count,
        address=whole,
    )


def cut_newest_results(engine: ContextEngine, descent: Descent) -> CompactionRecord | None:
    """The newest results cut to the room there is, head and tail kept, if there are any."""
    view, meter = replace(engine.view, factor=descent.factor), engine.meter
    newest = view.turns[-1].messages[-1]
    if not newest.tool_results:
        return None
    tokens = meter.messages(view, (newest,))
    room = max(engine.budget.tokens - (meter.whole(view) - tokens), 0)
    length = sum(len(result.told) for result in newest.tool_results)
    text = tokens - sum(media.tokens for media in newest.media)
    chars = round(length * min(room / max(text, 1), 1) * _CUT_MARGIN)
    address = engine.transcript.result_address
    return replace(
        _clipping_draft(engine, descent), replaced=plan.clip_results(newest, chars, address)
    )


def _clipping_draft(engine: ContextEngine, descent: Descent) -> CompactionRecord:
    """A compaction that folds no turn; the summary stays as it is."""
    view = engine.view
    return CompactionRecord(
        trigger=descent.trigger,
        method="clip",
        kept_from=view.turns[0].number,
        summary=view.summary,
        body=view.summary_body,
        factor=descent.factor,
        window=descent.window,
    )
