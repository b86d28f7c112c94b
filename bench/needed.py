"""Which strings an assistant needed after a cut in a real session.

A string was needed when it stood before the cut and the assistant wrote it after the
cut, in words or in a call, before a tool result or a user showed it again. What counts
as a string is told by the expressions below; they share nothing with the program's own
notion of an identifier (:mod:`agent.transcript.identifiers`), which is under test.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from agent.messages import TextBlock, ToolUseBlock
from agent.transcript.records import BlockRecord, Record, ToolResultRecord, UserRecord

_PATTERNS = {
    "url": r"https?://[^\s\"'<>)\]]+",
    "path": (r"(?:[~.\w@-]+)?(?:/[\w.@+-]+){2,}|(?:\.{1,2}/)?[\w.-]+/[\w./-]*[\w-]\.\w{1,5}"),
    "port": r"\b(?:localhost|\d+\.\d+\.\d+\.\d+):\d{2,5}\b",
    "flag": r"(?<![\w-])--[a-z][\w-]+",
    "uuid": r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{20,}\b",
    "hash": r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}\b",
    "ticket": r"\b[a-z]{2,}-[a-z0-9]{2,5}\.\d+\b|\b[A-Z]{2,}-\d+\b",
    "ident": r"\b[a-z][a-z0-9]*(?:_[a-z0-9]+)+\b",
    "module": r"\b(?:[A-Z][a-z0-9]+){2,}(?:\.[A-Z]\w+)*\b|\b[A-Z]\w+(?:\.[A-Z]\w+)+\b",
}
_COMPILED = {kind: re.compile(pattern) for kind, pattern in _PATTERNS.items()}
_STRONG = frozenset({"url", "port", "uuid", "hash", "ticket"})
_SHORTEST = 5


@dataclass(frozen=True)
class Needed:
    """A string that was needed; ``strong`` marks facts of the session: paths, ids, ports."""

    text: str
    kind: str
    strong: bool

    @property
    def name(self) -> str:
        """A path's last part, else the whole."""
        return self.text.rsplit("/", 1)[-1] if self.kind == "path" else self.text


def strings_in(text: str) -> dict[str, str]:
    """The strings of a text, with their kinds."""
    found: dict[str, str] = {}
    for kind, pattern in _COMPILED.items():
        for match in pattern.findall(text):
            string = match.rstrip(".,:;")
            if len(string) >= _SHORTEST:
                found.setdefault(string, kind)
    return found


def strings_before(records: Iterable[Record]) -> dict[str, str]:
    """All strings of some records, with their kinds."""
    found: dict[str, str] = {}
    for _, text in _texts(records):
        found.update(strings_in(text))
    return found


def needed_after(before: Mapping[str, str], later: Iterable[Record]) -> list[Needed]:
    """The strings of ``before`` that the assistant needed in ``later``, in order."""
    shown: set[str] = set()
    needed: list[Needed] = []
    for by_assistant, text in _texts(later):
        for string, kind in strings_in(text).items():
            if by_assistant and string in before and string not in shown:
                needed.append(Needed(string, kind, _is_strong(string, kind)))
            shown.add(string)
    return needed


def controls(
    before: Mapping[str, str], needed: Sequence[Needed], each: int, rng: random.Random
) -> list[Needed]:
    """For every needed string ``each`` of its kind, drawn from those not needed."""
    taken = {item.text for item in needed}
    pools: dict[str, list[str]] = {}
    for string, kind in before.items():
        if string not in taken:
            pools.setdefault(kind, []).append(string)
    drawn: list[Needed] = []
    for item in needed:
        pool = pools.get(item.kind, [])
        texts = rng.sample(pool, min(each, len(pool)))
        drawn += (Needed(text, item.kind, item.strong) for text in texts)
    return drawn


def _is_strong(string: str, kind: str) -> bool:
    return kind in _STRONG or (kind == "path" and string.count("/") > 1 and string[0] != ".")


def _texts(records: Iterable[Record]) -> Iterator[tuple[bool, str]]:
    """The texts of records, and whether the assistant wrote them."""
    for record in records:
        match record:
            case UserRecord(_, text) | ToolResultRecord(_, text):
                yield False, text
            case BlockRecord(TextBlock(text)):
                yield True, text
            case BlockRecord(ToolUseBlock(input=arguments)):
                yield True, "\n".join(_leaves(arguments))


def _leaves(value: object) -> Iterator[str]:
    match value:
        case Mapping():
            for item in value.values():
                yield from _leaves(item)
        case list():
            for item in value:
                yield from _leaves(item)
        case str():
            yield value
