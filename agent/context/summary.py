"""The rolling summary: ask a model for it, and check what it answers.

Asked *inline*, the request is the live conversation up to the cut, unchanged, with the
instruction as its last message, so that it is read from the prompt cache. Asked *told*,
the conversation is given as text, in as many parts as the model's window needs, the
summary so far carried along. Either way it goes straight to the provider: it cannot
start another compaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from agent.context.budget import Budget
from agent.context.plan import FoldPlan
from agent.context.prompts import load_prompt
from agent.context.telling import quoted, told_parts
from agent.context.tokens import count_text
from agent.errors import AgentError, ProviderError
from agent.events import TOLD_QUIET_SECONDS, Event, Notice, RetryScheduled, ServerQuiet
from agent.messages import TextBlock, ToolUseBlock, Usage, user_text
from agent.providers.base import BlockPart, EndPart, LackPart, Provider, QuietPart, Request
from agent.retry import Retries
from agent.transcript.view import View

_THINKING_TOKENS = 4_000
"""Room for reasoning, which counts as output, in the answer to a summary request."""

_WORDS_PER_TOKEN = 0.6
_PART_SHARE = 0.6
"""The part of a window that a told part may fill, beside prompt, summary and answer."""

_LEAST_PART = 200
_CHARS_PER_TOKEN = 4

_WHOLE = frozenset({"end_turn", "stop_sequence"})


class SummaryError(AgentError):
    """No usable summary; the reason is one line. ``usage`` is what the try has cost."""

    def __init__(self, reason: str, usage: Usage | None = None) -> None:
        super().__init__(reason)
        self.usage = usage or Usage()


class SummaryTooLargeError(SummaryError):
    """What is to be summarised does not fit the model's window."""


class SummaryToolCallError(SummaryError):
    """The model asked for a tool instead of summarising."""


@dataclass(frozen=True)
class Summary:
    """A summary that was accepted, and what it cost."""

    text: str
    usage: Usage


@dataclass(frozen=True)
class Summariser:
    """The model that writes summaries, and what a request to it may have.

    ``patience_seconds`` is how long a busy server is waited for in each request;
    ``tell`` is given what is waited for.
    """

    provider: Provider
    model: str
    budget: Budget
    patience_seconds: float = 0.0
    tell: Callable[[Event], None] = lambda _: None


