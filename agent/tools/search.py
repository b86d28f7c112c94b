"""What a search for a pattern is, and how its matches are shown."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from agent.messages import scrub
from agent.tools.paths import Target, shown_path

MAX_MATCHES = 200
"""How many matches are shown. A search ends once it has found more."""

LINE_CHARS = 240
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_MAX_GLOBS = 64


@dataclass(frozen=True)
class Query:
    """A search. ``target`` is a file or a folder, ``cwd`` resolved.

    ``wanted`` tells by its path relative to the target whether a file is searched.
    """

    pattern: str
    target: Target
    cwd: Path
    wanted: Callable[[str], bool]
    ignore_case: bool

    def wants(self, path: Path) -> bool:
        """Whether a file is the target itself, or one of it that is wanted."""
        target = self.target.path
        return path == target or self.wanted(str(path.relative_to(target)))


@dataclass(frozen=True)
class Match:
    """A line that matches, from the character ``start`` on."""

    path: Path
    line: int
    text: str
    start: int


@dataclass(frozen=True)
class Found:
    """A search's result; ``timed_out`` tells that not all was searched.

    ``left_out`` counts files with matches that are not shown because of their other names.
    """

    matches: tuple[Match, ...]
    timed_out: bool = False
    left_out: int = 0

    def shown(self, cwd: Path) -> str:
        """The first matches as ``path:line: text``, and a note when that is not all."""
        lines = [
            f"{shown_path(match.path, cwd)}:{match.line}: {clip(match.text, match.start)}"
            for match in self.matches[:MAX_MATCHES]
        ] or ["No matches."]
        if len(self.matches) > MAX_MATCHES:
            lines.append(
                f"[the first {MAX_MATCHES} matches; there are more: narrow pattern, path or glob]"
            )
        if self.left_out:
            lines.append(
                f"[{self.left_out} files with matches have other names (hard links) and are left "
                "out; read_file asks for them]"
            )
        if self.timed_out:
            lines.append("[stopped by the time limit before all was searched: narrow path or glob]")
        return "\n".join(lines)


def clip(line: str, start: int) -> str:
    """A line that matches from ``start`` on, in at most ``LINE_CHARS`` characters."""
    line = scrub(line.rstrip("\r\n"))
    if len(line) <= LINE_CHARS:
        return line
    room = LINE_CHARS - 2
    first = max(0, min(start - room // 2, len(line) - room))
    before, after = "…" * (first > 0), "…" * (first + room < len(line))
    return f"{before}{line[first : first + room]}{after}"


def glob_filter(glob: str) -> Callable[[str], bool]:
    """Whether a relative path fits a glob such as ``*.py``, ``src/**/*.{ts,tsx}`` or ``!*.min.js``.

    A glob without a slash fits a name in any folder; an empty one fits everything.
    """
    from pathspec import GitIgnoreSpec

    if not glob:
        return lambda _: True
    wanted = not glob.startswith("!")
    globs = islice(expand_braces(glob.removeprefix("!").removeprefix("./")), _MAX_GLOBS)
    spec = GitIgnoreSpec.from_lines(list(globs))
    return lambda path: spec.match_file(path) is wanted


def expand_braces(glob: str) -> Iterator[str]:
    """The globs that ``{a,b}`` stands for, as a shell expands it."""
    found = _BRACES.search(glob)
    if not found:
        yield glob
        return
    for choice in found[1].split(","):
        yield from expand_braces(glob[: found.start()] + choice + glob[found.end() :])
