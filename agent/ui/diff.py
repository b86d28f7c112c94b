"""Unified diffs as a person reads them: coloured, with line numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rich.text import Text

from agent.ui.sanitize import reveal

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_STYLES = {"+": "green", "-": "red", "@": "cyan"}


@dataclass(frozen=True)
class DiffLine:
    """A line of a diff; ``number`` is that of the line in the file, 0 outside of hunks.

    It counts in the new file, of a removed line in the old one.
    """

    text: str
    number: int = 0

    @property
    def style(self) -> str:
        """The Rich style: headers are not mistaken for changes, nor changes for headers."""
        if not self.number and self.text.startswith(("+++", "---")):
            return "bold"
        return _STYLES.get(self.text[:1], "")


def _numbered(diff: str) -> Iterator[DiffLine]:
    old = new = old_left = new_left = 0
    for line in diff.rstrip("\n").split("\n"):
        sign = line[:1]
        if (sign in "- " and old_left > 0) or (sign in "+ " and new_left > 0):
            yield DiffLine(line, old if sign == "-" else new)
            removed, added = sign != "+", sign != "-"
            old, new = old + removed, new + added
            old_left, new_left = old_left - removed, new_left - added
            continue
        if hunk := _HUNK.match(line):
            old, new = int(hunk[1]), int(hunk[3])
            old_left, new_left = int(hunk[2] or 1), int(hunk[4] or 1)
        yield DiffLine(line)


def diff_lines(diff: str) -> list[Text]:
    """A unified diff, one text per line, with everything invisible visible."""
    lines = list(_numbered(diff))
    width = len(str(max(line.number for line in lines)))
    shown = []
    for line in lines:
        number = str(line.number).rjust(width) + " " if line.number else ""
        shown.append(Text.assemble((number, "dim"), (reveal(line.text), line.style)))
    return shown


def changed_lines(diff: str) -> tuple[int, int]:
    """How many lines a unified diff adds and removes."""
    signs = [line.text[:1] for line in _numbered(diff) if line.number]
    return signs.count("+"), signs.count("-")
