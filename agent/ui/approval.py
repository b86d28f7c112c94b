"""Asks a person whether a tool may act."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from rich.text import Text

from agent.tools.base import Action, Decision
from agent.ui.diff import diff_lines
from agent.ui.render import EventPrinter
from agent.ui.sanitize import reveal

QUESTION = "y yes · a always this exact one · n no · or say why not [no] "
REASON = "why not? (goes to the model; Enter for none) "
INTERRUPTED = "interrupted by the user"


def parse_answer(text: str) -> Decision | None:
    """The decision that an answer stands for; ``None`` when the reason of a no is to be asked.

    Only a clear yes allows anything. Nothing at all is no; any other text is a
    no with that reason.
    """
    answer = text.strip()
    match answer.lower():
        case "y" | "yes":
            return Decision(allowed=True)
        case "a" | "always":
            return Decision(allowed=True, always=True)
        case "n" | "no":
            return None
        case _:
            return Decision(allowed=False, reason=answer)


def action_lines(action: Action) -> list[Text]:
    """What a person must see to decide, whole, with everything invisible visible."""
    title = Text(reveal(action.title, one_line=True), "bold yellow")
    if not action.inside and action.kind != "execute":
        title.append(" (outside the working folder)")
    if action.protected:
        title.append(" (a protected place)")
    lines = [title]
    if action.detail and action.detail != action.diff:
        lines += [Text(line) for line in reveal(action.detail).split("\n")]
    if action.diff:
        lines += diff_lines(action.diff)
    gutter = Text("│ ", "yellow")
    return [lines[0], *(gutter + line for line in lines[1:])]


class TerminalApprover:
    """Shows an action and asks about it.

    ``read_line`` shows a prompt and returns a line; it raises ``KeyboardInterrupt``
    on Ctrl-C and ``EOFError`` on Ctrl-D. Both mean no, and Ctrl-C also calls
    ``interrupt``, which stops the turn.
    """

    def __init__(
        self,
        printer: EventPrinter,
        read_line: Callable[[str], Awaitable[str]],
        interrupt: Callable[[], None],
    ) -> None:
        self._printer = printer
        self._read_line = read_line
        self._interrupt = interrupt

    async def __call__(self, action: Action) -> Decision:
        """Ask. Returns only what was decided for this very action."""
        self._printer.pause()
        try:
            for line in action_lines(action):
                self._printer.console.print(line, soft_wrap=True)
            self._printer.diff_was_shown(action.diff)
            decision = parse_answer(await self._read_line(QUESTION))
            if decision is None:
                reason = await self._read_line(REASON)
                decision = Decision(allowed=False, reason=reason.strip())
        except KeyboardInterrupt:
            self._interrupt()
            decision = Decision(allowed=False, reason=INTERRUPTED)
        except EOFError:
            decision = Decision(allowed=False)
        finally:
            self._printer.resume()
        return decision
