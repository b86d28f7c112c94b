"""Completion at the prompt: slash commands and ``@path``."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from agent.ui.commands import COMMANDS
from agent.ui.sanitize import reveal

MAX_ENTRIES = 2000
"""Folder entries that are looked at; more are no help in a menu."""

_COMMAND_WORD = re.compile(r"/[A-Za-z-]*\Z")
_PATH_WORD = re.compile(r"(?:^|(?<=\s))@([^\s@]*)\Z")


def may_complete(text: str) -> bool:
    """Whether the text before the cursor ends in something that is completed while typing."""
    return bool(_COMMAND_WORD.match(text) or _PATH_WORD.search(text))


class PromptCompleter(Completer):
    """Completes a command at the start of the text, and paths below ``root`` after ``@``."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """The completions of what stands before the cursor."""
        text = document.text_before_cursor
        if _COMMAND_WORD.match(text):
            return _commands(text)
        path = _PATH_WORD.search(text)
        return _paths(self._root, path[1]) if path else ()


def _commands(typed: str) -> Iterator[Completion]:
    for command in COMMANDS:
        for name in (command.name, *command.aliases):
            if f"/{name}".startswith(typed.lower()):
                yield Completion(f"/{name}", start_position=-len(typed), display_meta=command.help)


def _paths(root: Path, typed: str) -> Iterator[Completion]:
    folder, _, begun = typed.rpartition("/")
    base = folder or ("/" if typed.startswith("/") else "")
    for name, is_folder in _entries(root / base):
        hidden = name.startswith(".") and not begun.startswith(".")
        # A name with control characters or spaces cannot be typed as one word.
        odd = reveal(name, one_line=True) != name or " " in name
        if name.startswith(begun) and not hidden and not odd:
            shown = f"{name}/" if is_folder else name
            yield Completion(shown, start_position=-len(begun), display=shown)


def _entries(folder: Path) -> list[tuple[str, bool]]:
    """The folder's entries by name, and whether each is a folder; none if it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return sorted((entry.name, entry.is_dir()) for entry in islice(entries, MAX_ENTRIES))
    except OSError:
        return []
