"""The last turns of a conversation that is gone on with."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from agent.messages import Message
from agent.ui.render import EventPrinter
from agent.ui.sanitize import sanitize

TURNS = 2
"""How many turns are shown."""

_QUESTION_LINES = 6


def last_exchanges(messages: Sequence[Message], turns: int = TURNS) -> list[tuple[str, str]]:
    """The last typed texts, each with the last text that answered it (or an empty one)."""
    exchanges: list[tuple[str, str]] = []
    for message in messages:
        if message.role == "user":
            if message.text and not message.tool_results:
                exchanges.append((message.text, ""))
        elif exchanges and message.text:
            exchanges[-1] = (exchanges[-1][0], message.text)
    return exchanges[-turns:]


def show_recap(printer: EventPrinter, messages: Sequence[Message]) -> None:
    """Print the last turns as they looked, tools left out."""
    for asked, answered in last_exchanges(messages):
        lines = sanitize(asked).split("\n")
        shown = lines[:_QUESTION_LINES] + (["…"] if len(lines) > _QUESTION_LINES else [])
        printer.console.print()
        printer.console.print(Text("> " + "\n  ".join(shown), "dim"), soft_wrap=True)
        if answered:
            printer.answer(sanitize(answered))
