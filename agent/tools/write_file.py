"""The tool that writes a whole file."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping

from agent.messages import ToolSpec
from agent.tools.arguments import object_schema, one_line, text
from agent.tools.base import Action, ToolContext, ToolOutcome
from agent.tools.changes import Change, plan_change, read_existing, split_lines
from agent.tools.paths import resolve


class WriteFile:
    """Creates or overwrites a file; folders are made, the replacement is atomic."""

    spec = ToolSpec(
        "write_file",
        "Create a file, or overwrite it whole. Missing folders are made. "
        "To change a part of a file use edit_file.",
        object_schema("path", "content", path={"type": "string"}, content={"type": "string"}),
    )

    def summary(self, arguments: Mapping[str, object]) -> str:
        """The path."""
        return one_line(arguments.get("path", ""))

    def plan(self, arguments: Mapping[str, object], context: ToolContext) -> Action:
        """A write, with the diff against what is there."""
        return self._change(arguments, context).action

    async def run(self, arguments: Mapping[str, object], context: ToolContext) -> ToolOutcome:
        """Write the file."""
        change = self._change(arguments, context)
        context.confirm(change.action)
        await asyncio.to_thread(change.apply, context.files)
        return ToolOutcome(_result(change), diff=change.action.diff)

    def _change(self, arguments: Mapping[str, object], context: ToolContext) -> Change:
        target = resolve(text(arguments, "path"), context)
        content = text(arguments, "content")
        if context.files is not None:
            context.files.require_unchanged(target.path, target.shown)
        old = read_existing(target)
        digest = hashlib.sha256(content.encode("utf-8")).hexdigest()
        verb = "Create" if old is None else "Overwrite"
        return plan_change(verb, target, old, content, f"write_file:{target.path}:{digest}")


def _result(change: Change) -> str:
    """What was done, in one line."""
    shown = change.target.shown
    if change.old is not None and change.old.text == change.new:
        return f"{shown} has exactly this content already."
    size, lines = len(change.new.encode("utf-8")), len(split_lines(change.new))
    done = "created" if change.old is None else "overwritten"
    return f"Wrote {size:,} bytes, {lines:,} lines to {shown} ({done})."
