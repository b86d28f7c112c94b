"""A session that plays scripts instead of asking a model.

``python -m tests.ui.scripted HISTORY [PROMPT]`` runs the interactive chat on it;
what is typed chooses the script (see ``SCRIPTS``).
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from agent.context.budget import Budget
from agent.errors import AgentError, ProviderBusyError, SessionError
from agent.events import (
    CompactionFailed,
    CompactionFinished,
    CompactionPreview,
    CompactionReport,
    CompactionStarted,
    ContextReport,
    ContextSize,
    Event,
    EventStream,
    Notice,
    PastTurn,
    Recap,
    RequestFinished,
    RequestStarted,
    RetryScheduled,
    SessionEntry,
    SessionTotals,
    TextDelta,
    ThinkingDelta,
    ToolCallFinished,
    ToolCallStarted,
    ToolOutput,
    TurnFinished,
    TurnSize,
    TurnStarted,
)
from agent.messages import Message, Usage, assistant_text, user_text
from agent.tools.base import Action, Approver, Decision
from agent.ui.port import SessionPort
from tests.ui.documents import DOCUMENT

SIZE = ContextSize(tokens=38_200, budget=140_000, window=200_000, exact=True)
USAGE = Usage(
    input_tokens=1_300,
    output_tokens=512,
    cache_read_input_tokens=11_000,
    cache_creation_input_tokens=0,
)
REPORT = CompactionReport(
    trigger="auto",
    method="summary",
    folded_turns=7,
    tokens_before=12_300,
    tokens_after=3_100,
    seconds=4.2,
    address=".transcripts/s1.md:1-188",
)
ANSWER = """# Result

Some **bold** words, `code` and 日本語.

1. first
2. second

```python
def add(a: int, b: int) -> int:
    return a + b
```

| name | value |
|------|------:|
| one  |     1 |

Done.
"""
DIFF = "--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n same\n-old\n+new\n"


@dataclass(frozen=True)
class Pause:
    """Wait this many seconds in a script."""

    seconds: float


@dataclass(frozen=True)
class Ask:
    """Ask for approval in a script; the answer is noted in the session's ``decisions``."""

    action: Action


@dataclass(frozen=True)
class Fail:
    """Raise an exception in a script."""

    error: Exception


Step = Event | Pause | Ask | Fail


def finished(
    text: str = "", *, error: AgentError | None = None, stop_reason: str = "end_turn", turn: int = 1
) -> TurnFinished:
    """The last event of a turn."""
    return TurnFinished(
        turn=turn,
        text=text,
        stop_reason=stop_reason,
        usage=USAGE,
        context=SIZE,
        seconds=3.4,
        requests=1,
        error=error,
    )


def answer(text: str, piece: int = 7, pause: float = 0.0) -> list[Step]:
    """A turn that answers with a text, in pieces of some characters."""
    steps: list[Step] = [TurnStarted(1), RequestStarted(1, SIZE)]
    for start in range(0, len(text), piece):
        steps.append(TextDelta(text[start : start + piece]))
        if pause:
            steps.append(Pause(pause))
    return [*steps, RequestFinished("end_turn", USAGE), finished(text)]


def _shell(command: str) -> Action:
    return Action("execute", "Run a command", command, f"shell:{command}", inside=False)


def _edit() -> Action:
    return Action("write", "Edit x.py", DIFF, "edit:x.py", inside=True, diff=DIFF)


def _tools() -> list[Step]:
    command = "ls \u202eevil\nrm -rf build"
    return [
        TurnStarted(1),
        RequestStarted(1, SIZE),
        TextDelta("I will look."),
        RequestFinished("tool_use", USAGE),
        ToolCallStarted("t1", "shell", {"command": command}, command),
        Ask(_shell(command)),
        *[ToolOutput("t1", f"line {number}\n") for number in range(20)],
        Pause(0.3),
        ToolCallFinished("t1", "shell", "\n".join(f"line {n}" for n in range(20)), False, 0.4),
        ToolCallStarted("t2", "edit_file", {"path": "x.py"}, "x.py"),
        Ask(_edit()),
        ToolCallFinished("t2", "edit_file", "edited", False, 0.1, diff=DIFF),
        *answer("Both done.")[1:],
    ]


SCRIPTS: dict[str, Callable[[], list[Step]]] = {
    "markdown": lambda: answer(ANSWER, pause=0.005),
    "document": lambda: answer(DOCUMENT, pause=0.01),
    "slow": lambda: [
        TurnStarted(1),
        RequestStarted(1, SIZE),
        *[step for n in range(3000) for step in (TextDelta(f"word{n} "), Pause(0.02))],
    ],
    "wait": lambda: [
        TurnStarted(1),
        RequestStarted(1, SIZE),
        Pause(1.5),
        ThinkingDelta("hm"),
        Pause(1.0),
        *answer("At last.")[2:],
    ],
    "tools": _tools,
    "ask": lambda: [
        TurnStarted(1),
        ToolCallStarted("t1", "shell", {}, "make"),
        Ask(_shell("make")),
        ToolCallFinished("t1", "shell", "not allowed", True, 0.0),
        Pause(0.2),
        *answer("So be it.")[1:],
    ],
    "busy": lambda: [
        TurnStarted(1),
        RequestStarted(1, SIZE),
        RetryScheduled("overloaded", 2.0, 1),
        Pause(2.0),
        *answer("Now it worked.")[1:],
    ],
    "fold": lambda: [
        TurnStarted(1),
        CompactionStarted("auto", 12_300),
        Pause(0.5),
        CompactionFailed("auto", "the summary was empty"),
        CompactionFinished(REPORT),
        Notice("a notice", "warning"),
        *answer("Folded.")[1:],
    ],
    "fail": lambda: [
        TurnStarted(1),
        finished(error=ProviderBusyError("the server stayed busy; try again later")),
    ],
    "long": lambda: [TurnStarted(1), replace(finished("Long."), seconds=20.1)],
    "boom": lambda: [TurnStarted(1), Fail(KeyError("boom"))],
}


