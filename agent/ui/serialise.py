"""Events and results as JSON, for programs.

An event's object has ``type`` (its class name in snake case) and its fields under
their own names; an error is ``{"type": ..., "message": ...}``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass

from agent.errors import AgentError
from agent.events import (
    CompactionFinished,
    CompactionReport,
    ContextSize,
    Event,
    RequestFinished,
    RequestStarted,
    TextDelta,
    TurnFinished,
    TurnStarted,
)
from agent.messages import Usage, scrub
from agent.ui.port import SessionPort

_WORD_START = re.compile(r"(?<!^)(?=[A-Z])")


def to_line(value: Mapping[str, object], *, ascii_only: bool = False) -> str:
    """One JSON object on one line, without the line end.

    ``ascii_only`` escapes whatever a terminal could act on.
    """
    text = json.dumps(value, ensure_ascii=ascii_only, separators=(",", ":"), default=_plain)
    return scrub(text)


def _plain(value: object) -> object:
    """A value that JSON does not know, by what it holds."""
    if isinstance(value, BaseException):
        return {"type": type(value).__name__, "message": str(value)}
    return vars(value) if is_dataclass(value) else str(value)


def event_object(event: Event) -> dict[str, object]:
    """An event as an object for :func:`to_line`."""
    return {"type": _WORD_START.sub("_", type(event).__name__).lower(), **vars(event)}


@dataclass
class TurnResult:
    """What a turn came to, gathered from its events; valid at any moment of it."""

    turn: int = 0
    text: str = ""
    stop_reason: str = ""
    usage: Usage = field(default_factory=Usage)
    context: ContextSize = field(default_factory=lambda: ContextSize(0, 0, 0, exact=False))
    compactions: Sequence[CompactionReport] = ()
    error: AgentError | None = None
    interrupted: bool = False
    finished: bool = False

    def take(self, event: Event) -> None:
        """Learn from one event."""
        match event:
            case TurnStarted(turn):
                self.turn = turn
            case RequestStarted(_, size):
                self.text, self.context = "", size
            case TextDelta(text):
                self.text += text
            case RequestFinished(stop_reason, usage):
                self.stop_reason = stop_reason
                self.usage += usage
            case CompactionFinished(report):
                self.compactions = (*self.compactions, report)
                self.usage += report.usage
            case TurnFinished():
                self._finish(event)
            case _:
                return

    def _finish(self, event: TurnFinished) -> None:
        self.finished = True
        self.turn, self.stop_reason = event.turn, event.stop_reason
        self.usage, self.context = event.usage, event.context
        self.compactions = event.compactions
        self.error = event.error
        if event.text or event.error is None:
            self.text = event.text


def result_object(session: SessionPort, result: TurnResult, seconds: float) -> dict[str, object]:
    """The object that ends ``--output-format json`` and ``stream-json``.

    ``error`` is there only with ``is_error``; ``seconds`` is the whole run's time.
    """
    problem = str(result.error) if result.error is not None else ""
    if not problem and (result.interrupted or not result.finished):
        problem = "interrupted"
    outcome: dict[str, object] = {
        "type": "result",
        "is_error": bool(problem),
        "result": result.text,
        "session_id": session.id,
        "transcript": str(session.transcript),
        "num_turns": result.turn,
        "stop_reason": result.stop_reason,
        "usage": result.usage,
        "context": result.context,
        "compactions": [_compaction(report) for report in result.compactions],
        "duration_ms": round(seconds * 1000),
    }
    return {**outcome, "error": problem} if problem else outcome


def _compaction(report: CompactionReport) -> dict[str, object]:
    names = ("trigger", "method", "folded_turns", "tokens_before", "tokens_after")
    values = {name: getattr(report, name) for name in names}
    return {**values, "seconds": round(report.seconds, 3), "address": report.address}
