"""Which files ``.gitignore`` files leave out of a search."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from pathspec import GitIgnoreSpec, RegexPattern

from agent.tools.paths import PROTECTED_NAMES, open_regular
from agent.tools.threads import Stop

# No file is called so; only a pattern such as * matches it.
_ANY_NAME = "agent-any-name"


@dataclass(frozen=True)
class Rule:
    """One line of a ``.gitignore``; ``ignored`` is false for one that starts with ``!``."""

    regex: re.Pattern[str]
    ignored: bool

    def matches(self, path: str) -> bool:
        """Whether the rule names a relative path itself; a folder's path ends in ``/``.

        The expressions of ``pathspec`` also match what is in a folder that a rule
        names. That must not count: ``!src/`` brings back no file, only the folder.
        """
        # Only the expressions that can name a folder have a group, for the slash after it.
        if not self.regex.groupindex:
            return self.regex.search(path.removesuffix("/")) is not None
        return any(found.end() == len(path) for found in self.regex.finditer(path))


def parse_rules(text: str) -> tuple[Rule, ...]:
    """The rules of a ``.gitignore``. As git does, lines that make no sense are passed over."""
    rules: list[Rule] = []
    for line in text.replace("\r", "").split("\n"):
        try:
            patterns = GitIgnoreSpec.from_lines([line]).patterns
        except (ValueError, re.error):
            continue
        rules.extend(
            Rule(pattern.regex, bool(pattern.include))
            for pattern in patterns
            if isinstance(pattern, RegexPattern) and pattern.regex is not None
        )
    return tuple(rules)


@dataclass(frozen=True)
class IgnoreRules:
    """The rules that hold in a folder: its own and those of the folders above.

    ``levels`` are pairs of a folder and its rules, the nearest first; the last rule
    of the nearest folder that names a path decides. Without ``active``, nothing
    is ignored.
    """

    levels: tuple[tuple[Path, tuple[Rule, ...]], ...] = ()
    active: bool = True

    def within(self, folder: Path) -> IgnoreRules:
        """These rules and those of the ``.gitignore`` in ``folder``, if it has one."""
        if not self.active:
            return self
        try:
            with os.fdopen(open_regular(folder / ".gitignore"), "rb") as file:
                rules = parse_rules(file.read().decode("utf-8", "replace"))
        except OSError:
            # Mostly there is none; an unreadable one can rule nothing out.
            return self
        return replace(self, levels=((folder, rules), *self.levels))

    def ignores(self, path: Path, *, is_folder: bool) -> bool:
        """Whether a path in the rules' folder is ignored, when the folder itself is not."""
        for folder, rules in self.levels:
            relative = str(path)[len(str(folder)) :].lstrip("/") + "/" * is_folder
            for rule in reversed(rules):
                if rule.matches(relative):
                    return rule.ignored
        return False


def rules_for(path: Path, cwd: Path) -> IgnoreRules:
    """The rules for a search in the folder ``path``, without its own ``.gitignore``.

    They are inactive when ``path`` is ignored itself, or ignores all that is in
    it: who names an ignored folder wants it searched.
    """
    top = _top(path, cwd)
    rules = IgnoreRules()
    folder = top
    for name in path.relative_to(top).parts:
        rules = rules.within(folder)
        folder /= name
        if rules.ignores(folder, is_folder=True):
            return IgnoreRules(active=False)
    own = rules.within(path)
    # Rules that list what is kept let folders pass, or nothing in them could be kept.
    if path != top and all(own.ignores(path / _ANY_NAME, is_folder=one) for one in (False, True)):
        return IgnoreRules(active=False)
    return rules


def _top(path: Path, cwd: Path) -> Path:
    """The folder whose ``.gitignore`` is the first that counts: the repository's, or ``cwd``."""
    for folder in (path, *path.parents):
        if (folder / ".git").exists():
            return folder
    return cwd if path.is_relative_to(cwd) else path


def walk(folder: Path, rules: IgnoreRules, stop: Stop) -> Iterator[Path]:
    """The regular files in a folder, in the order of their names, that no rule leaves out.

    Symbolic links are not followed; ``.git`` and ``.transcripts`` are skipped, and
    so are folders that cannot be listed.
    """
    stop.check()
    rules = rules.within(folder)
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in found:
        path = folder / entry.name
        if entry.is_dir(follow_symlinks=False):
            if entry.name not in PROTECTED_NAMES and not rules.ignores(path, is_folder=True):
                yield from walk(path, rules, stop)
        elif entry.is_file(follow_symlinks=False) and not rules.ignores(path, is_folder=False):
            yield path
