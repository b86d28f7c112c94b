"""The last turns of a conversation that is gone on with."""

from __future__ import annotations

from rich.text import Text

from agent.context.budget import Budget
from agent.events import ContextSize, Recap
from agent.ui import describe, figures
from agent.ui.render import EventPrinter
from agent.ui.sanitize import sanitize

_QUESTION_LINES = 6


def show_recap(printer: EventPrinter, recap: Recap, budget: Budget) -> None:
    """Print the last turns as they looked, and how far the context is filled."""
    if recap.folded_turns:
        printer.say(describe.folded(recap), "dim")
    for turn in recap.turns:
        lines = sanitize(turn.text).split("\n")
        shown = lines[:_QUESTION_LINES] + (["…"] if len(lines) > _QUESTION_LINES else [])
        printer.console.print()
        printer.console.print(Text("> " + "\n  ".join(shown), "dim"), soft_wrap=True)
        for event in turn.events:
            printer.handle(event)
        printer.finish()
    if recap.tokens is not None:
        size = ContextSize(recap.tokens, budget.tokens, budget.window, exact=False)
        printer.console.print()
        printer.console.print(Text(describe.filled(size), figures.share_style(size) or "dim"))
