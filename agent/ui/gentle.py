"""Imports behind the prompt that do not get in the way of typing."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time
from contextlib import AbstractContextManager
from importlib.abc import MetaPathFinder

KEY_SECONDS = 0.04
"""How long the next import waits after a key: it is drawn by then."""

PAUSE_SECONDS = 0.3
"""Without a key for so long, nobody is typing."""

_SWITCH_SECONDS = 0.0005
"""How long an importing thread keeps the interpreter; by default ten times as long."""

_YIELD_SECONDS = 0.0001


class GentleImports(MetaPathFinder, AbstractContextManager["GentleImports"]):
    """While it is entered, imports in other threads than the main one let typing go first.

    A thread that imports holds the interpreter most of the time. While keys are
    pressed, it lets go before each module here, and waits until a key is drawn. Nothing
    is collected meanwhile: going through the objects of the SDK takes a tenth of a second,
    and what was imported is never gone through again. Finds no module itself. ``waited``
    counts how often an import waited for a key.
    """

    def __init__(self) -> None:
        self.waited = 0
        self._typed_at = -PAUSE_SECONDS
        self._interval = sys.getswitchinterval()

    def typed(self) -> None:
        """A key was pressed."""
        self._typed_at = time.monotonic()

    def sent(self) -> None:
        """What was typed was sent: the imports are waited for now."""
        self._typed_at = -PAUSE_SECONDS

    async def pause(self) -> None:
        """Wait until nobody types."""
        left = self._typed_at + PAUSE_SECONDS - time.monotonic()
        if left > 0:
            await asyncio.sleep(left)
            await self.pause()

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        """Wait if it is not the main thread that imports."""
        if threading.current_thread() is threading.main_thread():
            return
        while (left := self._typed_at + KEY_SECONDS - time.monotonic()) > 0:
            self.waited += 1
            time.sleep(left)
        if time.monotonic() - self._typed_at < PAUSE_SECONDS:
            time.sleep(_YIELD_SECONDS)

    def __enter__(self) -> GentleImports:
        self._interval = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH_SECONDS)
        sys.meta_path.insert(0, self)
        gc.disable()
        return self

    def __exit__(self, *_: object) -> None:
        gc.freeze()
        gc.enable()
        sys.meta_path.remove(self)
        sys.setswitchinterval(self._interval)
