"""The rolling summary: ask a model for it, and check what it answers.

The request is the live conversation up to the cut, unchanged, with the instruction
as its last message, so that it is read from the prompt cache. It goes straight to
the provider: it cannot start another compaction.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from agent.context.budget import Budget
from agent.context.plan import FoldPlan
from agent.context.prompts import load_prompt
from agent.errors import AgentError
from agent.messages import TextBlock, ToolUseBlock, Usage, user_text
from agent.providers.base import BlockPart, EndPart, Provider, Request
from agent.transcript.view import View

_THINKING_TOKENS = 4_000
"""Room for reasoning, which counts as output, in the answer to a summary request."""

_WORDS_PER_TOKEN = 0.6

_WHOLE = frozenset({"end_turn", "stop_sequence"})


class SummaryError(AgentError):
    """No usable summary; the reason is one line. ``usage`` is what the try has cost."""

    def __init__(self, reason: str, usage: Usage | None = None) -> None:
        super().__init__(reason)
        self.usage = usage or Usage()


class SummaryTooLargeError(SummaryError):
    """What is to be summarised does not fit the model's window."""


@dataclass(frozen=True)
class Summary:
    """A summary that was accepted, and what it cost."""

    text: str
    usage: Usage


def summary_tokens(budget: int) -> int:
    """How long a summary may be: a fifth of the budget, between 300 and 6,000 tokens."""
    return min(max(budget // 5, 300), 6_000)


def summary_request(view: View, plan: FoldPlan, budget: Budget, focus: str) -> Request:
    """The request that asks for a summary of the folded turns and the previous summary."""
    tokens = summary_tokens(budget.tokens)
    wish = f"\nPay special attention to: {focus}" if focus else ""
    instruction = load_prompt("summary", words=str(round(tokens * _WORDS_PER_TOKEN)), focus=wish)
    folded = tuple(message for turn in plan.fold for message in turn.messages)
    return Request(
        model=view.model,
        system=view.system,
        tools=view.tools,
        messages=(*view.summary_messages, *folded, user_text(instruction)),
        max_tokens=min(tokens * 2 + _THINKING_TOKENS, budget.most_output),
    )


async def summarise(
    provider: Provider, request: Request, budget: Budget, size: int, uncertain: int
) -> Summary:
    """Ask for the summary.

    ``size`` is the request's prompt in tokens, ``uncertain`` the part of it that may
    be off.

    :raises SummaryError: the request does not fit, or the answer is empty, cut off,
        or asks for a tool.
    :raises ProviderError: the server refused or failed.
    """
    room = budget.max_tokens(size, uncertain)
    if size + min(room, summary_tokens(budget.tokens)) > budget.window:
        raise SummaryTooLargeError(f"the turns to fold (about {size} tokens) do not fit the window")
    fitted = replace(request, max_tokens=min(request.max_tokens, room))
    texts: list[str] = []
    end = EndPart("", Usage())
    asked_for_tool = False
    async for part in provider.stream(fitted):
        match part:
            case BlockPart(TextBlock(text)):
                texts.append(text)
            case BlockPart(ToolUseBlock()):
                asked_for_tool = True
            case EndPart():
                end = part
            case _:
                pass
    return _check("\n\n".join(texts).strip(), end, asked_for_tool=asked_for_tool)


def _check(text: str, end: EndPart, *, asked_for_tool: bool) -> Summary:
    if asked_for_tool:
        raise SummaryError("the model asked for a tool instead of summarising", end.usage)
    if end.stop_reason not in _WHOLE:
        raise SummaryError(f"the summary was cut off ({end.stop_reason})", end.usage)
    if not text:
        raise SummaryError("the summary was empty", end.usage)
    return Summary(text, end.usage)
