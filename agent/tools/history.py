"""What files a session has seen, and what its edits replaced, so that the last can be undone."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from agent.errors import ToolError
from agent.transcript.files import private_folder, replace_private, transcripts_folder

_Signature: TypeAlias = tuple[int, int, int]
"""A file's inode, size and time of change."""


@dataclass(frozen=True)
class Replaced:
    """What one change replaced: the file's bytes (``None``: there was no file).

    ``after`` is the SHA-256 of what was written; ``kept`` the file that holds all this.
    """

    path: Path
    before: bytes | None
    after: str
    kept: Path


@dataclass
class FileHistory:
    """The files of one session.

    What a change replaces is kept in ``folder``, which is private, as ``0001.edit``: a
    line of JSON, then the bytes. Undoing it makes that ``0001.undone``.
    """

    folder: Path
    _seen: dict[Path, _Signature] = field(default_factory=dict)

    def note(self, path: Path) -> None:
        """Remember a file as it is now: the model has read or written it."""
        if (signature := _signature(path)) is not None:
            self._seen[path] = signature

    def require_unchanged(self, path: Path, shown: str) -> None:
        """Check that a file that was read is still what was read.

        Raises:
            ToolError: it has changed since.
        """
        seen = self._seen.get(path)
        if seen is not None and _signature(path) != seen:
            raise ToolError(
                f"{shown} has changed since it was last read here; nothing was done. Read it again."
            )

    def keep(self, path: Path, before: bytes | None, after: bytes) -> None:
        """Keep what a change replaces, before it is made.

        Raises:
            OSError: it cannot be saved.
            TranscriptError: the folder cannot be made.
        """
        transcripts_folder(self.folder.parent.parent)
        private_folder(self.folder.parent)
        number = sum(1 for _ in private_folder(self.folder).iterdir()) + 1
        facts = [os.fsdecode(path), before is not None, hashlib.sha256(after).hexdigest()]
        line = json.dumps(facts).encode("ascii")
        replace_private(self.folder / f"{number:04}.edit", line + b"\n" + (before or b""))

    def last(self) -> Replaced | None:
        """What the last change that is not undone replaced.

        Raises:
            ToolError: what was kept of it cannot be read.
        """
        kept = max(self.folder.glob("*.edit"), default=None)
        if kept is None:
            return None
        try:
            line, _, before = kept.read_bytes().partition(b"\n")
            path, existed, after = json.loads(line)
            return Replaced(Path(path), before if existed else None, str(after), kept)
        except (OSError, ValueError, TypeError) as error:
            raise ToolError(f"the last edit cannot be undone: {error}") from error


def _signature(path: Path) -> _Signature | None:
    try:
        status = path.stat(follow_symlinks=False)
    except OSError:
        # Missing is a state like any other.
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
