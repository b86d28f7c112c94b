"""Long pastes: a few words in the box, whole when they are sent."""

from __future__ import annotations

import re
from bisect import bisect_right

from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.formatted_text.utils import fragment_list_to_text
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput
from prompt_toolkit.layout.utils import explode_text_fragments

MOST_CHARS = 1_000
MOST_LINES = 15
"""A paste of more characters or lines is folded."""

# Private characters at the end of Unicode that no font and no program is known to use.
_FIRST, _LAST = 0x10F000, 0x10FFFD
_MARK = re.compile(f"[{chr(_FIRST)}-{chr(_LAST)}]")


class Pastes(Processor):
    """Keeps what was pasted; in the text that is edited, one character stands for each.

    So a paste is moved over, deleted and brought back by undo as one character is. As a
    processor of prompt_toolkit, it shows words in the character's place.
    """

    def __init__(self) -> None:
        self._texts: list[str] = []

    def folded(self, text: str) -> str:
        """The text as it goes into the box: itself, or one character that stands for it."""
        # A text with such a character in it is kept apart, or it would be taken for a paste.
        short = len(text) <= MOST_CHARS and _lines(text) <= MOST_LINES and not _MARK.search(text)
        if short or _FIRST + len(self._texts) > _LAST:
            return text
        self._texts.append(text)
        return chr(_FIRST + len(self._texts) - 1)

    def whole(self, text: str) -> str:
        """The text of the box with every paste in its place."""
        return _MARK.sub(lambda mark: self._pasted(mark[0]), text)

    def shown(self, text: str) -> str:
        """The text of the box as it is shown: ``[pasted 214 lines]``."""
        return _MARK.sub(lambda mark: _label(self._pasted(mark[0])), text)

    def _pasted(self, mark: str) -> str:
        number = ord(mark) - _FIRST
        return self._texts[number] if number < len(self._texts) else mark

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        """A line of the box with words for its pastes."""
        fragments = transformation_input.fragments
        if not _MARK.search(fragment_list_to_text(fragments)):
            return Transformation(fragments)
        shown: StyleAndTextTuples = []
        starts = [0]
        for style, character, *_ in explode_text_fragments(fragments):
            text = self.shown(character)
            shown.append((style if text == character else f"{style} class:paste", text))
            starts.append(starts[-1] + len(text))
        last = len(starts) - 1
        return Transformation(
            shown,
            source_to_display=lambda at: starts[min(at, last)] + max(at - last, 0),
            display_to_source=lambda at: bisect_right(starts, at) - 1 + max(at - starts[-1], 0),
        )


def _lines(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n"))


def _label(text: str) -> str:
    count = _lines(text)
    return (
        f"[pasted {count:,} lines]" if count > MOST_LINES else f"[pasted {len(text):,} characters]"
    )
