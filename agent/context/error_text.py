"""The statements in an error's body, whatever it is wrapped in."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

# What a server says comes early; what follows may be megabytes of echo.
_EXAMINED_CHARS = 20_000
_STATEMENT_CHARS = 2_000
_RETURNED_CHARS = 4_000
# JSON within JSON strings: an upstream's error in a gateway's in an SDK's is three deep.
_NESTING = 4

_STRUCTURE = re.compile(r"\{\s*[\"']")
_QUOTED = re.compile(
    r"(?:\"(?P<double>[^\"\\]*(?:\\.[^\"\\]*)*)(?:\"|\Z)"
    r"|(?<!\w)'(?P<single>[^'\\]*(?:\\.[^'\\]*)*)(?:'|\Z))"
    r"(?P<is_key>\s*:(?:\s*(?P<number>\d+))?)?",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:u(?P<u>[0-9a-fA-F]{4})|x(?P<x>[0-9a-fA-F]{2})|(?P<char>.))", re.DOTALL)
_WHITE_SPACE = {"n": "\n", "r": "\n", "t": "\t"}

# Values under these keys repeat what was sent, in words that are not the server's.
_ECHO_KEYS = frozenset(
    ["arguments", "content", "ctx", "id", "input", "instructions", "loc", "messages"]
) | frozenset(["param", "prompt", "request_id", "text", "thinking", "url"])


def statements(body: str) -> str:
    """What a body says, one statement to a line, in plain characters, without repeats.

    A statement is a string value at any depth of JSON, of a Python ``repr`` or of
    JSON inside a string (``message``, ``type``, ``code``, ``detail``, ...), or the
    prose around it; a number becomes ``key=number``. Values that repeat what was
    sent are left out. Only the first 20,000 characters are examined; at most 2,000
    of one statement and 4,000 in all are returned.
    """
    lines: dict[str, None] = {}
    for statement in _statements(body[:_EXAMINED_CHARS], _NESTING):
        plain = unicodedata.normalize("NFKC", statement).replace("’", "'")
        lines[" ".join(plain.split())[:_STATEMENT_CHARS]] = None
    return "\n".join(line for line in lines if line)[:_RETURNED_CHARS]


def _statements(text: str, nesting: int) -> Iterator[str]:
    # A scan of quoted strings rather than a parser, because bodies come cut off, as
    # Python reprs, behind an SDK's prefix and as server-sent events.
    structure = _STRUCTURE.search(text)
    if structure is None or not nesting:
        yield text
        return
    yield text[: structure.start()]
    key, end = "", structure.start()
    for quoted in _QUOTED.finditer(text, structure.start()):
        end = quoted.end()
        value = _unescaped(quoted["double"] or quoted["single"] or "")
        if quoted["is_key"]:
            key = value.lower()
            if quoted["number"]:
                yield f"{key}={quoted['number']}"
        elif key not in _ECHO_KEYS:
            yield from _statements(value, nesting - 1)
    yield text[end:]


def _unescaped(quoted: str) -> str:
    def character(escape: re.Match[str]) -> str:
        if code := escape["u"] or escape["x"]:
            return chr(int(code, 16))
        return _WHITE_SPACE.get(escape["char"], escape["char"])

    return _ESCAPE.sub(character, quoted)
