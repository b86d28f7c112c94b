"""Which files ``.gitignore`` files leave out of a search."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from pathspec import GitIgnoreSpec, RegexPattern

from agent.tools.paths import PROTECTED_NAMES, open_regular
from agent.tools.threads import Stop

# No file is called so; only a pattern such as * matches it.
_ANY_NAME = "agent-any-name"

Rules: TypeAlias = tuple[tuple[Path, tuple[RegexPattern, ...]], ...]
"""Folders and the patterns of their ``.gitignore``, the nearest folder first."""


def rules_for(path: Path, cwd: Path) -> Rules | None:
    """The rules for a search in the folder ``path``, without its own ``.gitignore``.

    ``None`` when ``path`` is ignored itself, or ignores all that is in it: who names
    an ignored folder wants it searched.
    """
    top = _top(path, cwd)
    rules: Rules = ()
    folder = top
    for name in path.relative_to(top).parts:
        rules = _within(folder, rules)
        folder /= name
        if _is_ignored(folder, rules, is_folder=True):
            return None
    own = _within(path, rules)
    # Rules that list what is kept let folders pass, or nothing in them could be kept.
    everything = all(_is_ignored(path / _ANY_NAME, own, is_folder=one) for one in (False, True))
    return None if path != top and everything else rules


def walk(folder: Path, rules: Rules | None, stop: Stop) -> Iterator[Path]:
    """The regular files in a folder, in the order of their names, that no rule leaves out.

    Symbolic links are not followed; ``.git`` and ``.transcripts`` are skipped, and
    so are folders that cannot be listed.
    """
    stop.check()
    rules = None if rules is None else _within(folder, rules)
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in found:
        path = folder / entry.name
        is_folder = entry.is_dir(follow_symlinks=False)
        if entry.name in PROTECTED_NAMES or _is_ignored(path, rules or (), is_folder=is_folder):
            continue
        if is_folder:
            yield from walk(path, rules, stop)
        elif entry.is_file(follow_symlinks=False):
            yield path


def _top(path: Path, cwd: Path) -> Path:
    """The folder whose ``.gitignore`` is the first that counts: the repository's, or ``cwd``."""
    for folder in (path, *path.parents):
        if (folder / ".git").exists():
            return folder
    return cwd if path.is_relative_to(cwd) else path


def _within(folder: Path, rules: Rules) -> Rules:
    """The rules and those of the ``.gitignore`` in ``folder``, if it has one that can be read."""
    try:
        with os.fdopen(open_regular(folder / ".gitignore"), "rb") as file:
            lines = file.read().decode("utf-8", "replace").replace("\r", "").split("\n")
    except OSError:
        return rules
    patterns: list[RegexPattern] = []
    for line in lines:
        # As git does, lines that make no sense are passed over.
        with contextlib.suppress(ValueError, re.error):
            spec = GitIgnoreSpec.from_lines([line])
            patterns += (one for one in spec.patterns if isinstance(one, RegexPattern))
    return ((folder, tuple(patterns)), *rules)


def _is_ignored(path: Path, rules: Rules, *, is_folder: bool) -> bool:
    """Whether the last pattern of the nearest folder that names a path says so.

    The folder that the path is in is not ignored.
    """
    for folder, patterns in rules:
        relative = str(path)[len(str(folder)) :].lstrip("/") + "/" * is_folder
        for pattern in reversed(patterns):
            if pattern.regex is not None and _names(pattern.regex, relative):
                return bool(pattern.include)
    return False


def _names(regex: re.Pattern[str], path: str) -> bool:
    """Whether a pattern names a relative path itself; a folder's path ends in ``/``.

    The expressions of ``pathspec`` also match what is in a folder that a pattern
    names. That must not count: ``!src/`` brings back no file, only the folder.
    """
    # Only the expressions that can name a folder have a group, for the slash after it.
    if not regex.groupindex:
        return regex.search(path.removesuffix("/")) is not None
    return any(found.end() == len(path) for found in regex.finditer(path))
