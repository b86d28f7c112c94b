"""Searching where there is no ``rg``.

The patterns are those of the ``regex`` package, which are those of ``re``. Unlike
``re`` it lets go of the interpreter while it matches and gives up in time: a
pattern that needs exponential time would otherwise freeze the whole program.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import regex

from agent.errors import ToolError
from agent.tools.ignores import rules_for, walk
from agent.tools.paths import explained, open_regular
from agent.tools.search import MAX_MATCHES, Found, Match, Query
from agent.tools.threads import Stop, in_thread

_BINARY_PROBE_BYTES = 8_192
# A longer line is searched in pieces of this size.
_MAX_LINE_BYTES = 1_000_000
_MAX_LINE_SECONDS = 1.0


async def search_with_python(query: Query, seconds: float) -> Found:
    """Search off the event loop, for at most ``seconds``.

    Raises:
        ToolError: the pattern is wrong, or takes too long on a line.
    """
    matches: list[Match] = []

    def work(stop: Stop) -> None:
        for match in _matches(query, _compiled(query), stop):
            matches.append(match)
            if len(matches) > MAX_MATCHES:
                return

    timed_out = False
    try:
        async with asyncio.timeout(seconds):
            await in_thread(work)
    except TimeoutError:
        timed_out = True
    return Found(tuple(matches), timed_out)


def _compiled(query: Query) -> regex.Pattern[str]:
    try:
        return regex.compile(query.pattern, regex.IGNORECASE if query.ignore_case else 0)
    except regex.error as error:
        raise ToolError(f"The pattern is no valid regular expression: {error}.") from error


def _matches(query: Query, pattern: regex.Pattern[str], stop: Stop) -> Iterator[Match]:
    """The matches in a query's files, in the order of their paths."""
    target = query.target.path
    if not target.is_dir():
        with explained("search", query.target):
            yield from _matches_in_file(target, pattern, stop)
        return
    for path in filter(query.wants, walk(target, rules_for(target, query.cwd), stop)):
        # Unreadable, or gone since it was listed: what else matches is still wanted.
        with contextlib.suppress(OSError):
            yield from _matches_in_file(path, pattern, stop)


def _matches_in_file(path: Path, pattern: regex.Pattern[str], stop: Stop) -> Iterator[Match]:
    """The matching lines of a file; none for a binary one."""
    with os.fdopen(open_regular(path), "rb") as file:
        if b"\0" in file.read(_BINARY_PROBE_BYTES):
            return
        file.seek(0)
        number = 1
        while data := file.readline(_MAX_LINE_BYTES):
            stop.check()
            line = data.decode("utf-8", "replace").rstrip("\r\n")
            try:
                found = pattern.search(line, timeout=_MAX_LINE_SECONDS)
            except TimeoutError as error:
                raise ToolError(
                    f"The pattern takes too long on line {number} of {path.name}; "
                    "use a simpler one, without nested repetition."
                ) from error
            if found:
                yield Match(path, number, line, found.start())
            number += data.endswith(b"\n")
