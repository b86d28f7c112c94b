"""Searching with ``rg``, which is fast and never takes exponential time."""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path

from agent.errors import ToolError
from agent.messages import scrub
from agent.tools.arguments import one_line
from agent.tools.ignores import rules_for
from agent.tools.paths import PROTECTED_NAMES
from agent.tools.process import run_program
from agent.tools.search import MAX_MATCHES, Found, Match, Query

_ERROR_CODE = 2
_MAX_ERROR_BYTES = 2_000


def ripgrep_arguments(query: Query) -> list[str]:
    """The arguments of ``rg`` for a query.

    No configuration file and no preprocessor can make it run another program, and
    neither the pattern nor the path can be taken for an option. Globs are not
    passed on: ``rg`` would search ignored files that fit them.
    """
    arguments = ["--no-config", "--json", "--no-messages", "--sort=path", "--hidden"]
    arguments += [f"--glob=!{name}" for name in sorted(PROTECTED_NAMES)]
    target = query.target.path
    if target.is_dir() and not rules_for(target, query.cwd).active:
        arguments.append("--no-ignore")
    else:
        arguments += ["--no-require-git", "--no-ignore-dot", "--no-ignore-global"]
        arguments.append("--no-ignore-exclude")
    if query.ignore_case:
        arguments.append("--ignore-case")
    return [*arguments, "-e", query.pattern, "--", str(target)]


def parse_event(line: bytes) -> Match | None:
    """The match in one line of ``rg --json``; ``None`` for the other kinds of event."""
    event = json.loads(line)
    if not isinstance(event, dict) or event.get("type") != "match":
        return None
    data = event["data"]
    text = _bytes(data["lines"])
    first = data["submatches"][0] if data["submatches"] else {"start": 0, "end": 0}
    return Match(
        path=Path(_bytes(data["path"]).decode("utf-8", "surrogateescape")),
        line=data["line_number"],
        text=text.decode("utf-8", "replace").rstrip("\r\n"),
        # Offsets are in bytes.
        start=len(text[: first["start"]].decode("utf-8", "replace")),
        end=len(text[: first["end"]].decode("utf-8", "replace")),
    )


def _bytes(value: Mapping[str, str]) -> bytes:
    """A string of ``rg --json``: ``text``, or ``bytes`` in base64 where it is no UTF-8."""
    if "text" in value:
        return value["text"].encode("utf-8")
    return base64.b64decode(value["bytes"])


class _Collector:
    """Takes the output of ``rg`` and keeps the matches that are wanted."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self._pending = bytearray()
        self.matches: list[Match] = []

    def feed(self, data: bytes) -> bool:
        """Take more output; false once there are enough matches."""
        first, *others = data.split(b"\n")
        self._pending += first
        for following in others:
            self._take(bytes(self._pending))
            self._pending = bytearray(following)
        return len(self.matches) <= MAX_MATCHES

    def _take(self, line: bytes) -> None:
        match = parse_event(line)
        if match is not None and self._is_wanted(match.path):
            self.matches.append(match)

    def _is_wanted(self, path: Path) -> bool:
        target = self._query.target.path
        return path == target or self._query.wanted(str(path.relative_to(target)))


async def search_with_ripgrep(program: str, query: Query, seconds: float) -> Found:
    """Search with the ``rg`` at ``program``, for at most ``seconds``.

    Raises:
        ToolError: the pattern is wrong or ``rg`` cannot be run.
    """
    collector = _Collector(query)
    with tempfile.TemporaryFile() as errors:
        try:
            finished = await run_program(
                [program, *ripgrep_arguments(query)], query.cwd, seconds, collector.feed, errors
            )
        except OSError as error:
            raise ToolError(f"rg could not be started: {error}.") from error
        errors.seek(0)
        message = scrub(errors.read(_MAX_ERROR_BYTES).decode("utf-8", "replace"))
    if finished.code == _ERROR_CODE and message.strip():
        raise ToolError(f"The search failed: {one_line(message, 500)}")
    matches = collector.matches
    return Found(tuple(matches[:MAX_MATCHES]), len(matches) > MAX_MATCHES, finished.timed_out)
