"""The tool that searches files for a pattern."""

from __future__ import annotations

import re
import stat
from collections.abc import Mapping
from dataclasses import replace

from agent.errors import ToolError
from agent.messages import ToolSpec
from agent.tools.arguments import object_schema, one_line, text
from agent.tools.base import Action, ToolContext, ToolOutcome
from agent.tools.paths import Target, explained, has_other_names, resolve
from agent.tools.process import outside_program
from agent.tools.search import Found, Query, glob_filter
from agent.tools.search_ripgrep import search_with_ripgrep

_MAX_GLOB_CHARS = 300


class Grep:
    """Searches with ``rg`` where it is installed, otherwise in Python."""

    spec = ToolSpec(
        "grep",
        "Search files for a regular expression, line by line; gives path:line: text. "
        "Skips binary files and what .gitignore names, unless path itself is ignored.",
        object_schema(
            "pattern",
            pattern={"type": "string"},
            path={"type": "string", "description": "file or folder, default: the working folder"},
            glob={"type": "string", "description": "such as *.py"},
            ignore_case={"type": "boolean"},
        ),
    )

    def summary(self, arguments: Mapping[str, object]) -> str:
        """The pattern and the path."""
        pattern, path = arguments.get("pattern", ""), arguments.get("path", ".")
        return f"{one_line(pattern, 60)} in {one_line(path, 60)}"

    def plan(self, arguments: Mapping[str, object], context: ToolContext) -> Action:
        """A read of the file or folder."""
        text(arguments, "pattern")
        return _action(resolve(text(arguments, "path", "."), context))

    async def run(self, arguments: Mapping[str, object], context: ToolContext) -> ToolOutcome:
        """Search."""
        query = query_of(arguments, context)
        context.confirm(_action(query.target))
        with explained("search", query.target):
            mode = query.target.path.lstat().st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise ToolError(f"Cannot search {query.target.shown}: it is no file and no folder.")
        from agent.tools.search_python import search_with_python

        program = outside_program("rg", context.cwd)
        if program:
            found = await search_with_ripgrep(program, query, context.timeout_seconds)
        else:
            found = await search_with_python(query, context.timeout_seconds)
        if query.target.in_workspace and not query.target.linked:
            found = _without_linked(found)
        return ToolOutcome(found.shown(query.cwd))


def _without_linked(found: Found) -> Found:
    """The matches but for those in files that are also elsewhere, which was not asked for."""
    linked = {path for path in {match.path for match in found.matches} if has_other_names(path)}
    kept = tuple(match for match in found.matches if match.path not in linked)
    return replace(found, matches=kept, left_out=len(linked))


def query_of(arguments: Mapping[str, object], context: ToolContext) -> Query:
    """The search that a call asks for.

    Raises:
        ToolError: an argument cannot be used.
    """
    glob = text(arguments, "glob", "")
    if len(glob) > _MAX_GLOB_CHARS:
        raise ToolError("The glob is too long.")
    try:
        wanted = glob_filter(glob)
    except (ValueError, re.error) as error:
        raise ToolError(f"The glob {one_line(glob)} is not valid: {error}.") from error
    pattern = text(arguments, "pattern")
    if "\0" in pattern or "\n" in pattern:
        raise ToolError("The pattern has a NUL or a line feed in it; lines are searched singly.")
    return Query(
        pattern=pattern,
        target=resolve(text(arguments, "path", "."), context),
        cwd=context.cwd.resolve(),
        wanted=wanted,
        ignore_case=arguments.get("ignore_case") is True,
    )


def _action(target: Target) -> Action:
    return Action(
        kind="read",
        title=f"Search in {one_line(target.shown)}",
        detail=target.shown,
        key=f"grep:{target.path}",
        inside=target.free_to_read,
    )
