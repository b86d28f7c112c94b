"""The conversation's value types: blocks, messages, usage.

These are the program's own types. Their dictionary form, which is the Messages
API's, exists only in :mod:`agent.wire`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Role: TypeAlias = Literal["user", "assistant"]


@dataclass(frozen=True)
class TextBlock:
    """Plain text of either role."""

    text: str


@dataclass(frozen=True)
class ThinkingBlock:
    """A model's reasoning. It is sent back unmodified or not at all."""

    thinking: str
    signature: str


@dataclass(frozen=True)
class ToolUseBlock:
    """A model's call of a tool.

    ``defect`` is empty for a call that may run. Otherwise it says why the input
    is not what the model meant (cut off, not JSON, not an object); such a call
    is answered with an error and never run.
    """

    id: str
    name: str
    input: Mapping[str, object]
    defect: str = ""


@dataclass(frozen=True)
class MediaBlock:
    """An image or a PDF document that a user attached or a tool has read.

    ``data`` is its content in base64 and ``tokens`` about what it costs in a prompt.
    ``address`` names the file that keeps it, as a model is told it.
    """

    media_type: str
    data: str
    tokens: int
    address: str = ""

    @property
    def line(self) -> str:
        """The line that stands for it where only text can be."""
        return f"[{self.media_type}, kept at {self.address or 'this place of the transcript'}]"


@dataclass(frozen=True)
class ToolResultBlock:
    """The answer to one tool call: text, and what it shows beside it."""

    tool_use_id: str
    content: str
    is_error: bool = False
    media: tuple[MediaBlock, ...] = ()

    @property
    def told(self) -> str:
        """The whole result as text, with a line for each image or document."""
        return "\n".join((self.content, *(media.line for media in self.media)))


@dataclass(frozen=True)
class OpaqueBlock:
    """A block of a kind this program does not interpret, kept as it came."""

    data: Mapping[str, object]

    @property
    def kind(self) -> str:
        """The block's ``type`` on the wire."""
        return str(self.data.get("type", ""))


Block: TypeAlias = (
    TextBlock | ThinkingBlock | ToolUseBlock | ToolResultBlock | MediaBlock | OpaqueBlock
)


@dataclass(frozen=True)
class Message:
    """One message of the conversation, as the model sees it."""

    role: Role
    blocks: tuple[Block, ...]

    @property
    def text(self) -> str:
        """The text blocks, joined by blank lines."""
        return "\n\n".join(block.text for block in self.blocks if isinstance(block, TextBlock))

    @property
    def tool_uses(self) -> tuple[ToolUseBlock, ...]:
        """The tool calls of this message, in order."""
        return tuple(block for block in self.blocks if isinstance(block, ToolUseBlock))

    @property
    def tool_results(self) -> tuple[ToolResultBlock, ...]:
        """The tool results of this message, in order."""
        return tuple(block for block in self.blocks if isinstance(block, ToolResultBlock))

    @property
    def media(self) -> tuple[MediaBlock, ...]:
        """The images and documents of this message, those in tool results too, in order."""
        return tuple(media for block in self.blocks for media in _media_in(block))


def _media_in(block: Block) -> tuple[MediaBlock, ...]:
    match block:
        case MediaBlock():
            return (block,)
        case ToolResultBlock(media=media):
            return media
        case _:
            return ()


@dataclass(frozen=True)
class ToolSpec:
    """What a model is told of a tool: name, description, JSON schema of its input."""

    name: str
    description: str
    input_schema: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Usage:
    """Tokens as a server reported them.

    ``input_tokens`` leaves out what was read from or written to the prompt
    cache, as the Messages API counts it.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_input_tokens + other.cache_read_input_tokens,
            self.cache_creation_input_tokens + other.cache_creation_input_tokens,
        )

    @property
    def prompt_tokens(self) -> int:
        """The size of the request's prompt in tokens, cached or not."""
        return self.input_tokens + self.cache_read_input_tokens + self.cache_creation_input_tokens


def user_text(text: str, *attached: Block) -> Message:
    """A user message of one text block, and what is attached to it."""
    return Message("user", (TextBlock(text), *attached))


def assistant_text(text: str) -> Message:
    """An assistant message of one text block."""
    return Message("assistant", (TextBlock(text),))


def without_thinking(messages: Iterable[Message]) -> Iterator[Message]:
    """The messages with every thinking block left out, as a whole.

    A message that consisted of nothing else is left out, too.
    """
    for message in messages:
        blocks = tuple(block for block in message.blocks if not is_thinking(block))
        if len(blocks) == len(message.blocks):
            yield message
        elif blocks:
            yield Message(message.role, blocks)


def is_thinking(block: Block) -> bool:
    """Whether a block is reasoning, readable or redacted."""
    if isinstance(block, OpaqueBlock):
        return block.kind == "redacted_thinking"
    return isinstance(block, ThinkingBlock)


def is_blank(block: Block) -> bool:
    """Whether a block is text that a server would refuse as empty."""
    return isinstance(block, TextBlock) and not block.text.strip()


def scrub(text: str) -> str:
    """The text with lone surrogates replaced, so that it can be encoded as UTF-8."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
