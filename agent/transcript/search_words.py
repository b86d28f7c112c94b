"""Words as the search index knows them, in any script (pure).

Most scripts put spaces between words, and SQLite's tokenizer finds those. Chinese,
Japanese, Thai and some others do not; Korean hangs particles on its words. A run of
such characters is indexed as its overlapping pairs, with its last character after
them: any part of a run of two or more characters is then a phrase of pairs, and a
single character is the beginning of a pair or that last one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import add

import regex

TOKENIZER = "unicode61 remove_diacritics 2 categories 'L* M* N* Co'"
"""SQLite's: letters, marks and digits make a word; case and accents do not count."""

MOST_TERMS = 16
_MOST_QUERY_CHARS = 2_000

_UNSPACED = re.compile(
    "["
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\u1780-\u17ff"  # Burmese, Khmer
    "\u3005-\u3007\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f"  # kana, bopomofo
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"  # Han
    "\uac00-\ud7a3"  # Hangul
    "]+"
)
_TOKEN = regex.compile(r"[\p{L}\p{M}\p{N}\p{Co}]+")
"""A word by the same rule as the tokenizer's."""

_LEAST_PREFIX = 3
_START = r"(?<![^\W_])"
"""Where a word starts."""


@dataclass(frozen=True, slots=True)
class Term:
    """One thing to look for.

    ``exact``, ``begins`` and ``parts`` are query expressions of FTS5: the words
    themselves, words that begin so, and any of what they consist of. ``pattern`` finds
    the term in a text as it was written, ``part_pattern`` any part of it.
    """

    exact: str
    begins: str
    parts: str
    pattern: str
    part_pattern: str


def spaced(text: str) -> str:
    """The text as the tokenizer is given it: with spaces between what is found singly."""
    if text.isascii():
        return text
    return _UNSPACED.sub(_in_pairs, unicodedata.normalize("NFKC", text))


def _in_pairs(run: re.Match[str]) -> str:
    return f" {' '.join([*_pairs(run.group()), run.group()[-1]])} "


def _pairs(run: str) -> Iterator[str]:
    return map(add, run, run[1:])


def terms(words: str) -> tuple[Term, ...]:
    """What a query asks for. Nothing in it is syntax; at most 16 terms count."""
    text = unicodedata.normalize("NFKC", words[:_MOST_QUERY_CHARS])
    found = dict.fromkeys(term for chunk in text.split() for term in _terms(chunk))
    return tuple(found)[:MOST_TERMS]


def _terms(chunk: str) -> Iterator[Term]:
    position = 0
    for run in _UNSPACED.finditer(chunk):
        yield from _words(chunk[position : run.start()])
        yield _unspaced(run.group())
        position = run.end()
    yield from _words(chunk[position:])


def _unspaced(run: str) -> Term:
    """A run of two or more characters is a phrase of pairs; one may begin a pair."""
    pairs = list(_pairs(run))
    if not pairs:
        return Term(*[f'"{run}" *'] * 3, *[re.escape(run)] * 2)
    phrase = f'"{" ".join(pairs)}"'
    return Term(phrase, phrase, _any(pairs), re.escape(run), "|".join(map(re.escape, pairs)))


def _words(piece: str) -> Iterator[Term]:
    """A word, or several that stand together, such as ``read_file`` or ``src/a.py``."""
    tokens = _TOKEN.findall(piece)
    if tokens:
        exact = f'"{" ".join(tokens)}"'
        begins = f"{exact} *" if len(tokens[-1]) >= _LEAST_PREFIX else exact
        parts = f"{begins} OR {_any(tokens)}"
        escaped = [re.escape(token) for token in tokens]
        pattern = _START + r"[\W_]+".join(escaped)
        yield Term(exact, begins, parts, pattern, f"{_START}(?:{'|'.join(escaped)})")


def _any(tokens: Iterable[str]) -> str:
    return " OR ".join(f'"{token}"' for token in tokens)
