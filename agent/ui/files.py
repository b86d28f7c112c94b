"""The files of the working folder, to be found by a few letters of their paths."""

from __future__ import annotations

import heapq
import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TypeVar

Item = TypeVar("Item")

MOST_FILES = 200_000
"""More are not listed."""

STALE_SECONDS = 5.0
"""An older list is made anew the next time it is asked for, which does not wait for it."""

_WAIT_SECONDS = 2.0
_ITEMS_AT_A_TIME = 1_000
_PAUSE_SECONDS = 0.000_2
_GIT = ("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z")


class FileFinder:
    """Finds files and folders below ``root``, but those that git ignores.

    They are listed in a thread, once somebody asks. Safe to be called from any thread.
    """

    def __init__(self, root: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._clock = clock
        self._lock = threading.Lock()
        self._listed = threading.Event()
        self._listing = False
        self._listed_at = 0.0
        self._paths: list[tuple[str, str]] = []

    def find(self, typed: str, count: int) -> list[str]:
        """The paths that have the letters of ``typed`` in this order, the best first.

        With nothing typed, they are those that stand in the folder itself. Folders end in
        ``/``. Waits for the first list, but no longer than two seconds.
        """
        self._refresh()
        self._listed.wait(_WAIT_SECONDS)
        wanted = typed.lower()
        letters = re.compile("".join(f"[^{re.escape(c)}]*+{re.escape(c)}" for c in wanted))
        paths = _yielding(self._paths)
        if wanted:
            found = (pair for pair in paths if letters.match(pair[0]))
        else:
            found = (pair for pair in paths if "/" not in pair[1][:-1])
        best = heapq.nsmallest(count * 2, found, key=lambda pair: _rank(pair[0], wanted))
        there = (path for _, path in best if os.path.lexists(self._root / path))
        return list(islice(there, count))

    def _refresh(self) -> None:
        """Begin to list the files, unless that is under way or was done just now."""
        with self._lock:
            fresh = self._listed.is_set() and self._clock() - self._listed_at < STALE_SECONDS
            if self._listing or fresh:
                return
            self._listing = True
        # A daemon: whoever leaves does not wait for it.
        threading.Thread(target=self._list, daemon=True).start()

    def _list(self) -> None:
        try:
            files = list(islice(_files(self._root), MOST_FILES))
            found = _yielding((*files, *_folders(files)))
            self._paths = [(path.lower(), path) for path in found]
        finally:
            self._listed_at = self._clock()
            self._listed.set()
            self._listing = False


def _yielding(items: Sequence[Item]) -> Iterator[Item]:
    """The items, with pauses in which the thread that reads keys comes to its turn."""
    for start in range(0, len(items), _ITEMS_AT_A_TIME):
        yield from items[start : start + _ITEMS_AT_A_TIME]
        time.sleep(_PAUSE_SECONDS)


def _folders(files: Sequence[str]) -> set[str]:
    """The folders that the files are in, each with a ``/`` at its end."""
    folders: set[str] = set()
    for file in _yielding(files):
        folder = file.rpartition("/")[0]
        while folder and f"{folder}/" not in folders:
            folders.add(f"{folder}/")
            folder = folder.rpartition("/")[0]
    return folders


def _rank(path: str, wanted: str) -> tuple[bool, int, int, str]:
    """Best is what is visible, has the letters together, in its name, and is short."""
    name = path.rstrip("/").rpartition("/")[2]
    hidden = (path.startswith(".") or "/." in path) and not wanted.startswith(".")
    if name.startswith(wanted) or path.startswith(wanted):
        place = 0
    elif wanted in name:
        place = 1
    else:
        place = 2 if wanted in path else 3
    return hidden, place, len(path), path


def _files(root: Path) -> Iterator[str]:
    """The files below a folder as paths relative to it, without those that git ignores."""
    try:
        done = subprocess.run(_GIT, cwd=root, capture_output=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        # No git, or no work tree of git.
        from agent.tools.search_python import files_below

        yield from (path.relative_to(root).as_posix() for path in files_below(root))
    else:
        yield from filter(None, os.fsdecode(done.stdout).split("\0"))
