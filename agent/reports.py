"""What a screen is told of a session, gathered."""

from __future__ import annotations

from agent.context.engine import ContextEngine
from agent.events import ContextReport, TurnSize


def context_report(engine: ContextEngine) -> ContextReport:
    """What fills the window. Makes no request."""
    view, meter, transcript = engine.view, engine.meter, engine.transcript
    folded = ""
    if view.past:
        folded = transcript.address(view.past[0].number, view.past[-1].number)
    return ContextReport(
        size=engine.size(),
        model=view.model,
        system=meter.system(view),
        tools=meter.tools(view),
        summary=meter.messages(view, view.summary_messages),
        turns=tuple(
            TurnSize(
                turn=turn.number,
                tokens=meter.messages(view, turn.messages),
                first_words=" ".join(turn.words.split())[:60],
                address=transcript.address(turn.number, turn.number),
            )
            for turn in view.turns
        ),
        folded_turns=len(view.past),
        folded_address=folded,
        output_reserve=engine.budget.reserve,
        window_source=engine.budget.source,
        ledger=meter.ledger(view),
    )
