"""The last turns of a session as a screen showed them, from its log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agent.events import (
    CompactionFinished,
    CompactionReport,
    Event,
    Notice,
    PastTurn,
    Recap,
    RequestFinished,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
)
from agent.messages import TextBlock, ToolUseBlock
from agent.tools.registry import ToolBox
from agent.transcript.records import (
    AssistantEndRecord,
    BlockRecord,
    CompactionRecord,
    DiscardedRecord,
    InterruptedRecord,
    PartialRecord,
    Record,
    ToolResultRecord,
    UserRecord,
)
from agent.transcript.sessions import last_known_tokens
from agent.transcript.store import Transcript
from agent.transcript.tail import records_from

TURNS = 2
"""How many turns are told."""

_MOST_EVENTS = 40
"""Of one turn; of a longer one it is the last ones."""


def make_recap(transcript: Transcript, box: ToolBox) -> Recap:
    """The last turns, whether they are folded or not, and what the session has come to.

    A log that cannot be read now tells no turns: it was read when the session was opened.
    """
    view = transcript.view
    numbers = [*(facts.number for facts in view.past), *(turn.number for turn in view.turns)]
    if not transcript.saved or not numbers:
        return Recap()
    shown = numbers[-TURNS:]
    try:
        turns = _past_turns(records_from(transcript.log_path, shown[0]), shown, box)
        tokens = last_known_tokens(transcript.log_path)
    except OSError:
        turns, tokens = (), None
    folded = numbers[: len(view.past)]
    address = transcript.address(folded[0], folded[-1]) if folded else ""
    return Recap(turns, tokens, len(folded), address)


def _past_turns(
    records: Iterable[Record], numbers: Sequence[int], box: ToolBox
) -> tuple[PastTurn, ...]:
    turns: list[tuple[UserRecord, list[Record]]] = []
    mine: list[Record] = []
    for record in records:
        if isinstance(record, UserRecord):
            # What a turn was that is gone back over belongs to no turn that is told.
            mine = []
            if record.turn in numbers:
                turns.append((record, mine))
        else:
            mine.append(record)
    return tuple(
        PastTurn(user.text, _shortened(_events(user.turn, mine, box))) for user, mine in turns
    )


def _shortened(events: list[Event]) -> tuple[Event, ...]:
    left_out = len(events) - _MOST_EVENTS
    if left_out <= 0:
        return tuple(events)
    return (Notice(f"… {left_out} earlier steps of this turn"), *events[left_out:])


def _events(turn: int, records: Iterable[Record], box: ToolBox) -> list[Event]:
    """What a turn's records looked like when they came."""
    events: list[Event] = []
    calls: dict[str, ToolUseBlock] = {}
    received, partial = 0, ""
    for record in records:
        match record:
            case PartialRecord(text):
                partial += text
            case BlockRecord(block):
                partial = ""
                if isinstance(block, TextBlock):
                    events.append(TextDelta(block.text))
                elif isinstance(block, ToolUseBlock):
                    calls[block.id] = block
            case DiscardedRecord():
                # It came again.
                del events[received:]
                partial = ""
            case AssistantEndRecord(stop_reason, _, usage):
                events.append(RequestFinished(stop_reason, usage))
                received = len(events)
            case ToolResultRecord(call_id) if call_id in calls:
                events += _call(calls.pop(call_id), record, box)
                received = len(events)
            case CompactionRecord():
                events.append(CompactionFinished(_report(turn, record)))
                received = len(events)
            case InterruptedRecord(reason):
                events += [TextDelta(partial)] if partial else []
                events += [_started(call, box) for call in calls.values()]
                events.append(Notice(f"interrupted: {reason}", "warning"))
                calls, partial = {}, ""
    return events


def _started(call: ToolUseBlock, box: ToolBox) -> ToolCallStarted:
    return ToolCallStarted(call.id, call.name, call.input, box.summary(call.name, call.input))


def _call(call: ToolUseBlock, result: ToolResultRecord, box: ToolBox) -> list[Event]:
    finished = ToolCallFinished(call.id, call.name, result.content, result.is_error, result.seconds)
    return [_started(call, box), finished]


def _report(turn: int, record: CompactionRecord) -> CompactionReport:
    return CompactionReport(
        trigger=record.trigger,
        method=record.method,
        folded_turns=record.folded_turns,
        tokens_before=record.tokens_before,
        tokens_after=record.tokens_after,
        seconds=record.seconds,
        address=record.address,
        usage=record.usage,
        kept_turns=max(turn + 1 - record.kept_from, 0),
    )
