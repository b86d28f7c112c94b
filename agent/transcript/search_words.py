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
from collections.abc import Iterator
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


@dataclass(frozen=True, slots=True)
class Term:
    """One thing to look for.

    ``exact`` and ``begins`` are query expressions of FTS5: the words themselves, and
    words that begin so. ``pattern`` finds the term in a text as it was written.
    """

    exact: str
    begins: str
    pattern: str


def indexed(text: str) -> str:
    """The text as it is given to the index."""
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
        yield from _spaced(chunk[position : run.start()])
        yield _unspaced(run.group())
        position = run.end()
    yield from _spaced(chunk[position:])


def _unspaced(run: str) -> Term:
    expression = f'"{" ".join(_pairs(run))}"' if len(run) > 1 else f'"{run}" *'
    return Term(expression, expression, re.escape(run))


def _spaced(piece: str) -> Iterator[Term]:
    """A word, or several that stand together, such as ``read_file`` or ``src/a.py``."""
    tokens = _TOKEN.findall(piece)
    if tokens:
        exact = f'"{" ".join(tokens)}"'
        begins = f"{exact} *" if len(tokens[-1]) >= _LEAST_PREFIX else exact
        yield Term(exact, begins, r"(?<![^\W_])" + r"[\W_]+".join(map(re.escape, tokens)))
