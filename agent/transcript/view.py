"""The view: what the model is sent, as a pure function of the records.

:func:`apply` takes a view and the next record and gives the next view. A running
session and a resumed one go through the same function, so both end at the same view.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from agent.messages import (
    Block,
    Message,
    TextBlock,
    ToolResultBlock,
    ToolSpec,
    assistant_text,
    is_thinking,
    user_text,
    without_thinking,
)
from agent.transcript.facts import TurnFacts
from agent.transcript.records import (
    START_FACTOR,
    AssistantEndRecord,
    BlockRecord,
    CompactionRecord,
    DiscardedRecord,
    InterruptedRecord,
    ModelRecord,
    PartialRecord,
    Record,
    RewindRecord,
    SessionRecord,
    ThinkingDroppedRecord,
    ToolResultRecord,
    ToolStartRecord,
    UncompactRecord,
    UnknownRecord,
    UserRecord,
)
from agent.transcript.turns import (
    NO_ANSWER,
    NOT_RUN,
    OUTCOME_UNKNOWN,
    Turn,
    sendable,
    told_turn,
    with_replaced,
    without_oldest_media,
)

SUMMARY_HEADING = "[Earlier conversation summary]"
SUMMARY_ANSWER = "Understood. Continuing from the summary."


@dataclass(frozen=True)
class Anchor:
    """A size that a server reported: the first ``messages`` messages are ``tokens`` tokens.

    System and tools are part of it. The answer to them, of ``output`` tokens, is the
    message after them if ``answered``, and was empty otherwise.
    """

    messages: int
    tokens: int
    output: int
    answered: bool


@dataclass(frozen=True)
class View:
    """The conversation as the next request will carry it.

    ``past`` has the facts of the folded turns, which ``summary`` covers. ``pending``
    are the finished blocks of an assistant message that is still being received, and
    ``partial`` the text of the one after them, as far as it was saved;
    ``paused`` is true when the server wants to go on with the last one.
    ``factor`` corrects estimates of its size; ``window`` is the window in tokens
    that a server's refusal has shown, 0 if none did. ``unfolded`` is what the view
    would be without its last compaction, so that it can be taken back.
    """

    session_id: str = ""
    model: str = ""
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    summary: str = ""
    summary_body: str = ""
    past: tuple[TurnFacts, ...] = ()
    turns: tuple[Turn, ...] = ()
    pending: tuple[Block, ...] = ()
    partial: str = ""
    started: frozenset[str] = frozenset()
    anchor: Anchor | None = None
    paused: bool = False
    compactions: int = 0
    factor: float = START_FACTOR
    window: int = 0
    unfolded: View | None = None

    @cached_property
    def summary_messages(self) -> tuple[Message, ...]:
        """The summary and its answer, or nothing."""
        if not self.summary:
            return ()
        return (user_text(f"{SUMMARY_HEADING}\n{self.summary}"), assistant_text(SUMMARY_ANSWER))

    @cached_property
    def messages(self) -> tuple[Message, ...]:
        """All messages, in order."""
        return self.summary_messages + tuple(
            message for turn in self.turns for message in turn.messages
        )

    @property
    def last_turn(self) -> int:
        """The number of the newest turn, folded or not; 0 before the first."""
        if self.turns:
            return self.turns[-1].number
        return self.past[-1].number if self.past else 0

    @property
    def running(self) -> bool:
        """Whether the newest turn still waits for the model or for tools."""
        return bool(self.turns) and (
            bool(self.pending or self.partial) or self.paused or not _is_closed(self.turns[-1])
        )


def build(records: Iterable[Record]) -> View:
    """The view that a sequence of records leads to."""
    view = View()
    for record in effective(records):
        view = apply(view, record)
    return view


def effective(records: Iterable[Record]) -> list[Record]:
    """The records that count: without those that a rewind went back over, and without it.

    A rewind to a turn that does not count any more changes nothing.
    """
    kept: list[Record] = []
    starts: dict[int, int] = {}
    for record in records:
        match record:
            case RewindRecord(turn):
                del kept[starts.get(turn, len(kept)) :]
                starts = {other: start for other, start in starts.items() if start < len(kept)}
            case UserRecord(turn):
                starts[turn] = len(kept)
                kept.append(record)
            case _:
                kept.append(record)
    return kept


def apply(view: View, record: Record) -> View:
    """The view after one more record. Records that make no sense here change nothing."""
    match record:
        case UncompactRecord():
            if view.unfolded is None:
                return view
            # What was learnt since stays learnt.
            back = replace(view.unfolded, factor=view.factor, window=view.window)
            return _drop_thinking(back)
        case CompactionRecord():
            return replace(_next(view, record), unfolded=replace(view, unfolded=None))
        case _ if view.unfolded is not None:
            return replace(_next(view, record), unfolded=_next(view.unfolded, record))
        case _:
            return _next(view, record)


def _next(view: View, record: Record) -> View:
    match record:
        case SessionRecord(session_id, _, model, system, tools, factor, _):
            return replace(
                view,
                session_id=session_id,
                model=model,
                system=system,
                tools=tools,
                factor=factor,
            )
        case UserRecord(turn, text, media, attached):
            closed = close_turn(view)
            message = user_text(text, *map(TextBlock, attached), *media)
            return replace(closed, turns=(*closed.turns, Turn(turn, (message,))))
        case BlockRecord(block):
            return replace(view, pending=(*view.pending, block), partial="")
        case PartialRecord(text):
            return replace(view, partial=view.partial + text)
        case AssistantEndRecord():
            return _end_message(view, record)
        case ToolStartRecord(tool_use_id):
            return replace(view, started=view.started | {tool_use_id})
        case ToolResultRecord(tool_use_id, content, is_error, media=media):
            return _add_results(view, (ToolResultBlock(tool_use_id, content, is_error, media),))
        case CompactionRecord():
            return _compact(view, record)
        case InterruptedRecord():
            return close_turn(view)
        case DiscardedRecord():
            return replace(view, pending=(), partial="")
        case ModelRecord(model, factor):
            return replace(_drop_thinking(view), model=model, factor=factor, window=0)
        case ThinkingDroppedRecord():
            return _drop_thinking(view)
        case UnknownRecord() | UncompactRecord() | RewindRecord():
            # A rewind is not a step but a choice of steps: see :func:`effective`.
            return view


def close_turn(view: View) -> View:
    """The view with its newest turn made whole, so that another turn may follow.

    What was received is kept, open calls get a result that says what is known of
    them, and a turn without an answer gets one line in its place.
    """
    if not view.turns:
        return view
    received = (*view.pending, TextBlock(view.partial)) if view.partial else view.pending
    view = _add_assistant(replace(view, pending=(), partial=""), received)
    view = replace(_answer_open_calls(view), started=frozenset(), paused=False)
    if _is_closed(view.turns[-1]):
        return view
    return _with_last_turn(view, (*view.turns[-1].messages, assistant_text(NO_ANSWER)))


def _is_closed(turn: Turn) -> bool:
    return turn.messages[-1].role == "assistant" and not turn.open_calls


def _end_message(view: View, record: AssistantEndRecord) -> View:
    if not view.turns:
        return replace(view, pending=())
    before = len(view.messages)
    paused = record.stop_reason == "pause_turn"
    view = _add_assistant(
        replace(view, pending=(), partial="", factor=record.factor, paused=paused), view.pending
    )
    answered = len(view.messages) > before
    view = replace(view, window=record.window or view.window)
    if record.prompt_tokens:
        anchor = Anchor(before, record.prompt_tokens, record.usage.output_tokens, answered)
        view = replace(view, anchor=anchor)
    else:
        view = replace(view, anchor=None)
    return view if answered or paused else close_turn(view)


def _add_assistant(view: View, blocks: tuple[Block, ...]) -> View:
    kept = sendable(blocks)
    if not kept:
        return view
    # A whole log has neither of these; one with damaged records may.
    view = _answer_open_calls(view)
    *before, last = view.turns[-1].messages
    if last.role == "assistant":
        rest = tuple(block for block in kept if not is_thinking(block))
        return _with_last_turn(view, (*before, Message("assistant", last.blocks + rest)))
    return _with_last_turn(view, (*before, last, Message("assistant", kept)))


def _answer_open_calls(view: View) -> View:
    """The view with a result, saying what is known, for each call that has none."""
    results = tuple(
        ToolResultBlock(call, OUTCOME_UNKNOWN if call in view.started else NOT_RUN, is_error=True)
        for call in view.turns[-1].open_calls
    )
    return _add_results(view, results)


def _add_results(view: View, results: tuple[ToolResultBlock, ...]) -> View:
    if not view.turns:
        return view
    open_calls = view.turns[-1].open_calls
    results = tuple(result for result in results if result.tool_use_id in open_calls)
    if not results:
        return view
    messages = view.turns[-1].messages
    if messages[-1].role == "user":
        merged = Message("user", messages[-1].blocks + results)
        messages = (*messages[:-1], merged)
    else:
        messages = (*messages, Message("user", results))
    started = view.started - {result.tool_use_id for result in results}
    return replace(_with_last_turn(view, messages), started=started)


def _with_last_turn(view: View, messages: tuple[Message, ...]) -> View:
    return replace(view, turns=(*view.turns[:-1], replace(view.turns[-1], messages=messages)))


def _compact(view: View, record: CompactionRecord) -> View:
    folded = tuple(turn for turn in view.turns if turn.number < record.kept_from)
    kept = tuple(turn for turn in view.turns if turn.number >= record.kept_from)
    turns = tuple(
        with_replaced(turn, record.replaced) for turn in without_oldest_media(kept, record.shed)
    )
    if record.told and turns:
        turns = (*turns[:-1], told_turn(turns[-1], record.told, record.told_messages))
    return _drop_thinking(
        replace(
            view,
            summary=record.summary,
            summary_body=record.body,
            past=view.past + tuple(turn.all_facts for turn in folded),
            turns=turns,
            compactions=view.compactions + 1,
            factor=record.factor,
            window=record.window or view.window,
        )
    )


def _drop_thinking(view: View) -> View:
    turns = tuple(
        replace(turn, messages=tuple(without_thinking(turn.messages))) for turn in view.turns
    )
    return replace(view, turns=turns, anchor=None)
