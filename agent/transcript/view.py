"""The view: what the model is sent, as a pure function of the records.

:func:`apply` takes a view and the next record and gives the next view. A running
session and a resumed one go through the same function, so both end at the same view.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, reduce
from itertools import chain
from typing import Any

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

    ``past`` has the facts of the folded turns, which ``summary`` covers. ``earlier`` is
    how many messages stand before those of the newest turn. ``pending``
    are the finished blocks of an assistant message that is still being received, and
    ``partial`` the text of the one after them, as far as it was saved;
    ``paused`` is true when the server wants to go on with the last one.
    ``factor`` corrects estimates of its size; ``window`` is the window in tokens
    that a server's refusal has shown, 0 if none did. ``before`` is the view before
    its last compaction, and ``since`` all records after that, in groups, so that it can be
    taken back.
    """

    session_id: str = ""
    model: str = ""
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    summary: str = ""
    summary_body: str = ""
    past: tuple[TurnFacts, ...] = ()
    turns: tuple[Turn, ...] = ()
    earlier: int = 0
    pending: tuple[Block, ...] = ()
    partial: str = ""
    started: frozenset[str] = frozenset()
    anchor: Anchor | None = None
    paused: bool = False
    compactions: int = 0
    factor: float = START_FACTOR
    window: int = 0
    before: View | None = None
    since: tuple[tuple[Record, ...], ...] = ()

    @property
    def summary_messages(self) -> tuple[Message, ...]:
        """The summary and its answer, or nothing."""
        return _summary_messages(self.summary) if self.summary else ()

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


@lru_cache(maxsize=4)
def _summary_messages(summary: str) -> tuple[Message, ...]:
    """The same messages for every view with this summary: they need to be measured only once."""
    return (user_text(f"{SUMMARY_HEADING}\n{summary}"), assistant_text(SUMMARY_ANSWER))


def build(records: Iterable[Record]) -> View:
    """The view that a sequence of records leads to."""
    replay, held = Replay(), tuple(records)
    for record in held:
        replay.follow(record)
    return replay.view(held)


class Replay:
    """Follows the records of a session one after another, and holds none of them.

    What a rewind goes back over counts no more, nor does the rewind. One to a turn
    that does not count any more changes nothing.
    """

    def __init__(self) -> None:
        self._view: View | None = View()
        self._count = 0
        self._starts: dict[int, int] = {}
        self._views: dict[int, View | None] = {}
        self._gone: list[tuple[int, int]] = []

    def follow(self, record: Record) -> None:
        """Take the next record."""
        match record:
            case RewindRecord(turn) if turn in self._starts:
                self._go_back(turn)
            case UserRecord(turn):
                self._starts[turn], self._views[turn] = self._count, self._view
            case CompactionRecord(kept_from=kept_from):
                # The views before folded turns would hold all that was ever said.
                self._views = {turn: v for turn, v in self._views.items() if turn >= kept_from}
        self._count += 1
        if self._view is not None:
            self._view = apply(self._view, record)

    def _go_back(self, turn: int) -> None:
        first, self._view = self._starts[turn], self._views.get(turn)
        self._starts = {turn: start for turn, start in self._starts.items() if start < first}
        self._gone = [span for span in self._gone if span[0] < first]
        self._gone.append((first, self._count + 1))

    def view(self, records: Iterable[Record]) -> View:
        """The view. ``records`` are all that were followed.

        They are gone through again after a rewind to a turn that had been folded.
        """
        if self._view is not None:
            return self._view
        view, gone, first, end = View(), iter(self._gone), 0, 0
        for position, record in enumerate(records):
            if position >= end:
                first, end = next(gone, (self._count, self._count))
            if position < first:
                view = apply(view, record)
        return view


def apply(view: View, record: Record) -> View:
    """The view after one more record. Records that make no sense here change nothing."""
    match record:
        case UncompactRecord():
            if view.before is None:
                return view
            # What was learnt since stays learnt.
            unfolded = reduce(_next, chain.from_iterable(view.since), view.before)
            back = _changed(unfolded, factor=view.factor, window=view.window)
            return _drop_thinking(back)
        case RewindRecord():
            # Not a step but a choice of steps: see :class:`Replay`.
            return view
        case CompactionRecord():
            before = _changed(view, before=None, since=())
            return _changed(_next(view, record), before=before, since=())
        case _ if view.before is not None:
            return _changed(_next(view, record), since=_appended(view.since, record))
        case _:
            return _next(view, record)


def _appended(
    groups: tuple[tuple[Record, ...], ...], record: Record
) -> tuple[tuple[Record, ...], ...]:
    """One more record. Groups keep small what is copied for each of very many records."""
    if groups and len(groups[-1]) < 100:
        return (*groups[:-1], (*groups[-1], record))
    return (*groups, (record,))


