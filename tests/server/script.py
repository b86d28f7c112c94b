"""Playing a script: which step answers which request."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeAlias

from tests.server.replies import Step
from tests.server.wire import JsonObject

Script: TypeAlias = Sequence[Step] | Callable[[JsonObject, int], Step]
"""Steps, one for each valid ``/v1/messages`` request; or a function of the request's
body and its number, from 0."""


class ScriptError(Exception):
    """The script has no answer for a request."""


class ScriptPlayer:
    """Hands out a script's steps. Another script object starts from its beginning."""

    def __init__(self) -> None:
        self._script: Script = ()
        self._position = 0
        self._failures: list[str] = []
        self._lock = threading.Lock()

    def step(self, script: Script, body: JsonObject) -> Step:
        """The answer to the next request. Raises :class:`ScriptError` without one."""
        with self._lock:
            self._change(script)
            number = self._position
            self._position += 1
        if callable(script):
            try:
                return script(body, number)
            except Exception as error:
                # A test's function may fail in any way, and a server's thread must not hide it.
                self.fail(f"the script failed at request {number + 1}: {error!r}")
                raise ScriptError(repr(error)) from error
        if number < len(script):
            return script[number]
        problem = f"the script is exhausted: request {number + 1} of {len(script)}"
        self.fail(problem)
        raise ScriptError(problem)

    def fail(self, problem: str) -> None:
        """Record what :meth:`failures` is to report."""
        with self._lock:
            self._failures.append(problem)

    def failures(self, script: Script) -> list[str]:
        """What went wrong so far, unused steps included."""
        with self._lock:
            self._change(script)
            return [*self._failures, *self._unused()]

    def _change(self, script: Script) -> None:
        if script is not self._script:
            self._failures.extend(self._unused())
            self._script = script
            self._position = 0

    def _unused(self) -> list[str]:
        if callable(self._script) or self._position >= len(self._script):
            return []
        return [f"{self._position} of {len(self._script)} steps of the script were used"]
