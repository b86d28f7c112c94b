"""Words that are longer than a line, such as URLs, kept whole through the layout.

Rich breaks such a word into lines, and a selection of it would hold line ends. A
stand-in of the width of a line is laid out in its place, so that the word gets a line
of its own, which the terminal wraps by itself.
"""

from __future__ import annotations

import re

_FIRST, _LAST = 0x100000, 0x10FFFD
_STAND_IN = re.compile(rf"([{chr(_FIRST)}-{chr(_LAST)}])\1*")
"""Characters for private use: one for each word, repeated."""

_URL = re.compile(r"\S*://\S*")


class LongWords:
    """The long words of one text."""

    def __init__(self) -> None:
        self._words: dict[str, str] = {}

    def hide(self, text: str, width: int) -> str:
        """The text with stand-ins for ASCII words that are wider than ``width`` columns.

        Other scripts may be broken anywhere.
        """
        if _STAND_IN.search(text):
            return text
        return re.sub(rf"[!-~]{{{width + 1},}}", lambda word: self._hidden(word[0], width), text)

    def _hidden(self, word: str, width: int) -> str:
        character = chr(_FIRST + len(self._words))
        if character > chr(_LAST):
            return word
        self._words[character] = word
        return character * width

    def show(self, text: str) -> str:
        """The text with the words in the place of their stand-ins."""
        return _STAND_IN.sub(self._shown, text)

    def _shown(self, stand_in: re.Match[str]) -> str:
        word = self._words.get(stand_in[1])
        if word is None:
            return stand_in[0]
        # A stand-in that was broken after all comes twice.
        self._words[stand_in[1]] = ""
        return word


def longest_url(text: str) -> int:
    """The length of the longest URL in a text, with what it touches; 0 without one."""
    return max((len(url[0]) for url in _URL.finditer(text)), default=0)
