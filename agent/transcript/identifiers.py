"""Identifiers in a turn: paths, ids, addresses, figures, names of code (pure).

Texts are cut into tokens by one expression, and each distinct token is judged once.
What is scanned of one text is bounded, and so is the cost, whatever a tool printed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

from agent.messages import Message, TextBlock, ToolResultBlock, ToolUseBlock

_HEAD_CHARS = 12_000
_TAIL_CHARS = 4_000
"""What is scanned of one text: its head and its tail."""

_MOST_CHARS = 160
_VALUE_CHARS = 40

Role: TypeAlias = Literal["user", "assistant", "call", "result"]


class Kind(StrEnum):
    """What an identifier is."""

    ADDRESS = "address"
    """A URL, a host with a port, an e-mail address."""

    PATH = "path"
    REFERENCE = "reference"
    """Something that names one thing: a ticket, a hash, a UUID, an account."""

    FIGURE = "figure"
    """A version, a date, a number with a unit."""

    FLAG = "flag"
    NAME = "name"
    """A name of code: snake_case, CamelCase, dotted."""

    VALUE = "value"
    """A short value with its name that a tool was called with, or something quoted."""


class Identifier(NamedTuple):
    """One identifier and how it was mentioned.

    ``used`` counts the messages in which the user or the assistant wrote it, calls
    included.
    ``age`` is how many messages came after its last mention, ``used_age`` after the
    last one that was not in a tool result.
    """

    text: str
    kind: Kind
    used: int
    by_user: bool
    age: int
    used_age: int

    def aged(self, messages: int) -> Identifier:
        """The same, seen from so many messages later."""
        age, used_age = self.age + messages, self.used_age + messages
        return Identifier(self.text, self.kind, self.used, self.by_user, age, used_age)

    def merged(self, other: Identifier) -> Identifier:
        """One identifier out of two findings of it, seen from the same message."""
        return Identifier(
            self.text,
            self.kind,
            self.used + other.used,
            self.by_user or other.by_user,
            min(self.age, other.age),
            min(self.used_age, other.used_age),
        )

    @property
    def weight(self) -> float:
        """How likely it is to be needed again, per character that it takes.

        The form and the exponents come from a logistic regression on some fifty cuts of
        real sessions, where "needed" meant that the assistant wrote it after the cut before
        anything showed it again. Mentions in tool results did not count for it.
        """
        likely = _WEIGHTS[self.kind] * math.pow(1 + self.used, 0.7) * (1.5 if self.by_user else 1)
        faded = math.pow((1 + self.age) * (1 + self.used_age), 0.35)
        return likely / faded / (len(self.text) + 2)


# How likely each kind is to be needed, next to a name of code; twice that for what no
# second reading of the code would bring back: addresses, paths, references.
_WEIGHTS: Mapping[Kind, float] = {
    Kind.ADDRESS: 6.0,
    Kind.PATH: 6.0,
    Kind.REFERENCE: 6.0,
    Kind.FLAG: 6.0,
    Kind.FIGURE: 1.0,
    Kind.NAME: 1.0,
    Kind.VALUE: 0.5,
}


@dataclass(slots=True)
class _Mentions:
    kind: Kind
    used: int = 0
    by_user: bool = False
    last: int = -1
    last_used: int = -1


def identifiers_of(messages: Sequence[Message], most: int) -> tuple[Identifier, ...]:
    """The ``most`` weightiest identifiers of some messages, weightiest first."""
    found: dict[str, _Mentions] = {}
    for position, message in enumerate(messages):
        for role, text, kind in _mentions(message):
            mentions = found.setdefault(text, _Mentions(kind))
            mentions.last = position
            if role != "result":
                mentions.used += mentions.last_used < position
                mentions.last_used = position
                mentions.by_user |= role == "user"
    end = len(messages) - 1
    return weightiest(
        (
            Identifier(text, it.kind, it.used, it.by_user, end - it.last, end - it.last_used)
            for text, it in found.items()
        ),
        most,
    )


def weightiest(identifiers: Iterable[Identifier], most: int) -> tuple[Identifier, ...]:
    """The ``most`` weightiest ones, weightiest first; the text decides between equals."""
    ranked = sorted(identifiers, key=lambda identifier: (-identifier.weight, identifier.text))
    return tuple(ranked[:most])


def _mentions(message: Message) -> Iterator[tuple[Role, str, Kind]]:
    for index, block in enumerate(message.blocks):
        match block:
            case TextBlock(text):
                # Behind a user's own words the program may have told what was done.
                role: Role = "user" if message.role == "user" and index == 0 else "assistant"
                for found, kind in _in_words(_bounded(text)):
                    yield role, found, kind
            case ToolUseBlock(input=arguments):
                for found, kind in _in_call(arguments):
                    yield "call", found, kind
            case ToolResultBlock(content=content):
                # Once each: how often a result repeats something says nothing.
                for token in set(_TOKEN.findall(_bounded(content))):
                    for found, kind in _judged(token):
                        yield "result", found, kind
            case _:
                pass


def _bounded(text: str) -> str:
    if len(text) <= _HEAD_CHARS + _TAIL_CHARS:
        return text
    return f"{text[:_HEAD_CHARS]}\n{text[-_TAIL_CHARS:]}"


def _in_words(text: str) -> Iterator[tuple[str, Kind]]:
    for token in _TOKEN.findall(text):
        yield from _judged(token)
    for figure in _FIGURE.findall(text):
        yield figure, Kind.FIGURE
    for quoted in _QUOTED.findall(text):
        yield quoted, Kind.VALUE


def _in_call(arguments: Mapping[str, object]) -> Iterator[tuple[str, Kind]]:
    for name, text in leaves(arguments):
        known = False
        for token in _TOKEN.findall(_bounded(text)):
            for found in _judged(token):
                known = True
                yield found
        short = 0 < len(text) <= _VALUE_CHARS and "\n" not in text
        if short and not known and name not in _NO_VALUES:
            yield f"{name}={text}", Kind.VALUE


_NO_VALUES = frozenset({"cmd", "command", "description", "limit", "offset", "timeout"})
"""Arguments that stand elsewhere, or say how a call is made and not what it is about."""


def leaves(value: object, name: str = "") -> Iterator[tuple[str, str]]:
    """The texts and numbers within a call's arguments, each with the name nearest to it."""
    match value:
        case Mapping():
            for key, item in value.items():
                yield from leaves(item, str(key))
        case list():
            for item in value:
                yield from leaves(item, name)
        case bool() | None:
            pass
        case str() | int() | float():
            yield name, str(value).strip()


