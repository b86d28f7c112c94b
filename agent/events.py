"""What the loop tells a screen.

A turn's events come in this order::

    TurnStarted
      ( CompactionStarted (CompactionFinished | CompactionFailed)* )?
      ( RequestStarted (ThinkingDelta | TextDelta | ServerQuiet)* RequestFinished
        | RetryScheduled | Notice )*
      ( ToolCallStarted ToolOutput* ToolCallFinished )*
      ... and again, until the model stops calling tools
    TurnFinished

``TurnFinished`` is always the last event, whatever happened; its ``error`` is
set when the turn could not be completed. While a summary is written, ``ServerQuiet``
and ``RetryScheduled`` come within a compaction, too. A manual compaction yields only
compaction events, these two and notices.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from agent.errors import AgentError
from agent.messages import Usage

Trigger: TypeAlias = Literal["auto", "manual", "overflow"]
"""Why the conversation is folded: over the budget, asked for, or refused by the server."""


@dataclass(frozen=True)
class ContextSize:
    """How full the model's window is, in tokens.

    ``exact`` is true when the server counted this very view; otherwise
    ``tokens`` is an estimate.
    """

    tokens: int
    budget: int
    window: int
    exact: bool

    @property
    def share(self) -> float:
        """The used part of the budget; 1.0 is full."""
        return self.tokens / self.budget if self.budget else 0.0


@dataclass(frozen=True)
class CompactionReport:
    """What a compaction did.

    ``method`` is ``stub``, ``summary``, ``digest``, ``clip`` or ``shed``. ``folded_turns``
    counts the turns that left the view; ``address`` is where they can be read (empty
    when none did); ``usage`` is what the summary has cost, ``kept_turns`` how many turns
    stay in the view, ``cost`` is in USD where prices are known. Sizes are in tokens.
    """

    trigger: str
    method: str
    folded_turns: int
    tokens_before: int
    tokens_after: int
    seconds: float
    address: str
    usage: Usage = field(default_factory=Usage)
    kept_turns: int = 0
    cost: float | None = None


@dataclass(frozen=True)
class TurnStarted:
    """The user's message is on disk; the turn begins."""

    turn: int


@dataclass(frozen=True)
class RequestStarted:
    """A request is about to be sent; ``number`` counts within the turn from 1."""

    number: int
    size: ContextSize


@dataclass(frozen=True)
class TextDelta:
    """A piece of the answer's text."""

    text: str


@dataclass(frozen=True)
class ThinkingDelta:
    """A piece of the model's reasoning."""

    text: str


@dataclass(frozen=True)
class RequestFinished:
    """The model's message is complete, or was kept as far as it came."""

    stop_reason: str
    usage: Usage


@dataclass(frozen=True)
class ToolCallStarted:
    """A tool call is about to be approved and run. ``summary`` is one line."""

    id: str
    name: str
    input: Mapping[str, object]
    summary: str


@dataclass(frozen=True)
class ToolOutput:
    """A piece of output while a tool runs; for the screen only."""

    id: str
    text: str


@dataclass(frozen=True)
class ToolCallFinished:
    """A tool's result as the model will see it. ``diff`` is a unified diff or empty."""

    id: str
    name: str
    content: str
    is_error: bool
    seconds: float
    diff: str = ""


@dataclass(frozen=True)
class CompactionStarted:
    """The conversation is being folded."""

    trigger: Trigger
    tokens: int


@dataclass(frozen=True)
class CompactionFinished:
    """A compaction was adopted and recorded."""

    report: CompactionReport


@dataclass(frozen=True)
class CompactionFailed:
    """A step was not adopted; nothing has changed. ``reason`` is one line.

    ``usage`` is what the try has cost.
    """

    trigger: Trigger
    reason: str
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True)
class RetryScheduled:
    """The server is busy; the same request is sent again after ``seconds``."""

    reason: str
    seconds: float
    attempt: int


TOLD_QUIET_SECONDS = 5.0
"""A shorter silence of the server is nothing to speak of."""


@dataclass(frozen=True)
class ServerQuiet:
    """Nothing has come from the model's server for more than five seconds.

    Repeated about every second. ``seconds`` is how long there was no content, ``left``
    how long it is still waited for; ``alive`` is true while the server sends signs of life.
    """

    seconds: float
    left: float
    alive: bool


@dataclass(frozen=True)
class Notice:
    """Something a person should know. One line."""

    text: str
    level: Literal["info", "warning", "error"] = "info"


@dataclass(frozen=True)
class TurnFinished:
    """The turn is over.

    ``usage`` is the sum over the turn's requests, summaries included;
    ``context`` the size after it; ``text`` the final answer.
    """

    turn: int
    text: str
    stop_reason: str
    usage: Usage
    context: ContextSize
    seconds: float
    requests: int
    compactions: tuple[CompactionReport, ...] = ()
    error: AgentError | None = None


@dataclass(frozen=True)
class TurnSize:
    """One turn's share of the view, in tokens."""

    turn: int
    tokens: int
    first_words: str
    address: str


@dataclass(frozen=True)
class CompactionPreview:
    """What ``/compact`` would do; sizes in tokens, ``tokens_after`` about."""

    folded_turns: int
    tokens_before: int
    tokens_after: int
    address: str


@dataclass(frozen=True)
class ContextReport:
    """What fills the window, in tokens, for ``/context``.

    ``ledger`` is the part of ``summary`` that code keeps.
    """

    size: ContextSize
    model: str
    system: int
    tools: int
    summary: int
    turns: tuple[TurnSize, ...] = ()
    folded_turns: int = 0
    folded_address: str = ""
    output_reserve: int = 0
    window_source: str = ""
    ledger: int = 0


@dataclass(frozen=True)
class PastTurn:
    """A turn that is over: what was typed, and what a screen showed of the answer.

    Of a call's changes there is no diff, and of a long turn only the last events.
    """

    text: str
    events: tuple[Event, ...]


@dataclass(frozen=True)
class Recap:
    """What a session was about when it was left.

    ``turns`` are its last ones, folded or not. ``tokens`` is the size of what the next
    request would carry, as last known (``None``: not known). ``folded_turns`` are covered
    by the summary and can be read at ``folded_address``.
    """

    turns: tuple[PastTurn, ...] = ()
    tokens: int | None = None
    folded_turns: int = 0
    folded_address: str = ""


@dataclass(frozen=True)
class SessionTotals:
    """What a session has used so far.

    ``cost`` is in US dollars, ``None`` when the model's prices are not known.
    """

    requests: int
    usage: Usage
    cost: float | None


@dataclass(frozen=True)
class SessionEntry:
    """One line of the list of sessions.

    ``modified`` is in seconds since the epoch, ``size`` in bytes; ``tokens`` is the size
    of what the next request would carry, as last known (``None``: not known).
    ``folder`` is the transcripts folder; ``current`` marks the session that is open.
    """

    id: str
    modified: float
    turns: int
    first_words: str
    size: int
    tokens: int | None = None
    folder: str = ""
    current: bool = False


Event: TypeAlias = (
    TurnStarted
    | RequestStarted
    | TextDelta
    | ThinkingDelta
    | RequestFinished
    | ToolCallStarted
    | ToolOutput
    | ToolCallFinished
    | CompactionStarted
    | CompactionFinished
    | CompactionFailed
    | RetryScheduled
    | ServerQuiet
    | Notice
    | TurnFinished
)

EventStream: TypeAlias = AsyncGenerator[Event, None]
"""Events as they happen. Whoever stops reading early closes it (``contextlib.aclosing``)."""
