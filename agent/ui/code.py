"""Colours for source code, by lines as it comes.

Heavy: imports Pygments through ``rich.syntax``. Colours are the terminal's own
sixteen, without a background, so that they can be read on light and on dark.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.syntax import ANSISyntaxTheme, Syntax

from agent.ui.live import Line

PLAIN = Style(color="cyan")
"""Code in a language that is not known."""

CONTEXT_LINES = 40
"""How far back a line's colours depend on the lines before it, such as the start of a string."""

MAX_LINE = 2000
"""Longer lines, in characters, are not coloured: data, not code, and slow to analyse."""

_COMMENT = Style(dim=True)
_STRING = Style(color="green")
_NAMED = Style(color="blue", bold=True)
_CONSTANT = Style(color="cyan")
_KEYWORD = Style(color="magenta")

# Keys are Pygments' token types, which are tuples of names.
_THEME = ANSISyntaxTheme(
    {
        ("Comment",): _COMMENT,
        ("Keyword",): _KEYWORD,
        ("Keyword", "Constant"): _CONSTANT,
        ("Name", "Builtin"): _CONSTANT,
        ("Name", "Function"): _NAMED,
        ("Name", "Class"): _NAMED,
        ("Name", "Decorator"): _KEYWORD,
        ("Name", "Tag"): _KEYWORD,
        ("Name", "Attribute"): _CONSTANT,
        ("Literal", "String"): _STRING,
        ("Literal", "Number"): _CONSTANT,
        ("Generic", "Deleted"): Style(color="red"),
        ("Generic", "Inserted"): _STRING,
        ("Generic", "Heading"): Style(bold=True),
        ("Generic", "Subheading"): _CONSTANT,
    }
)
_NO_LANGUAGE = frozenset({"", "text", "txt", "plain", "plaintext", "console", "output"})


class Highlighter:
    """Colours the lines of one piece of code in order.

    Lines are analysed together with the ``CONTEXT_LINES`` before them, so that their
    cost does not depend on how much code came before.
    """

    def __init__(self, console: Console, language: str) -> None:
        syntax = Syntax("", language, theme=_THEME, tab_size=0)
        known = language not in _NO_LANGUAGE and syntax.lexer is not None
        self._console = console
        self._syntax = syntax if known else None
        self._context: list[str] = []

    def lines(self, texts: Sequence[str]) -> list[Line]:
        """The segments of the next lines, given without their line ends."""
        plain = [[Segment(text, PLAIN)] if text else [] for text in texts]
        if self._syntax is None:
            return plain
        safe = [text if len(text) <= MAX_LINE else "" for text in texts]
        source = "\n".join([*self._context, *safe])
        coloured = self._syntax.highlight(source).split("\n", allow_blank=True)
        new = coloured[len(self._context) :]
        self._context = [*self._context, *safe][-CONTEXT_LINES:]
        return [
            [segment for segment in line.render(self._console) if segment.text] if text else long
            for line, text, long in zip(new, safe, plain, strict=False)
        ]