_LETTER = "A-Za-zÀ-ɏΑ-ωА-я"
_TOKEN = re.compile(
    rf"[a-z]{{2,10}}://[^\s\"'<>()\[\]{{}}`\\|]+"
    rf"|(?:[{_LETTER}0-9_@~$€£.#-]|(?<!<)/)[{_LETTER}0-9_@~./+#%:-]+"
)
"""A URL, or a run of what identifiers are made of: no tag's end, no script without spaces."""

_UNITS = "ms|s|min|h|[kKMGT]i?B|%|°C|km|kg|px|[kMG]?Hz|EUR|USD|€|tokens?|元|小时|分钟|天|公里|米"
_FIGURE = re.compile(
    rf"(?<![A-Za-z0-9_.])\d[\d.,]{{0,15}}\s?(?:{_UNITS})(?![A-Za-z])"
    r"|[$€£¥]\s?\d(?:[\d.,]{0,15}\d)?"
    r"|\b(?:port|pid|issue|ticket|order|room|flight|account|invoice|version)\s[#:]?\s?\d[\w.-]*",
    re.IGNORECASE,
)
"""Numbers with a unit, a currency, or a word that says what they count."""

_QUOTED = re.compile(rf"[“「『《«]([^”」』》»\n]{{2,{_VALUE_CHARS}}})[”」』》»]")


def _judged(token: str) -> tuple[tuple[str, Kind], ...]:
    """The identifiers that a token is, with their kinds: none, itself, or its parts."""
    return _judge(token) if len(token) <= _MOST_CHARS else ()


