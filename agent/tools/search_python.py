"""Searching where there is no ``rg``.

The patterns are those of the ``regex`` package, which are those of ``re``. Unlike
``re`` it lets go of the interpreter while it matches and gives up in time: a
pattern that needs exponential time would otherwise freeze the whole program.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import regex
from pathspec import GitIgnoreSpec

from agent.errors import ToolError
from agent.tools.paths import PROTECTED_NAMES, explained, open_regular
from agent.tools.search import MAX_MATCHES, Found, Match, Query
from agent.tools.threads import Stop, in_thread

_BINARY_PROBE_BYTES = 8_192
# A longer line is searched in pieces of this size.
_MAX_LINE_BYTES = 1_000_000
_MAX_LINE_SECONDS = 1.0

_Specs: TypeAlias = tuple[tuple[Path, GitIgnoreSpec], ...]
"""Folders and what their ``.gitignore`` holds, the nearest folder first."""


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
    specs = _specs_above(target, query.cwd)
    # Who names a folder in which everything is ignored wants it searched.
    respect = next(_files(target, specs, stop), None) is not None
    for path in filter(query.wants, _files(target, specs if respect else None, stop)):
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


def files_below(folder: Path) -> Iterator[Path]:
    """The regular files in a folder that no ``.gitignore`` names; see :func:`_files`."""
    return _files(folder, _specs_above(folder, folder), Stop())


def _files(folder: Path, specs: _Specs | None, stop: Stop) -> Iterator[Path]:
    """The regular files in a folder that are not ignored, in the order of their names.

    Symbolic links are not followed; ``.git`` and ``.transcripts`` are skipped, and
    so are folders that cannot be listed. With ``None`` nothing is ignored.
    """
    stop.check()
    if specs is not None:
        specs = _with_own(folder, specs)
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in found:
        path = folder / entry.name
        if entry.name in PROTECTED_NAMES:
            continue
        if entry.is_dir(follow_symlinks=False):
            if not (specs and _is_ignored(f"{path}/", specs) and not _has_exceptions(specs)):
                yield from _files(path, specs, stop)
        elif entry.is_file(follow_symlinks=False) and not (specs and _is_ignored(str(path), specs)):
            yield path


def _specs_above(folder: Path, cwd: Path) -> _Specs:
    """What holds in a folder besides its own: from the repository's top down, or from ``cwd``."""
    above = [folder, *folder.parents]
    tops = (number for number, path in enumerate(above) if (path / ".git").exists())
    top = next(tops, above.index(cwd) if cwd in above else 0)
    specs: _Specs = ()
    for path in reversed(above[1 : top + 1]):
        specs = _with_own(path, specs)
    return specs


def _with_own(folder: Path, specs: _Specs) -> _Specs:
    try:
        with os.fdopen(open_regular(folder / ".gitignore"), "rb") as file:
            lines = file.read().decode("utf-8", "replace").replace("\r", "").split("\n")
    except OSError:
        return specs
    return ((folder, GitIgnoreSpec.from_lines(filter(_makes_sense, lines))), *specs)


def _makes_sense(line: str) -> bool:
    """Whether git would not pass over a line of a ``.gitignore``."""
    try:
        GitIgnoreSpec.from_lines([line])
    except (ValueError, re.error):
        return False
    return True


def _is_ignored(path: str, specs: _Specs) -> bool:
    """What the nearest folder says that says anything; a folder's path ends in ``/``."""
    said = (spec.check_file(path[len(str(base)) :].lstrip("/")).include for base, spec in specs)
    return next((include for include in said if include is not None), False)


def _has_exceptions(specs: _Specs) -> bool:
    """Whether something within an ignored folder may be wanted after all."""
    return any(pattern.include is False for _, spec in specs for pattern in spec.patterns)
