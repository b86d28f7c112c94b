"""A chat in which everything foreign holds an escape sequence.

``python -m tests.ui.nasty HISTORY`` runs it; a typed number chooses the sequence.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from agent.errors import AgentError
from agent.events import (
    CompactionFailed,
    CompactionFinished,
    CompactionStarted,
    EventStream,
    Notice,
    RequestFinished,
    RequestStarted,
    RetryScheduled,
    SessionEntry,
    TextDelta,
    ThinkingDelta,
    ToolCallFinished,
    ToolCallStarted,
    ToolOutput,
    TurnStarted,
)
from agent.ui.port import SessionPort
from agent.ui.repl import run_repl
from tests.ui.screens import SEQUENCES
from tests.ui.scripted import REPORT, SIZE, USAGE, Pause, ScriptedSession, Step, finished


def wrapped(number: int) -> str:
    """A sequence between two marks that are searched for in what is written."""
    return f"Q{SEQUENCES[number]}Z"


def in_two(text: str) -> Iterator[tuple[str, str]]:
    """The text, split at every place."""
    return ((text[:place], text[place:]) for place in range(1, len(text)))


def steps(nasty: str) -> list[Step]:
    """A turn that shows a text everywhere, streamed ones split at every place."""
    diff = f"--- a/{nasty}\n+++ b/{nasty}\n@@ -1 +1 @@\n-{nasty}\n+{nasty}\n"
    turn: list[Step] = [TurnStarted(1), CompactionStarted("auto", 9)]
    turn += [CompactionFinished(replace(REPORT, address=nasty)), CompactionFailed("auto", nasty)]
    turn += [RequestStarted(1, SIZE)]
    for halves in in_two(nasty):
        turn += [*map(ThinkingDelta, halves), TextDelta(".\n\n")]
    for halves in in_two(nasty):
        turn += [TextDelta(halves[0]), TextDelta(f"{halves[1]}\n\n")]
    turn += [TextDelta(f"```{nasty}\n{nasty}\n```\n")]
    turn += [Pause(0.1), RetryScheduled(nasty, 0.1, 1), Pause(0.1), Notice(nasty, "warning")]
    turn += [RequestFinished(nasty, USAGE), ToolCallStarted("1", nasty, {nasty: nasty}, nasty)]
    for halves in in_two(nasty):
        turn += [ToolOutput("1", halves[0]), ToolOutput("1", f"{halves[1]}\n")]
    turn += [Pause(0.1), ToolCallFinished("1", nasty, nasty, False, 0.1)]
    turn += [ToolCallFinished("2", nasty, nasty, True, 0.1)]
    turn += [ToolCallFinished("3", nasty, nasty, False, 0.1, diff=diff)]
    return [*turn, finished(nasty, error=AgentError(nasty))]


@dataclass
class NastySession(ScriptedSession):
    """A session with sequences in its names, too."""

    number: int = 0

    async def send(
        self, text: str, should_yield: Callable[[], bool] = lambda: False
    ) -> EventStream:
        self.number = int(text)
        self.model = self.approval_mode = wrapped(self.number)
        self.warnings = [wrapped(self.number)]
        self.transcript = Path(wrapped(self.number).replace("\0", ""))
        async for event in self._play(steps(wrapped(self.number))):
            yield event

    def sessions(self) -> tuple[SessionEntry, ...]:
        nasty = wrapped(self.number)
        return (SessionEntry(nasty, 9.0, 1, nasty, 9, folder=nasty, current=True),)


def main() -> int:
    """Run the chat."""
    session: SessionPort = NastySession(model=wrapped(0))
    return asyncio.run(run_repl(session, None, history_path=Path(sys.argv[1])))


if __name__ == "__main__":
    sys.exit(main())