@lru_cache(maxsize=8_192)
def _judge(token: str) -> tuple[tuple[str, Kind], ...]:
    text = token.rstrip(".,:;-/+~@#%").lstrip(":#")
    if place := _PLACE.fullmatch(text):
        text = place.group(1)
    if len(text) < 3:
        return ()
    kind = _kind(text)
    if kind is Kind.NAME and text[0].islower() and "." in text:
        parts = [part for part in text.split(".") if _kind(part) is Kind.NAME]
        return tuple((part, Kind.NAME) for part in parts)
    return ((text, kind),) if kind else ()


_PLACE = re.compile(r"(.*\.[A-Za-z]\w{0,5}):\d+(?::\d+)?:?")
"""A file's name with a line behind it."""

_FILE = (
    r"[\w.@-]*[\w@-]\.(?:py|[cm]?[jt]sx?|json[cl]?|md|rst|txt|html?|s?css|toml|ya?ml|ini|cfg|conf|env"
    r"|lock|sh|sql|db|log|csv|tsv|xml|svg|png|jpe?g|pdf|zip|gz|go|rs|c|h|cc|cpp|hpp|java|kt|swift|rb"
    r"|php|exs?|h?eex|ipynb|proto|tf|vue|ps1|bat)"
)
_HOST = r"(?:localhost|\d{1,3}(?:\.\d{1,3}){3}|[a-z][\w-]*(?:\.[a-z][\w-]*)+):\d{2,5}"
_HAS_LETTER, _NO_LETTER = r"(?=.*[^\W\d_])", r"(?!.*[^\W\d_])"
_HAS_DIGIT, _NO_DIGIT = r"(?=.*\d)", r"(?!.*\d)"

_KINDS: Sequence[tuple[str, Kind | None]] = (
    (r".*://.*|[\w.+-]+@[\w-]+(?:\.[\w-]+)+", Kind.ADDRESS),
    (rf"(?!{_FILE}:){_HOST}", Kind.ADDRESS),
    (r"--[a-zA-Z][\w-]{2,}", Kind.FLAG),
    (r"-.*", None),
    # Long parts without a separator are encoded data, not names of files.
    (rf"{_HAS_LETTER}.*/.*[^/]{{61}}.*|{_HAS_LETTER}.*[^/]{{61}}.*/.*", None),
    (rf"{_HAS_LETTER}(?:[/~.].*/.*|/.*|.*/.*/.*|.*/.*[^./]\.[A-Za-z]\w{{0,5}})", Kind.PATH),
    (rf"{_HAS_LETTER}.*/.*", None),
    (_FILE, Kind.PATH),
    (rf"(?=.{{8}}){_NO_LETTER}\d+(?:[-:/.]\d+)+", Kind.FIGURE),
    (rf"{_NO_LETTER}.*\d.*", None),
    (
        rf"{_HAS_DIGIT}(?:[0-9a-f]{{8}}-[0-9a-f]{{4}}-[0-9a-f-]{{20,}}"
        r"|(?=\w*[a-f])[0-9a-f]{7,40}|[A-Z][A-Za-z]*-?\d+(?:\.\d+)?"
        r"|[A-Za-z]+(?:[-_][a-z0-9]+)*[-_](?:\d{3,}|[a-z0-9]{2,6}\.\d+)|[A-Z0-9]{5,})",
        Kind.REFERENCE,
    ),
    (rf"[\w$]*[{_LETTER}0-9]_[{_LETTER}0-9]\w*", Kind.NAME),
    (r"[A-Za-z]\w*?[a-z0-9][A-Z]\w*|[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]*)+", Kind.NAME),
    (r"v?\d+(?:\.\d+)+(?:[-+.]?[a-z]{1,5}[\d.]*)?|\d{4}-\d\d-\d\dT[\d:.]+Z?", Kind.FIGURE),
    (rf"(?i:{_FIGURE.pattern})", Kind.FIGURE),
    (
        rf"{_NO_DIGIT}(?=.*_|.*[a-z][A-Z]|(?:.*\.)?[A-Z])"
        r"[A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)+",
        Kind.NAME,
    ),
)
"""What tokens look like; the first that fits decides. What is of no kind is no identifier."""


def _kind(text: str) -> Kind | None:
    return next((kind for pattern, kind in _KINDS if re.fullmatch(pattern, text)), None)
