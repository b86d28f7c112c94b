"""How much may a request have? Window, output reserve and budget, in tokens (pure)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from agent.providers.base import Limits

WINDOW_SHARE = 0.7
"""The part of the window that the input may fill unless the user says otherwise."""

MOST_INPUT = 200_000
"""The largest default budget: beyond it answers get slow and dear."""

_RESULT_SHARE = 0.25
_LEAST_RESULT_CHARS, _MOST_RESULT_CHARS = 1_200, 30_000
_CHARS_PER_TOKEN = 3

SMALL_WINDOW = 8_192
"""Up to this window an answer may have a quarter of it, so that it need not be folded at
once; and the model is told of itself and of its tools in a short form."""

LEAST_RESERVE = 256
"""Room for a short answer, also where that is more than a tenth of the window."""

UNKNOWN_WINDOW = Limits(32_000, 8_192, "a cautious guess")

_KNOWN = (
    ("claude-sonnet-5-5", Limits(1_000_000, 128_000, "the built-in table")),
    ("claude-haiku-4-5", Limits(200_000, 64_000, "the built-in table")),
    ("claude-", Limits(200_000, 32_000, "the built-in table")),
)
"""Limits by beginning of the model's id, for servers that do not tell. First match counts."""


@dataclass(frozen=True)
class Budget:
    """What a request to one model may have, in tokens.

    ``tokens`` is the most input before the conversation is folded; ``window``
    bounds input and output together; ``most_output`` is what one answer may have
    at most; ``reserve`` is kept free for an answer in any case.
    """

    tokens: int
    window: int
    most_output: int
    reserve: int
    source: str

    @property
    def most_input(self) -> int:
        """The most input that leaves room for an answer."""
        return self.window - self.reserve

    @property
    def result_chars(self) -> int:
        """The most characters of one tool result: a quarter of the input, within bounds."""
        chars = round(self.tokens * _RESULT_SHARE * _CHARS_PER_TOKEN)
        return min(max(chars, _LEAST_RESULT_CHARS), _MOST_RESULT_CHARS)

    def max_tokens(self, size: int, uncertain: int) -> int:
        """How long an answer to an input of ``size`` tokens may be.

        ``uncertain`` is the part of the size that was only estimated; it is given a
        margin of 40%, which is how far a first estimate may be off. What a server reported
        may be off by a little, too.
        """
        room = self.window - size - size // 50 - uncertain * 2 // 5 - 16
        return max(min(self.most_output, room), min(self.reserve, self.most_output))


def known_limits(model: str) -> Limits:
    """The limits of a model whose server does not tell them."""
    for beginning, limits in _KNOWN:
        if model.startswith(beginning):
            return limits
    return UNKNOWN_WINDOW


def make_budget(limits: Limits, max_input_tokens: int | None, max_output_tokens: int) -> Budget:
    """The budget for a model.

    A limit that the user set beyond a guessed window is believed; beyond a window
    that is known it is lowered to what leaves room for an answer.
    """
    window = limits.window
    if max_input_tokens is not None and limits is UNKNOWN_WINDOW:
        window = max(window, round(max_input_tokens / WINDOW_SHARE))
    small = window <= SMALL_WINDOW
    reserve = max(min(window // 10, 4_096), min(LEAST_RESERVE, window // 4), 1)
    most_output = min(limits.max_output, max_output_tokens, window // 4 if small else window)
    wanted = max_input_tokens or min(round(window * WINDOW_SHARE), MOST_INPUT)
    return Budget(
        tokens=max(min(wanted, window - reserve), 1),
        window=window,
        most_output=max(most_output, 1),
        reserve=reserve,
        source=limits.source,
    )


def lower_window(budget: Budget, window: int) -> Budget:
    """The budget after a server has shown that the window is smaller than believed.

    The input may then have 70% of it, and never more than before.
    """
    if window >= budget.window:
        return budget
    limits = Limits(window, budget.most_output, "the server's refusal")
    lowered = make_budget(limits, None, budget.most_output)
    return replace(lowered, tokens=min(lowered.tokens, budget.tokens))
