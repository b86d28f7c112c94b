"""A turn, and the ways in which one is shortened (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from agent.messages import (
    Block,
    MediaBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    is_blank,
    is_thinking,
)
from agent.transcript.facts import TurnFacts, facts_of

OUTCOME_UNKNOWN = (
    "Interrupted, outcome unknown: this call had started when the turn ended. It was not run again."
)
NOT_RUN = "Not run: the turn ended before this call was started."
NO_ANSWER = "[The turn ended here, without an answer.]"


TOLD_HEADING = "[What was done so far in this turn, told by the program]"


@dataclass(frozen=True)
class Turn:
    """A typed user message and all that followed it, up to the next one.

    ``told`` has one line for each tool call that is no longer among ``messages``;
    the first message then ends with a block that carries these lines. ``facts`` are
    those of the messages as they were before calls were told or results shortened.
    """

    number: int
    messages: tuple[Message, ...]
    told: tuple[str, ...] = ()
    facts: TurnFacts | None = None

    @cached_property
    def all_facts(self) -> TurnFacts:
        """What code remembers of the turn once it is folded."""
        return facts_of(self.number, self.messages, self.facts)

    @property
    def words(self) -> str:
        """What the user typed, without anything told below it."""
        match self.messages[0].blocks:
            case (TextBlock(text), *_):
                return text
            case _:
                return ""

    @property
    def answered(self) -> bool:
        """Whether a model has said anything in this turn."""
        return any(m.role == "assistant" and m.text != NO_ANSWER for m in self.messages)

    @property
    def open_calls(self) -> tuple[str, ...]:
        """Ids of the last assistant message's tool calls that have no result yet."""
        answered: set[str] = set()
        for message in reversed(self.messages):
            if message.role == "assistant":
                return tuple(use.id for use in message.tool_uses if use.id not in answered)
            answered.update(result.tool_use_id for result in message.tool_results)
        return ()


def sendable(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    """The blocks of an answer that may be sent back.

    Thinking goes back whole and in front, or not at all: not what was cut off or what
    a server did not sign, and none at the end.
    """
    kept = tuple(block for block in blocks if not is_blank(block))
    while kept and is_thinking(kept[-1]):
        kept = kept[:-1]
    thoughts = [is_thinking(block) for block in kept]
    unsigned = any(isinstance(block, ThinkingBlock) and not block.signature for block in kept)
    if unsigned or thoughts != sorted(thoughts, reverse=True):
        return tuple(block for block in kept if not is_thinking(block))
    return kept


def told_turn(
    turn: Turn, told: tuple[str, ...], count: int, facts: TurnFacts | None = None
) -> Turn:
    """The turn with its first ``count`` messages after the user's told as lines.

    ``facts`` are those of the turn until now, where they are known already.
    """
    request = turn.messages[0].blocks[:-1] if turn.told else turn.messages[0].blocks
    block = TextBlock("\n".join((TOLD_HEADING, *told)))
    messages = (Message("user", (*request, block)), *turn.messages[1 + count :])
    return Turn(turn.number, messages, told, facts or turn.all_facts)


def with_replaced(turn: Turn, replaced: Mapping[str, str], facts: TurnFacts | None = None) -> Turn:
    """The turn with texts in place of some of its tool results; ``facts`` as above."""
    here = {result.tool_use_id for m in turn.messages for result in m.tool_results}
    if not here & replaced.keys():
        return turn
    messages = tuple(
        Message(message.role, tuple(_replaced(block, replaced) for block in message.blocks))
        if message.tool_results
        else message
        for message in turn.messages
    )
    return replace(turn, messages=messages, facts=facts or turn.all_facts)


def _replaced(block: Block, replaced: Mapping[str, str]) -> Block:
    if isinstance(block, ToolResultBlock) and block.tool_use_id in replaced:
        return replace(block, content=replaced[block.tool_use_id], media=())
    return block


def without_oldest_media(turns: Sequence[Turn], count: int) -> tuple[Turn, ...]:
    """The turns with lines in place of their first ``count`` images and documents."""
    result: list[Turn] = []
    for turn in turns:
        messages: list[Message] = []
        for message in turn.messages:
            blocks = []
            for block in message.blocks:
                shed, count = _shed(block, count)
                blocks.append(shed)
            messages.append(Message(message.role, tuple(blocks)))
        if tuple(messages) == turn.messages:
            result.append(turn)
        else:
            result.append(replace(turn, messages=tuple(messages), facts=turn.all_facts))
    return tuple(result)


def _shed(block: Block, count: int) -> tuple[Block, int]:
    """The block without its first ``count`` media, and how many are still to be shed."""
    match block:
        case MediaBlock() if count:
            return TextBlock(block.line), count - 1
        case ToolResultBlock(content=content, media=(_, *_) as media) if count:
            lines = (content, *(item.line for item in media[:count]))
            left_out = min(count, len(media))
            return replace(block, content="\n".join(lines), media=media[count:]), count - left_out
        case _:
            return block, count
