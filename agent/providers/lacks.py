"""What an endpoint turns out to lack, so that the agent does without and says so once."""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet

from agent.errors import ProviderError

_UNSUPPORTED = re.compile(
    r"not (?:support|permit|allow|recogni|implement)|unsupported|unknown|unexpected|unrecogni|extra"
)
_DISPENSABLE = {
    name: re.compile(rf"\b{name}\b(?![.\[])") for name in ("cache_control", "thinking", "tools")
}
"""Parts of a request that can be left out, and how a refusal names them."""


class Lacks:
    """The parts that one endpoint does not have, by name."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._untold: list[str] = []

    @property
    def known(self) -> AbstractSet[str]:
        """Their names."""
        return self._known

    def note(self, name: str, told: str) -> None:
        """Take note of something that is lacking; ``told`` says so to a person, once."""
        if name not in self._known:
            self._known.add(name)
            self._untold.append(told)

    def take_untold(self) -> list[str]:
        """What was not told yet, a line each."""
        untold, self._untold = self._untold, []
        return untold

    def can_do_without(self, refusal: ProviderError) -> bool:
        """Whether a request was refused for a part that can be left out, and is from now on."""
        text = str(refusal).lower()
        if refusal.status not in {400, 422, 501} or not _UNSUPPORTED.search(text):
            return False
        for name, named in _DISPENSABLE.items():
            if name not in self._known and named.search(text):
                self.note(name, f"this server takes no {name}: the agent does without")
                return True
        return False
