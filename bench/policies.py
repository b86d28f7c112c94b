"""What other clients send of a long conversation, and what a request costs.

Prompts are sized by the test server's count and billed with its prompt cache, at cache
prices: plain input 1, written to the cache 1.25, read from it 0.1 a token.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from agent.context.prompts import load_prompt
from agent.messages import Message, assistant_text, user_text
from agent.tools.registry import ToolBox, default_tools
from agent.transcript.turns import Turn
from agent.transcript.view import SUMMARY_ANSWER, SUMMARY_HEADING
from agent.wire import message_to_wire, tool_to_wire
from bench.limit import text_of
from tests.server.cache import PromptCache
from tests.server.rules import check_history
from tests.server.tokens import PROMPT_TOKENS, Piece, pieces

WRITE_PRICE, READ_PRICE = 1.25, 0.1
"""Against plain input."""

SUMMARY_TOKENS = 1_200
INSTRUCTION_TOKENS = 500
CACHE_MINIMUM = 1_024

SUMMARY = text_of(SUMMARY_TOKENS, 3)
SUMMARY_MESSAGES = (user_text(f"{SUMMARY_HEADING}\n{SUMMARY}"), assistant_text(SUMMARY_ANSWER))
SYSTEM = load_prompt("system", cwd="/work", platform="Linux", transcripts=".transcripts")
TOOLS = ToolBox(default_tools()).specs
MARK = {"type": "ephemeral"}


class Prompts:
    """Prompts in pieces with their sizes, by the test server's count.

    Each message is measured once.
    """

    def __init__(self) -> None:
        system = {"type": "text", "text": SYSTEM, "cache_control": MARK}
        tools = [tool_to_wire(tool) for tool in TOOLS]
        self._frame = pieces({"system": [system], "tools": tools})
        self._known: dict[int, tuple[Message, list[Piece]]] = {}

    def pieces(self, messages: Iterable[Message]) -> list[Piece]:
        """The prompt, its last block marked for the cache as the product marks it."""
        found = list(self._frame)
        for index, message in enumerate(messages):
            found.extend(replace(piece, index=index) for piece in self._measured(message))
        found[-1] = replace(found[-1], block={**found[-1].block, "cache_control": MARK})
        return found

    def size(self, messages: Iterable[Message]) -> int:
        """The prompt's size in tokens."""
        frame = sum(piece.tokens for piece in self._frame)
        return frame + sum(map(self.message, messages))

    def message(self, message: Message) -> int:
        """One message's size in tokens."""
        return sum(piece.tokens for piece in self._measured(message))

    def _measured(self, message: Message) -> list[Piece]:
        known = self._known.get(id(message))
        if known is None or known[0] is not message:
            first, *rest = pieces({"messages": [message_to_wire(message)]})
            found = [replace(first, tokens=first.tokens - PROMPT_TOKENS), *rest]
            known = self._known[id(message)] = (message, found)
        return known[1]


@dataclass
class Bill:
    """What a policy has cost so far. Sizes are in tokens, costs in tokens of plain input."""

    prompts: Prompts
    window: int
    cache: PromptCache = field(default_factory=PromptCache)
    cost: float = 0.0
    tokens: int = 0
    requests: int = 0
    summaries: int = 0
    over: int = 0
    invalid: int = 0

    @property
    def survived(self) -> bool:
        """Whether no request was over the window or invalid."""
        return not (self.over or self.invalid)

    def charge(self, messages: Sequence[Message]) -> int:
        """Bill a request; its prompt's size."""
        plan = self.cache.plan({"model": "m"}, self.prompts.pieces(messages), CACHE_MINIMUM)
        self.cache.commit(plan)
        usage = plan.usage
        written = usage.cache_written_5m * WRITE_PRICE
        self._add(usage.total, usage.input_tokens + written + usage.cache_read * READ_PRICE)
        self.over += usage.total > self.window
        return usage.total

    def charge_summary(self, messages: Iterable[Message]) -> None:
        """Bill a summary request that sends messages as text, as much as fits the window."""
        history = sum(map(self.prompts.message, messages))
        tokens = min(history + INSTRUCTION_TOKENS, self.window)
        self._add(tokens, tokens)
        self.summaries += 1

    def _add(self, tokens: int, cost: float) -> None:
        self.requests += 1
        self.tokens += tokens
        self.cost += cost


class Policy(Protocol):
    """What a client sends: the messages of the next request, given all turns so far."""

    def messages(self, turns: Sequence[Turn], bill: Bill) -> Sequence[Message]:
        """The request's messages; ``bill`` knows sizes and takes what a summary costs."""
        ...


def flat(turns: Iterable[Turn]) -> list[Message]:
    """The turns' messages."""
    return [message for turn in turns for message in turn.messages]


class NoCompaction:
    """Everything is sent."""

    def messages(self, turns: Sequence[Turn], bill: Bill) -> Sequence[Message]:
        """See :meth:`Policy.messages`."""
        return flat(turns)


@dataclass
class LastMessages:
    """The last 20 messages, wherever that cuts.

    ``repaired`` cuts at a typed message, or keeps the running turn's in front of whole
    call groups.
    """

    repaired: bool
    count: int = 20

    def messages(self, turns: Sequence[Turn], bill: Bill) -> Sequence[Message]:
        """See :meth:`Policy.messages`."""
        kept = flat(turns)[-self.count :]
        if self.repaired:
            return self._repaired(kept, turns[-1].messages[0])
        bill.invalid += check_history(None, None, list(map(message_to_wire, kept))) is not None
        return kept

    @staticmethod
    def _repaired(kept: list[Message], typed: Message) -> list[Message]:
        for start, message in enumerate(kept):
            if message.role == "user" and not message.tool_results:
                return kept[start:]
        start = next(index for index, message in enumerate(kept) if message.role == "assistant")
        return [typed, *kept[start:]]


@dataclass
class MinimalAgent:
    """Before a turn that begins over the budget, all but five turns are folded."""

    budget: int
    keep: int = 5
    folded: int = 0
    seen: int = 0

    def messages(self, turns: Sequence[Turn], bill: Bill) -> Sequence[Message]:
        """See :meth:`Policy.messages`."""
        begins, self.seen = len(turns) > self.seen, len(turns)
        if begins and bill.prompts.size(self._view(turns)) > self.budget:
            cut = len(turns) - self.keep
            if cut > self.folded:
                bill.charge_summary(self._view(turns[:cut]))
                self.folded = cut
        return self._view(turns)

    def _view(self, turns: Sequence[Turn]) -> list[Message]:
        summary = SUMMARY_MESSAGES if self.folded else ()
        return [*summary, *flat(turns[self.folded :])]


@dataclass
class SummariseAll:
    """Over the limit, everything is summarised but the running turn's request and last call.

    The history is sent again as text for that.
    """

    limit: int
    turn: int = -1
    told: int = 0

    def messages(self, turns: Sequence[Turn], bill: Bill) -> Sequence[Message]:
        """See :meth:`Policy.messages`."""
        view = self._view(turns)
        if bill.prompts.size(view) > self.limit:
            bill.charge_summary(view)
            self.turn = len(turns) - 1
            self.told = max(len(turns[-1].messages) - 3, 0) // 2 * 2
            view = self._view(turns)
        return view

    def _view(self, turns: Sequence[Turn]) -> list[Message]:
        if self.turn < 0:
            return flat(turns)
        typed, *rest = turns[self.turn].messages
        return [*SUMMARY_MESSAGES, typed, *rest[self.told :], *flat(turns[self.turn + 1 :])]