@dataclass
class ScriptedSession:
    """Implements the session's interface by playing scripts."""

    scripts: dict[str, Callable[[], list[Step]]] = field(default_factory=lambda: dict(SCRIPTS))
    id: str = "s1"
    model: str = "scripted-1"
    approval_mode: str = "ask"
    sandboxed: bool = False
    transcript: Path = Path(".transcripts/s1.md")
    system: str = "You are a script."
    approver: Approver | None = None
    sent: list[str] = field(default_factory=list)
    received: str = ""
    closed_streams: int = 0
    decisions: list[Decision] = field(default_factory=list)
    warmed_up: bool = False
    warnings: list[str] = field(default_factory=list)

    @property
    def saved(self) -> bool:
        return bool(self.sent)

    def set_approver(self, approver: Approver | None) -> None:
        self.approver = approver

    async def run_command(self, command: str, emit: Callable[[str], None], *, attach: bool) -> str:
        emit(f"output of {command}\n")
        return f"attached: {attach}"

    async def send(
        self, text: str, should_yield: Callable[[], bool] = lambda: False
    ) -> EventStream:
        self.sent.append(text)
        said = f"warmed up: {self.warmed_up}" if text == "warm" else f"You said: {text}"
        script = self.scripts.get(text, lambda: answer(said))
        try:
            async for event in self._play(script()):
                yield event
        finally:
            self.closed_streams += 1

    def take_warnings(self) -> list[str]:
        warnings, self.warnings = self.warnings, []
        return warnings

    async def compact(self, focus: str = "") -> EventStream:
        yield CompactionStarted("manual", 12_300)
        yield CompactionFinished(REPORT)

    async def _play(self, steps: list[Step]) -> EventStream:
        for step in steps:
            match step:
                case Pause(seconds):
                    await asyncio.sleep(seconds)
                case Fail(error):
                    raise error
                case Ask(action):
                    decision = Decision(allowed=False)
                    if self.approver is not None:
                        decision = await self.approver(action)
                    self.decisions.append(decision)
                    yield Notice(f"decision {decision.allowed} {decision.always} {decision.reason}")
                case _:
                    if isinstance(step, TextDelta):
                        self.received += step.text
                    yield step

    def preview_compaction(self) -> CompactionPreview | None:
        return CompactionPreview(7, 12_300, 3_100, ".transcripts/x.md:1-188, turns 1-7")

    def rewind(self, turn: int | None) -> str:
        return f"what turn {turn or 'the newest'} began with"

    def undo_edit(self) -> str:
        return "x.py is as it was before the last edit"

    def fork(self) -> str:
        return "the-one-before"

    def uncompact(self) -> str:
        return "the last compaction was taken back: 3100 -> about 12300 tokens"

    @property
    def budget(self) -> Budget:
        return Budget(SIZE.budget, SIZE.window, 32_000, 8_000, "table")

    @property
    def size(self) -> ContextSize:
        return SIZE if self.sent else replace(SIZE, tokens=3_100, exact=False)

    def context(self) -> ContextReport:
        turns = (TurnSize(8, 9_000, "eighth question", ".transcripts/s1.md:189-300"),)
        return ContextReport(
            SIZE,
            self.model,
            2_000,
            1_000,
            3_100,
            turns,
            7,
            ".transcripts/s1.md:1-188",
            8_000,
            "table",
        )

    def recap(self) -> Recap:
        events = (TextDelta("an *answer*"),)
        turns = tuple(PastTurn(text, events) for text in self.sent)
        return Recap(turns, 38_200 if turns else None)

    def messages(self) -> tuple[Message, ...]:
        pairs = [(user_text(text), assistant_text("an *answer*")) for text in self.sent]
        return tuple(message for pair in pairs for message in pair)

    def totals(self) -> SessionTotals:
        return SessionTotals(3, USAGE, 0.0123)

    def sessions(self) -> tuple[SessionEntry, ...]:
        return (
            SessionEntry(self.id, 1_000_000.0, 3, "first words", 4_200, 38_200, current=True),
            SessionEntry("s0", 900_000.0, 1, "other words", 900),
        )

    def reset(self) -> None:
        self.id = "s2"
        self.sent.clear()

    def resume(self, session_id: str | None) -> tuple[str, ...]:
        if session_id == "missing":
            raise SessionError("no session 'missing' in this folder; /sessions lists them")
        self.id = session_id or "s0"
        return ("1 damaged record was skipped",)

    async def set_model(self, model: str) -> None:
        self.model = model

    def export(self, target: Path) -> Path:
        target.write_text("transcript", encoding="utf-8")
        return target

    async def warm_up(self, pause: Callable[[], Awaitable[None]] | None = None) -> None:
        self.warmed_up = True

    async def close(self) -> None:
        return


def main() -> int:
    """Run the interactive chat on a scripted session."""
    from agent.ui.repl import run_repl

    session: SessionPort = ScriptedSession()
    history, first_prompt = Path(sys.argv[1]), "".join(sys.argv[2:])
    return asyncio.run(run_repl(session, first_prompt or None, history_path=history))


if __name__ == "__main__":
    sys.exit(main())
