"""When to stop asking a model for summaries, and when to try again."""

from __future__ import annotations

from dataclasses import dataclass, field

FAILURES_IN_A_ROW = 3
COMPACTIONS_IN_A_TURN = 3
"""So many within one turn, and the turn refills the window faster than a summary helps."""

TURNS_OPEN = 5


@dataclass
class Breaker:
    """Opens after three failed summaries in a row, or three compactions within one turn.

    While it is open, code folds without a model. After five turns it lets one try
    through: success closes it, failure opens it for five turns more. Turns are
    counted by their numbers.
    """

    failures: int = 0
    opened_in: int | None = None
    _compactions: dict[int, int] = field(default_factory=dict)

    def allows(self, turn: int) -> bool:
        """Whether a model may be asked in this turn."""
        return self.opened_in is None or turn >= self.opened_in + TURNS_OPEN

    def succeeded(self, turn: int) -> str:
        """A summary was adopted. Returns what to say if that opens the breaker."""
        self.failures = 0
        self.opened_in = None
        count = self._compactions.get(turn, 0) + 1
        self._compactions = {turn: count}
        if count < COMPACTIONS_IN_A_TURN:
            return ""
        self.opened_in = turn
        return (
            f"this turn has filled the window {count} times: it is folded without summaries "
            f"from here on; they are tried again after {TURNS_OPEN} turns"
        )

    def failed(self, turn: int) -> str:
        """A summary failed. Returns what to say if that opens the breaker."""
        self.failures += 1
        if self.failures < FAILURES_IN_A_ROW:
            return ""
        already_told = self.opened_in is not None
        self.opened_in = turn
        if already_told:
            return ""
        return (
            f"{self.failures} summaries in a row have failed: folding goes on without a model; "
            f"summaries are tried again after {TURNS_OPEN} turns"
        )
