"""What was typed at the prompt before, kept on disk for this user alone."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from platformdirs import user_state_path
from prompt_toolkit.history import FileHistory


def default_history_path() -> Path:
    """Where this user's history is kept."""
    return user_state_path("agent-chat") / "history"


class PromptHistory(FileHistory):
    """A history file with mode 0600, in a folder with mode 0700.

    A disk that fails costs the history and nothing else: ``problem`` then says
    in one line what is wrong, and is empty otherwise.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.problem = ""
        self._path = path
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_CREAT | os.O_RDONLY | os.O_CLOEXEC, 0o600)
            os.fchmod(descriptor, 0o600)
            os.close(descriptor)
        except OSError as error:
            self._failed(error)

    def load_history_strings(self) -> Iterable[str]:
        """The entries, newest first; none when the file cannot be read."""
        try:
            return list(super().load_history_strings())
        except OSError as error:
            self._failed(error)
            return []

    def store_string(self, string: str) -> None:
        """Append an entry."""
        try:
            super().store_string(string)
        except OSError as error:
            self._failed(error)

    def _failed(self, error: OSError) -> None:
        self.problem = f"the prompt's history is not kept: {self._path}: {error.strerror}"