def _next(view: View, record: Record) -> View:
    match record:
        case SessionRecord(session_id, _, model, system, tools, factor, _):
            return _changed(
                view, session_id=session_id, model=model, system=system, tools=tools, factor=factor
            )
        case UserRecord(turn, text, media, attached):
            closed = close_turn(view)
            earlier = closed.earlier + sum(len(last.messages) for last in closed.turns[-1:])
            message = user_text(text, *map(TextBlock, attached), *media)
            return _changed(closed, turns=(*closed.turns, Turn(turn, (message,))), earlier=earlier)
        case BlockRecord(block):
            return _changed(view, pending=(*view.pending, block), partial="")
        case PartialRecord(text):
            return _changed(view, partial=view.partial + text)
        case AssistantEndRecord():
            return _end_message(view, record)
        case ToolStartRecord(tool_use_id):
            return _changed(view, started=view.started | {tool_use_id})
        case ToolResultRecord(tool_use_id, content, is_error, media=media):
            return _add_results(view, (ToolResultBlock(tool_use_id, content, is_error, media),))
        case CompactionRecord():
            return _compact(view, record)
        case InterruptedRecord():
            return close_turn(view)
        case DiscardedRecord():
            return _changed(view, pending=(), partial="")
        case ModelRecord(model, factor):
            return _changed(_drop_thinking(view), model=model, factor=factor, window=0)
        case ThinkingDroppedRecord():
            return _drop_thinking(view)
        case UnknownRecord() | UncompactRecord() | RewindRecord():
            return view


def _changed(view: View, **changes: Any) -> View:
    """As :func:`dataclasses.replace`, much faster: a long log makes tens of thousands of views."""
    made = object.__new__(View)
    values = vars(made)
    values.update(vars(view))
    # What was worked out for the one view does not hold for the other.
    values.pop("messages", None)
    values.update(changes)
    return made


def close_turn(view: View) -> View:
    """The view with its newest turn made whole, so that another turn may follow.

    What was received is kept, open calls get a result that says what is known of
    them, and a turn without an answer gets one line in its place.
    """
    if not view.turns:
        return view
    received = (*view.pending, TextBlock(view.partial)) if view.partial else view.pending
    view = _add_assistant(_changed(view, pending=(), partial=""), received)
    view = _changed(_answer_open_calls(view), started=frozenset(), paused=False)
    if _is_closed(view.turns[-1]):
        return view
    return _with_last_turn(view, (*view.turns[-1].messages, assistant_text(NO_ANSWER)))


def _is_closed(turn: Turn) -> bool:
    return turn.messages[-1].role == "assistant" and not turn.open_calls


def _end_message(view: View, record: AssistantEndRecord) -> View:
    if not view.turns:
        return _changed(view, pending=())
    before = view.turns[-1].messages
    view = _add_assistant(view, view.pending)
    answered = len(view.turns[-1].messages) > len(before)
    paused = record.stop_reason == "pause_turn"
    anchor = None
    if record.prompt_tokens:
        sent, output = view.earlier + len(before), record.usage.output_tokens
        anchor = Anchor(sent, record.prompt_tokens, output, answered)
    view = _changed(
        view,
        pending=(),
        partial="",
        factor=record.factor,
        paused=paused,
        window=record.window or view.window,
        anchor=anchor,
    )
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
    return _with_last_turn(view, messages, started)


def _with_last_turn(
    view: View, messages: tuple[Message, ...], started: frozenset[str] | None = None
) -> View:
    turns = (*view.turns[:-1], replace(view.turns[-1], messages=messages))
    return _changed(view, turns=turns, started=view.started if started is None else started)


def _compact(view: View, record: CompactionRecord) -> View:
    folded = tuple(turn for turn in view.turns if turn.number < record.kept_from)
    kept = tuple(turn for turn in view.turns if turn.number >= record.kept_from)
    known = {facts.number: facts for facts in record.facts}
    turns = tuple(
        with_replaced(turn, record.replaced, known.get(turn.number))
        for turn in without_oldest_media(kept, record.shed)
    )
    if record.told and turns:
        *before, last = turns
        told = told_turn(last, record.told, record.told_messages, known.get(last.number))
        turns = (*before, told)
    return _drop_thinking(
        _changed(
            view,
            summary=record.summary,
            summary_body=record.body,
            past=view.past + tuple(known.get(turn.number) or turn.all_facts for turn in folded),
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
    earlier = len(view.summary_messages) + sum(len(turn.messages) for turn in turns[:-1])
    return _changed(view, turns=turns, earlier=earlier, anchor=None)
