"""Words to look for, in any script (pure).

Most scripts put spaces between words. Chinese, Japanese, Thai and some others do not,
and Korean hangs particles on its words: a run of such characters is found anywhere,
and its parts are its overlapping pairs.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import regex

MOST_TERMS = 16
_MOST_QUERY_CHARS = 2_000

_UNSPACED = (
    r"\p{Han}\p{Hiragana}\p{Katakana}ー\p{Bopomofo}\p{Hangul}"
    r"\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
)
_LETTER = rf"[[\p{{L}}\p{{M}}\p{{N}}\p{{Co}}]--[{_UNSPACED}]]"
_START, _END = f"(?<!{_LETTER})", f"(?!{_LETTER})"
_PIECE = regex.compile(rf"[{_UNSPACED}]+|[^{_UNSPACED}\s]+", regex.V1)
_RUN = regex.compile(rf"[{_UNSPACED}]", regex.V1)
_TOKEN = regex.compile(rf"{_LETTER}+", regex.V1)
_LEAST_PREFIX = 3

_ACCENTS = 200
"""Combining classes from here on are accents; below are signs that make another letter."""


@dataclass(frozen=True, slots=True)
class Term:
    """One thing to look for in a folded text.

    ``exact`` finds the words themselves, ``begins`` words that begin so, and ``part``
    any of what they consist of. A text with none of ``needed`` in it has no match.
    """

    exact: regex.Pattern[str]
    begins: regex.Pattern[str]
    part: regex.Pattern[str]
    needed: tuple[str, ...]


class _Folding(dict[int, str]):
    """How each character is folded, for ``str.translate``."""

    def __missing__(self, code: int) -> str:
        whole = unicodedata.normalize("NFKD", chr(code))
        accented = len(whole) > 1 and unicodedata.combining(whole[1]) >= _ACCENTS
        base = (whole[0] if accented or len(whole) == 1 else chr(code)).lower()
        return self.setdefault(code, base)


_FOLDING = _Folding()


def folded(text: str) -> str:
    """The text without case, accents and wide forms, character for character."""
    return text.lower() if text.isascii() else text.translate(_FOLDING)


def terms(words: str) -> tuple[Term, ...]:
    """What a query asks for. Nothing in it is syntax; at most 16 terms count."""
    text = folded(unicodedata.normalize("NFKC", words[:_MOST_QUERY_CHARS]))
    return tuple(_terms(dict.fromkeys(_PIECE.findall(text))))[:MOST_TERMS]


def _terms(pieces: Iterable[str]) -> Iterator[Term]:
    for piece in pieces:
        if _RUN.match(piece):
            yield _unspaced(piece)
        elif tokens := _TOKEN.findall(piece):
            yield _words(tokens)


def _unspaced(run: str) -> Term:
    pairs = [run[at : at + 2] for at in range(len(run) - 1)] or [run]
    whole, part = _compiled(regex.escape(run)), _compiled("|".join(map(regex.escape, pairs)))
    return Term(whole, whole, part, tuple(pairs))


def _words(tokens: Sequence[str]) -> Term:
    """A word, or several that stand together, such as ``read_file`` or ``src/a.py``."""
    phrase = _START + rf"(?:{_END}[^{_UNSPACED}])+".join(tokens)
    begins = phrase if len(tokens[-1]) >= _LEAST_PREFIX else phrase + _END
    part = f"{_START}(?:{'|'.join(tokens)}){_END}|{begins}"
    return Term(_compiled(phrase + _END), _compiled(begins), _compiled(part), tuple(tokens))


def _compiled(pattern: str) -> regex.Pattern[str]:
    return regex.compile(pattern, regex.V1)
