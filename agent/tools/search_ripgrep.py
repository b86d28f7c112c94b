"""Searching with ``rg``, which is fast and never takes exponential time."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from agent.errors import ToolError
from agent.messages import scrub
from agent.tools.arguments import one_line
from agent.tools.paths import PROTECTED_NAMES
from agent.tools.process import run_program
from agent.tools.search import MAX_MATCHES, Found, Match, Query

_ERROR_CODE = 2
_MAX_ERROR_BYTES = 2_000
_OUTPUT_LINE = re.compile(rb"([^\0]+)\0(\d+):(\d+):(.*)", re.DOTALL)


_OUTPUT = ("--no-heading", "--with-filename", "--null", "--column", "--color=never")
# Of what rg knows, .gitignore files are the only ones that count, in a repository or not.
_RULES = ("--no-require-git", "--no-ignore-dot", "--no-ignore-global", "--no-ignore-exclude")
_SELECTION = ("--hidden", *_RULES, *(f"--glob=!{name}" for name in sorted(PROTECTED_NAMES)))


def ripgrep_arguments(query: Query, *, respect: bool = True) -> list[str]:
    """The arguments of ``rg`` for a query; ``respect`` leaves out ignored files.

    No configuration file and no preprocessor can make it run another program, and
    neither the pattern nor the path can be taken for an option. Globs are not
    passed on: ``rg`` would search ignored files that fit them.
    """
    arguments = ["--no-config", "--no-messages", *_OUTPUT, "--sort=path", *_SELECTION]
    arguments += ["--ignore-case"] * query.ignore_case + ["--no-ignore"] * (not respect)
    return [*arguments, "-e", query.pattern, "--", str(query.target.path)]


def parse_line(line: bytes) -> Match | None:
    """The match on a line of output; ``None`` for remarks such as those on binary files."""
    found = _OUTPUT_LINE.fullmatch(line)
    if found is None:
        return None
    path, number, column, text = found.groups()
    # Columns are bytes from 1.
    start = len(text[: int(column) - 1].decode("utf-8", "replace"))
    shown = text.decode("utf-8", "replace").rstrip("\r")
    return Match(Path(os.fsdecode(path)), int(number), shown, start)


async def search_with_ripgrep(program: str, query: Query, seconds: float) -> Found:
    """Search with the ``rg`` at ``program``, for at most ``seconds``.

    Raises:
        ToolError: the pattern is wrong or ``rg`` cannot be run.
    """
    matches: list[Match] = []
    pending = bytearray()

    def consume(data: bytes) -> bool:
        """Take more output; false once there are enough matches."""
        first, *others = data.split(b"\n")
        pending.extend(first)
        for following in others:
            match = parse_line(bytes(pending))
            if match is not None and query.wants(match.path):
                matches.append(match)
            pending[:] = following
        return len(matches) <= MAX_MATCHES

    with tempfile.TemporaryFile() as errors:
        try:
            respect = await _has_files(program, query, seconds)
            arguments = ripgrep_arguments(query, respect=respect)
            finished = await run_program([program, *arguments], query.cwd, seconds, consume, errors)
        except OSError as error:
            raise ToolError(f"rg could not be started: {error}.") from error
        errors.seek(0)
        message = scrub(errors.read(_MAX_ERROR_BYTES).decode("utf-8", "replace"))
    if finished.code == _ERROR_CODE and message.strip():
        raise ToolError(f"The search failed: {one_line(message, 500)}")
    return Found(tuple(matches), finished.timed_out)


async def _has_files(program: str, query: Query, seconds: float) -> bool:
    """Whether there is any file that is not ignored; who names an ignored folder wants it all."""
    target = query.target.path
    if target == query.cwd or not target.is_dir():
        return True
    arguments = ["--no-config", "--files", "--quiet", *_SELECTION, "--", str(target)]
    finished = await run_program([program, *arguments], query.cwd, seconds, lambda _: True)
    return finished.code == 0
