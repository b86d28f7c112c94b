"""The one thing the loop and the context engine know of a model: this protocol."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from agent.messages import Block, Message, ToolSpec, Usage


@dataclass(frozen=True)
class Request:
    """One request: the view and the most tokens the answer may have."""

    model: str
    system: str
    tools: tuple[ToolSpec, ...]
    messages: tuple[Message, ...]
    max_tokens: int


@dataclass(frozen=True)
class Limits:
    """A model's limits in tokens, where the figures come from, and whether it knows tools."""

    window: int
    max_output: int
    source: str
    tools: bool = True


@dataclass(frozen=True)
class OfferedModel:
    """A model in a server's list, with its limits in tokens as far as they are told."""

    id: str
    window: int | None
    max_output: int | None


@dataclass(frozen=True)
class TextPart:
    """A piece of text of the block being received."""

    text: str


@dataclass(frozen=True)
class ThinkingPart:
    """A piece of reasoning of the block being received."""

    text: str


@dataclass(frozen=True)
class BlockPart:
    """A block is complete."""

    block: Block


@dataclass(frozen=True)
class EndPart:
    """The server said that the message is complete. Always the last part."""

    stop_reason: str
    usage: Usage


@dataclass(frozen=True)
class QuietPart:
    """Nothing has come for some time; the wait goes on.

    ``seconds`` is how long there was no content, ``left`` how long it is still waited
    for; ``alive`` is true while signs of life (pings) come.
    """

    seconds: float
    left: float
    alive: bool


@dataclass(frozen=True)
class LackPart:
    """The server lacks something that is done without from now on; told once, in one line."""

    text: str


Part: TypeAlias = TextPart | ThinkingPart | BlockPart | QuietPart | LackPart | EndPart


SummaryForm: TypeAlias = Literal["inline", "told"]
"""How a model is best asked for a summary: within the live conversation, whose prefix
the prompt cache knows, or by telling it the conversation as one labelled transcript,
which small models do better with."""


class Provider(Protocol):
    """A model behind some wire.

    Every method raises :class:`agent.errors.ProviderError` or one of its
    subclasses, and nothing else, when the server refuses or fails.
    """

    @property
    def summary_form(self) -> SummaryForm:
        """How this provider's models are asked for summaries."""
        ...

    def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """Send a request and yield the answer as it comes.

        The iterator ends after :class:`EndPart`; an answer that ends without it
        raises :class:`agent.errors.StreamBrokenError`. While nothing comes over a wire,
        there is a :class:`QuietPart` about every second. Closing it cancels the request.
        """
        ...

    async def count(self, request: Request) -> int | None:
        """The request's prompt in tokens as the server counts it.

        ``None`` when the server has no such service.
        """
        ...

    async def limits(self, model: str) -> Limits | None:
        """The model's limits as the server states them; ``None`` when it does not."""
        ...

    async def close(self) -> None:
        """Release connections. The provider is not used afterwards."""
        ...
