"""The transcripts folders of one user, so that sessions of all of them can be listed.

A file with one JSON string a line, to which lines are only added, each in one write, so
that processes lose nothing of each other's. It is derived and never trusted: a folder
is named again whenever a session in it is saved to, and whoever reads the file looks
at what is really there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from agent.transcript.files import open_private, write_all


class FolderRegistry:
    """The folders of one user, in one file.

    The parent folder is made, 0700, when the first one is added.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, folder: Path) -> bool:
        """Name a folder; false when it could not be kept."""
        try:
            folder = folder.resolve()
            if folder in self._named():
                return True
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = open_private(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            try:
                # The newline before it keeps a line that was cut short to itself.
                write_all(descriptor, f"\n{json.dumps(str(folder))}\n".encode("ascii"))
            finally:
                os.close(descriptor)
        except OSError:
            # A full disk or a folder that cannot be written must not disturb a session;
            # the caller learns of it by the answer.
            return False
        return True

    def folders(self) -> tuple[Path, ...]:
        """The folders that are there, each once; those that are missing are left out."""
        return tuple(path for path in dict.fromkeys(self._named()) if _is_there(path))

    def _named(self) -> Iterator[Path]:
        try:
            lines = self._path.read_bytes().split(b"\n")
        except OSError:
            # Absent or unreadable: what it held is named again.
            return
        for line in lines:
            try:
                named = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(named, str) and named.startswith("/"):
                yield Path(named)


def _is_there(path: Path) -> bool:
    try:
        return path.is_dir() and not path.is_symlink()
    except OSError:
        return False
