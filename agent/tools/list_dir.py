"""The tool that lists a folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

from agent.messages import ToolSpec
from agent.tools.arguments import object_schema, one_line, text
from agent.tools.base import Action, ToolContext, ToolOutcome
from agent.tools.paths import Target, explained, open_folder, printable, resolve
from agent.tools.threads import Stop, in_thread

MAX_ENTRIES = 5_000


class ListDir:
    """Shows a folder's entries, hidden ones included, with their sizes; not recursive."""

    spec = ToolSpec(
        "list_dir",
        "List a folder, hidden entries included: folders end in /, files have their size in bytes.",
        object_schema(path={"type": "string", "description": "default: the working folder"}),
    )

    def summary(self, arguments: Mapping[str, object]) -> str:
        """The path."""
        return one_line(arguments.get("path", "."))

    def plan(self, arguments: Mapping[str, object], context: ToolContext) -> Action:
        """A read of the folder."""
        return _action(resolve(text(arguments, "path", "."), context))

    async def run(self, arguments: Mapping[str, object], context: ToolContext) -> ToolOutcome:
        """List the folder."""
        target = resolve(text(arguments, "path", "."), context)
        context.confirm(_action(target))
        return ToolOutcome(await in_thread(lambda stop: list_folder(target, stop)))


def _action(target: Target) -> Action:
    return Action(
        kind="read",
        title=f"List {one_line(target.shown)}",
        detail=target.shown,
        key=f"list_dir:{target.path}",
        inside=target.free_to_read,
    )


def list_folder(target: Target, stop: Stop) -> str:
    """One line for each of the first ``MAX_ENTRIES`` entries in the order of their names.

    Raises:
        ToolError: it is no folder or cannot be read.
    """
    with explained("list", target), open_folder(target.path) as passage:
        # A descriptor for passing through cannot be listed.
        folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=passage)
        try:
            with os.scandir(folder) as entries:
                names = sorted(entry.name for entry in entries)
            lines = []
            for name in names[:MAX_ENTRIES]:
                stop.check()
                lines.append(_line(name, folder))
        finally:
            os.close(folder)
    if len(names) > MAX_ENTRIES:
        lines.append(f"[the first {MAX_ENTRIES:,} of {len(names):,} entries]")
    return "\n".join(lines) or "[empty folder]"


def _line(name: str, folder: int) -> str:
    """An entry's name with a ``/`` or a size, or where a link leads."""
    shown = printable(name)
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            return f"{shown} -> {printable(os.readlink(name, dir_fd=folder))}"
    except OSError as error:
        return f"{shown}  [{error.strerror}]"
    if stat.S_ISDIR(status.st_mode):
        return f"{shown}/"
    size = f"{status.st_size:,}" if stat.S_ISREG(status.st_mode) else "[no regular file]"
    return f"{shown}  {size}"
