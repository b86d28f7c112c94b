"""The tool that replaces one exact piece of a file."""

from __future__ import annotations

import asyncio
import difflib
import hashlib
import json
import re
from collections.abc import Mapping

from agent.errors import ToolError
from agent.messages import ToolSpec
from agent.tools.arguments import object_schema, one_line, text
from agent.tools.base import Action, ToolContext, ToolOutcome
from agent.tools.changes import Change, plan_change, read_existing, split_lines
from agent.tools.paths import Target, resolve

_MAX_NAMED = 10
_LONE_LF = re.compile(r"(?<!\r)\n")
# Comparing every line of a large file with the wanted one would take seconds.
_MAX_COMPARED_LINES = 5_000
_MAX_COMPARED_CHARS = 300


class EditFile:
    """Replaces a text that occurs exactly once; line ends and mode are kept."""

    spec = ToolSpec(
        "edit_file",
        "Replace old_text, which must occur exactly once in the file, by new_text. "
        "Copy old_text from read_file without the line numbers.",
        object_schema(
            "path",
            "old_text",
            "new_text",
            path={"type": "string"},
            old_text={"type": "string"},
            new_text={"type": "string"},
        ),
    )

    def summary(self, arguments: Mapping[str, object]) -> str:
        """The path."""
        return one_line(arguments.get("path", ""))

    def plan(self, arguments: Mapping[str, object], context: ToolContext) -> Action:
        """A write, with its diff."""
        return self._change(arguments, context).action

    async def run(self, arguments: Mapping[str, object], context: ToolContext) -> ToolOutcome:
        """Make the replacement, computed again from the file as it is now."""
        change = self._change(arguments, context)
        context.confirm(change.action)
        await asyncio.to_thread(change.apply, context.files)
        lines = len(split_lines(change.new))
        return ToolOutcome(
            f"Edited {change.target.shown} ({lines:,} lines now).", diff=change.action.diff
        )

    def _change(self, arguments: Mapping[str, object], context: ToolContext) -> Change:
        target = resolve(text(arguments, "path"), context)
        old_text, new_text = text(arguments, "old_text"), text(arguments, "new_text")
        if context.files is not None:
            context.files.require_unchanged(target.path, target.shown)
        old = read_existing(target)
        if old is None:
            raise ToolError(f"Cannot edit {target.shown}: no such file; write_file creates it.")
        if old.text is None:
            raise ToolError(
                f"Cannot edit {target.shown} ({old.size:,} bytes): it is no UTF-8 text, "
                "or larger than 20 MB."
            )
        new = replaced(old.text, old_text, new_text, target)
        digest = hashlib.sha256(json.dumps([old_text, new_text]).encode("utf-8")).hexdigest()
        return plan_change("Edit", target, old, new, f"edit_file:{target.path}:{digest}")


def replaced(content: str, old_text: str, new_text: str, target: Target) -> str:
    """The content with the one occurrence of ``old_text`` replaced.

    In a file whose lines end in CRLF, line feeds of both texts stand for CRLF.

    Raises:
        ToolError: ``old_text`` is empty, the same as ``new_text``, or does not
            occur exactly once; the message says where to look.
    """
    if not old_text:
        raise ToolError("old_text is empty; write_file creates or overwrites a file.")
    crlf = content.count("\r\n")
    if crlf and (crlf == content.count("\n") or old_text not in content):
        old_text, new_text = _LONE_LF.sub("\r\n", old_text), _LONE_LF.sub("\r\n", new_text)
    if old_text == new_text:
        raise ToolError("old_text and new_text are the same; there is nothing to change.")
    found = _positions(content, old_text)
    if not found:
        raise ToolError(f"old_text does not occur in {target.shown}.{nearest(content, old_text)}")
    if len(found) > 1:
        times = f"{len(found)} times" if len(found) <= _MAX_NAMED else f"over {_MAX_NAMED} times"
        lines = ", ".join(str(content.count("\n", 0, at) + 1) for at in found[:_MAX_NAMED])
        raise ToolError(
            f"old_text occurs {times} in {target.shown}, at lines {lines}; "
            "give more of the text around the one that is meant."
        )
    start = found[0]
    return content[:start] + new_text + content[start + len(old_text) :]


def _positions(content: str, wanted: str) -> list[int]:
    """Where a text occurs, overlapping occurrences included; at most one too many to name."""
    found: list[int] = []
    start = content.find(wanted)
    while start >= 0 and len(found) <= _MAX_NAMED:
        found.append(start)
        start = content.find(wanted, start + 1)
    return found


def nearest(content: str, wanted: str) -> str:
    """A hint for the model: the lines that are most like the first line of ``wanted``."""
    originals = [line[:_MAX_COMPARED_CHARS].rstrip("\r") for line in split_lines(content)]
    lines = [line.strip() for line in originals]
    first = next((line.strip() for line in split_lines(wanted) if line.strip()), "")
    first = first[:_MAX_COMPARED_CHARS].strip()
    numbers = [number for number, line in enumerate(lines) if line == first][:3]
    if not numbers:
        close = difflib.get_close_matches(first, lines[:_MAX_COMPARED_LINES], n=3, cutoff=0.5)
        numbers = sorted({lines.index(line) for line in close})
    if not numbers:
        return " No line is like its first one; read the file again."
    shown = "\n".join(f"{number + 1:6}\t{originals[number]}" for number in numbers)
    return f" Nearest lines (compare spaces, and the lines that follow):\n{shown}"
