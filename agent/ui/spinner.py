"""A line that shows that the program is alive while nothing else moves."""

from __future__ import annotations

from collections.abc import Callable

from rich.segment import Segment
from rich.style import Style

from agent.ui import figures
from agent.ui.live import Line

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAMES_PER_SECOND = 10
QUIET_SECONDS = 0.3
"""A wait shorter than this shows nothing."""

STALL_SECONDS = 1.5
"""A pause within an answer that is shorter than this is no wait."""

_CHARS_PER_TOKEN = 4
"""About as many characters of English text make one token."""

_DIM = Style(dim=True)


class Spinner:
    """What is waited for, since when, and how much has come of it.

    ``clock`` counts seconds; ``received`` is the size of what came, in characters.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.received = 0
        self._clock = clock
        self._quiet = QUIET_SECONDS
        self._label = ""
        self._since = 0.0
        self._countdown: Callable[[float], str] | None = None
        self._until = 0.0

    def start(self, label: str, quiet: float = QUIET_SECONDS) -> None:
        """Wait for something; the seconds go on when it is the same as before.

        A wait of less than ``quiet`` seconds shows nothing.
        """
        self._quiet = quiet
        if label != self._label or self._countdown is not None:
            self._label = label
            self._since = self._clock()
        self._countdown = None

    def count_down(self, text: Callable[[float], str], seconds: float) -> None:
        """Wait for a time to pass; ``text`` is given the remaining seconds.

        Then what was waited for before is waited for again.
        """
        self._countdown = text
        self._since = self._until = self._clock() + seconds

    def restart(self) -> None:
        """Count the seconds from now."""
        self._since = self._clock()

    def stop(self) -> None:
        """Wait for nothing."""
        self._label = ""
        self._countdown = None

    def line(self) -> Line:
        """The line as it looks now; empty while there is nothing to show."""
        now = self._clock()
        frame = _FRAMES[int(now * _FRAMES_PER_SECOND) % len(_FRAMES)]
        if self._countdown is not None and (now < self._until or not self._label):
            text = self._countdown(max(self._until - now, 0.0))
            return [Segment(f"{frame} {text}", Style(color="yellow"))]
        waited = now - self._since
        if not self._label or waited < self._quiet:
            return []
        return [Segment(f"{frame} {progress(self._label, waited, self.received)}", _DIM)]


def progress(label: str, seconds: float, received: int) -> str:
    """What is waited for, for how long, and about how many tokens have come."""
    parts = [label, figures.whole_seconds(seconds)]
    if about := received // _CHARS_PER_TOKEN:
        parts.append(f"~{figures.tokens(about)} tokens")
    return " · ".join(parts)