def summary_tokens(budget: int) -> int:
    """How long a summary may be: a fifth of the budget, between 300 and 6,000 tokens."""
    return min(max(budget // 5, 300), 6_000)


def inline_request(view: View, plan: FoldPlan, budget: Budget, focus: str) -> Request:
    """The request that asks within the live conversation."""
    tokens = min(summary_tokens(budget.tokens), budget.most_output // 2)
    instruction = load_prompt("summary", words=_words(tokens), focus=_wish(focus))
    folded = tuple(message for turn in plan.fold for message in turn.messages)
    return Request(
        model=view.model,
        system=view.system,
        tools=view.tools,
        messages=(*view.summary_messages, *folded, user_text(instruction)),
        max_tokens=_answer_room(tokens, budget),
    )


async def summarise_inline(
    summariser: Summariser, request: Request, size: int, uncertain: int
) -> Summary:
    """Ask within the live conversation.

    ``size`` is the request's prompt in tokens, ``uncertain`` the part of it that may
    be off.

    :raises SummaryError: the request does not fit, or the answer is empty, cut off,
        or asks for a tool.
    :raises ProviderError: the server refused or failed.
    """
    budget = summariser.budget
    room = budget.max_tokens(size, uncertain)
    if size + min(room, summary_tokens(budget.tokens)) > budget.window:
        raise SummaryTooLargeError(f"the turns to fold (about {size} tokens) do not fit the window")
    fitted = replace(request, max_tokens=min(request.max_tokens, room))
    return await _asked(summariser, fitted)


async def summarise_told(
    summariser: Summariser, view: View, plan: FoldPlan, tokens: int, focus: str
) -> Summary:
    """Ask by telling the conversation, in parts if need be.

    ``tokens`` is how long the summary may be.

    :raises SummaryError: an answer is empty or cut off, or the server failed after
        some parts; ``usage`` is what they have cost.
    :raises ProviderError: the server refused or failed at the first part.
    """
    budget = summariser.budget
    tokens = min(tokens, budget.window // 8)
    system = load_prompt("summary_told")
    room = round(budget.window * _PART_SHARE) - tokens - count_text(system)
    parts = told_parts(
        plan.fold, max(room, _LEAST_PART), lambda text: round(count_text(text) * view.factor)
    )
    text, usage = view.summary_body, Usage()
    for number, part in enumerate(parts, 1):
        earlier = text[: tokens * _CHARS_PER_TOKEN]
        prompt = load_prompt(
            "summary_part",
            earlier=f"[Summary so far]\n{quoted(earlier)}[End of the summary]\n\n" if text else "",
            part=str(number),
            parts=str(len(parts)),
            transcript=part.rstrip("\n"),
            merge=": the summary so far, brought up to date by this part" if text else "",
            words=_words(tokens),
            focus=_wish(focus),
        )
        size = round((count_text(prompt) + count_text(system)) * view.factor)
        most = min(_answer_room(tokens, budget), budget.max_tokens(size, size // 3))
        request = Request(summariser.model, system, (), (user_text(prompt),), most)
        try:
            answer = await _asked(summariser, request)
        except SummaryError as error:
            raise type(error)(str(error), usage + error.usage) from error
        except ProviderError as error:
            if number == 1:
                raise
            raise SummaryError(str(error), usage) from error
        text, usage = answer.text, usage + answer.usage
    if not parts:
        raise SummaryError("there is no text to summarise")
    return Summary(text, usage)


def _answer_room(tokens: int, budget: Budget) -> int:
    """The most tokens of an answer: the summary, twice over, and room for reasoning."""
    return min(tokens * 2 + _THINKING_TOKENS, budget.most_output)


def _words(tokens: int) -> str:
    return str(round(tokens * _WORDS_PER_TOKEN))


def _wish(focus: str) -> str:
    return f"\nPay special attention to: {focus}" if focus else ""


async def _asked(summariser: Summariser, request: Request) -> Summary:
    """Ask, and ask again while the server is busy and the patience lasts."""
    retries = Retries(summariser.patience_seconds)
    while True:
        try:
            return await _answered(summariser, request)
        except ProviderError as error:
            wait = retries.wait(error)
            if wait is None:
                raise
            summariser.tell(RetryScheduled(str(error), wait, retries.attempt))
        await asyncio.sleep(wait)


async def _answered(summariser: Summariser, request: Request) -> Summary:
    texts: list[str] = []
    end = EndPart("", Usage())
    asked_for_tool = False
    async with aclosing(summariser.provider.stream(request)) as parts:
        async for part in parts:
            match part:
                case BlockPart(TextBlock(text)):
                    texts.append(text)
                case BlockPart(ToolUseBlock()):
                    asked_for_tool = True
                case QuietPart(seconds, left, alive) if seconds >= TOLD_QUIET_SECONDS:
                    summariser.tell(ServerQuiet(seconds, left, alive))
                case LackPart(text):
                    summariser.tell(Notice(text))
                case EndPart():
                    end = part
                case _:
                    pass
    return _checked(texts, end, asked_for_tool=asked_for_tool)


def _checked(texts: Sequence[str], end: EndPart, *, asked_for_tool: bool) -> Summary:
    text = "\n\n".join(texts).strip()
    if asked_for_tool:
        raise SummaryToolCallError("the model asked for a tool instead of summarising", end.usage)
    if end.stop_reason not in _WHOLE:
        raise SummaryError(f"the summary was cut off ({end.stop_reason})", end.usage)
    if not text:
        raise SummaryError("the summary was empty", end.usage)
    return Summary(text, end.usage)
