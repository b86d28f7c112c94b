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
from agent.ui.files import FileFinder
from agent.ui.sanitize import reveal

MOST_FOUND = 50
"""Paths that a menu offers."""

MAX_ENTRIES = 2000
"""Entries of a folder elsewhere that are looked at; more are no help in a menu."""

_COMMAND_WORD = re.compile(r"/[A-Za-z-]*\Z")
_PATH_WORD = re.compile(r'(?:^|(?<=\s))@(?:"([^"\n]*)|([^\s"]*))\Z')
_ELSEWHERE = ("/", "~", "..")


def may_complete(text: str) -> bool:
    """Whether the text before the cursor ends in something that is completed while typing."""
    return bool(_COMMAND_WORD.match(text) or _PATH_WORD.search(text))


class PromptCompleter(Completer):
    """Completes a command at the start of the text, and paths after ``@``.

    Paths below ``root`` are found by some of their letters; those elsewhere (``/``, ``~``,
    ``..``) are completed name by name.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._finder = FileFinder(root)

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """The completions of what stands before the cursor. May take a while."""
        text = document.text_before_cursor
        if _COMMAND_WORD.match(text):
            return _commands(text)
        word = _PATH_WORD.search(text)
        if word is None:
            return ()
        typed = word[1] if word[1] is not None else word[2]
        if typed.startswith(_ELSEWHERE):
            paths: Iterable[str] = _paths_elsewhere(self._root, typed)
        else:
            paths = self._finder.find(typed, MOST_FOUND)
        # A name with control characters or quotes cannot be written.
        return (
            Completion(_mention(path), start_position=-len(word[0]), display=path)
            for path in paths
            if reveal(path, one_line=True) == path and '"' not in path
        )


def _mention(path: str) -> str:
    """How a text names a file; a folder is left open, to be gone into."""
    if " " not in path:
        return f"@{path}"
    return f'@"{path}' if path.endswith("/") else f'@"{path}"'


def _commands(typed: str) -> Iterator[Completion]:
    for command in COMMANDS:
        for name in (command.name, *command.aliases):
            if f"/{name}".startswith(typed.lower()):
                yield Completion(f"/{name}", start_position=-len(typed), display_meta=command.help)


def _paths_elsewhere(root: Path, typed: str) -> Iterator[str]:
    begun = typed.rpartition("/")[2]
    before = typed[: len(typed) - len(begun)]
    try:
        entries = _entries(root / Path(before).expanduser())
    except RuntimeError:  # no such user's home
        return
    for name, is_folder in entries:
        if name.startswith(begun) and not (name.startswith(".") and not begun.startswith(".")):
            yield f"{before}{name}/" if is_folder else f"{before}{name}"


def _entries(folder: Path) -> list[tuple[str, bool]]:
    """The folder's entries by name, and whether each is a folder; none if it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return sorted((entry.name, entry.is_dir()) for entry in islice(entries, MAX_ENTRIES))
    except OSError:
        return []
