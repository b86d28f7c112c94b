"""A strict player of scripted answers, for tests of the loop and demonstrations.

Each request takes the next step of the script. A request beyond the script raises,
and :meth:`ScriptedProvider.assert_done` fails while steps are left.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import dataclass

from agent.errors import ProviderError
from agent.messages import Block, TextBlock, ThinkingBlock, ToolUseBlock, Usage
from agent.providers.base import (
    BlockPart,
    EndPart,
    Limits,
    Part,
    Request,
    SummaryForm,
    TextPart,
    ThinkingPart,
)

SUMMARY_REQUESTS = ("[Summarise the conversation so far]", "[Transcript, part ")
"""What stands in a request for a summary, inline or told."""


@dataclass(frozen=True)
class Answer:
    """One scripted answer. ``stop_reason`` is worked out from the blocks when empty.

    ``pause_seconds`` is a wait after each piece.
    """

    blocks: tuple[Block, ...]
    stop_reason: str = ""
    usage: Usage | None = None
    pause_seconds: float = 0.0


@dataclass(frozen=True)
class Failure:
    """A scripted failure, after ``blocks`` have been received."""

    error: ProviderError
    blocks: tuple[Block, ...] = ()


def say(text: str) -> Answer:
    """An answer of one text."""
    return Answer((TextBlock(text),))


def call(name: str, call_id: str, **arguments: object) -> Answer:
    """An answer of one tool call."""
    return Answer((ToolUseBlock(call_id, name, arguments),))


class ScriptedProvider:
    """Plays a script; keeps the requests it was sent in ``requests``.

    Requests for a summary are answered with ``summary`` when it is set, beside the
    script; otherwise they take the next step like any other.

    ``measure`` gives the prompt size in tokens that answers report and ``count``
    returns; without it answers report none and counting is missing.
    """

    def __init__(
        self,
        script: Iterable[Answer | Failure],
        *,
        limits: Limits | None = None,
        measure: Callable[[Request], int] | None = None,
        summary_form: SummaryForm = "inline",
    ) -> None:
        self.summary_form: SummaryForm = summary_form
        self.requests: list[Request] = []
        self._script = list(script)
        self._limits = limits
        self._measure = measure
        self.summary: Answer | Failure | None = None

    def clear(self) -> None:
        """Forget the steps that were not played."""
        self._script.clear()

    def extend(self, *steps: Answer | Failure) -> None:
        """Add steps to the script's end."""
        self._script.extend(steps)

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """See :meth:`.base.Provider.stream`."""
        self.requests.append(request)
        step = self._next_step(request)
        for block in step.blocks:
            for part in _parts(block):
                yield part
                if isinstance(step, Answer) and step.pause_seconds:
                    await asyncio.sleep(step.pause_seconds)
        if isinstance(step, Failure):
            raise step.error
        calls = any(isinstance(block, ToolUseBlock) for block in step.blocks)
        usage = step.usage or Usage(self._measure(request) if self._measure else 0, 20)
        yield EndPart(step.stop_reason or ("tool_use" if calls else "end_turn"), usage)

    async def count(self, request: Request) -> int | None:
        """See :meth:`.base.Provider.count`."""
        return self._measure(request) if self._measure else None

    async def limits(self, model: str) -> Limits | None:
        """See :meth:`.base.Provider.limits`."""
        return self._limits

    async def close(self) -> None:
        """Nothing to release."""

    def _next_step(self, request: Request) -> Answer | Failure:
        asked = request.messages[-1].text
        if self.summary is not None and any(mark in asked for mark in SUMMARY_REQUESTS):
            return self.summary
        if not self._script:
            raise ProviderError(f"request {len(self.requests)} is beyond the script")
        return self._script.pop(0)

    def assert_done(self) -> None:
        """See that the whole script was played.

        :raises AssertionError: steps are left.
        """
        if self._script:
            raise AssertionError(f"{len(self._script)} steps of the script were not played")


def _parts(block: Block) -> Iterable[Part]:
    match block:
        case TextBlock(text):
            middle = len(text) // 2
            return (TextPart(text[:middle]), TextPart(text[middle:]), BlockPart(block))
        case ThinkingBlock(thinking):
            return (ThinkingPart(thinking), BlockPart(block))
        case _:
            return (BlockPart(block),)
