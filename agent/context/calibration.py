"""What estimates have been found to be off by, per model, kept from session to session.

A session learns how many real tokens stand behind a token of the installed
vocabulary (:mod:`.tokens`) and keeps the factor in its transcript. This store hands
it on, so that a new session's first estimate is as good as the last session's. It
holds nothing else, and losing it costs nothing but that.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

from agent.context.tokens import FACTOR_BOUNDS
from agent.transcript.files import replace_private

VERSION = 1
"""Changes when factors of the old and the new measure do not mean the same."""

MOST_MODELS = 100
_MOST_BYTES = 100_000
_MOST_NAME_CHARS = 200

_WORTH_WRITING = 0.005
"""A factor that differs by less than this is not worth a write."""


class CalibrationStore:
    """The factors of one user, in one file.

    Each call reads the file anew, so that processes see each other's factors; of two
    that write at the same time the last one wins. The parent folder is made, 0700,
    when the first factor is saved.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self, model: str) -> float | None:
        """The factor for a model; ``None`` when nothing is known of it.

        A file that is missing, unreadable or not ours knows nothing.
        """
        return self._factors().get(model)

    def save(self, model: str, factor: float) -> bool:
        """Keep the factor for a model; false when it could not be kept.

        The models saved last are kept, at most :data:`MOST_MODELS` of them. A value out
        of bounds is brought within them, one that is no number is left out.
        """
        if not math.isfinite(factor) or not model or len(model) > _MOST_NAME_CHARS:
            return False
        kept = self._factors()
        known = kept.pop(model, None)
        value = round(_bounded(factor), 4)
        if known is not None and abs(known - value) < _WORTH_WRITING:
            return True
        kept[model] = value
        newest = dict(list(kept.items())[-MOST_MODELS:])
        return self._write({"version": VERSION, "factors": newest})

    def _factors(self) -> dict[str, float]:
        """The factors on disk, those saved last at the end."""
        try:
            if self._path.stat().st_size > _MOST_BYTES:
                return {}
            data = json.loads(self._path.read_bytes())
        except (OSError, ValueError, RecursionError):
            # Absent, unreadable or damaged: what it held is learnt again.
            return {}
        match data:
            case {"version": version, "factors": dict(factors)} if version == VERSION:
                return {
                    model: _bounded(value)
                    for model, value in factors.items()
                    if isinstance(value, float | int) and 0 < value < math.inf
                }
            case _:
                return {}

    def _write(self, data: Mapping[str, object]) -> bool:
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_private(self._path, json.dumps(data, indent=1).encode("ascii"))
        except OSError:
            # A full disk or a folder that cannot be written must not disturb a session;
            # the caller learns of it by the answer.
            return False
        return True


def _bounded(factor: float) -> float:
    low, high = FACTOR_BOUNDS
    return float(min(max(factor, low), high))
