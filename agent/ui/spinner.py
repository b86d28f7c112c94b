"""A line that shows that the program is alive while nothing else moves."""

from __future__ import annotations

from collections.abc import Callable

from rich.segment import Segment
from rich.style import Style

from agent.ui import figures
from agent.ui.live import Line

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAMES_PER_SECOND = 10
_QUIET_SECONDS = 0.3
"""A wait shorter than this shows nothing."""

_DIM = Style(dim=True)


class Spinner:
    """What is waited for, and since when. ``clock`` counts seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._label = ""
        self._since = 0.0
        self._countdown: Callable[[float], str] | None = None
        self._until = 0.0

    def start(self, label: str) -> None:
        """Wait for something; the seconds go on when it is the same as before."""
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
        if not self._label or waited < _QUIET_SECONDS:
            return []
        return [Segment(f"{frame} {self._label} · {figures.whole_seconds(waited)}", _DIM)]
