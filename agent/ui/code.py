"""Colours for source code, line by line as it comes.

Heavy: imports Pygments through ``rich.syntax``. Colours are the terminal's own
sixteen, without a background, so that they can be read on light and on dark.
"""

from __future__ import annotations

from collections.abc import Iterator

from rich.segment import Segment
from rich.style import Style
from rich.syntax import ANSISyntaxTheme, Syntax
from rich.text import Text

PLAIN = Style(color="cyan")
"""Code in a language that is not known."""

CONTEXT_LINES = 40
"""How far back a line's colours depend on the lines before it, ..."""

MAX_CONTEXT_LINES = 200
"""... and how far within a string or comment that goes on for longer."""

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

    A line is analysed together with those before it, back to the last blank line
    outside strings and comments, so that a line's cost does not depend on how
    much code came before.
    """

    def __init__(self, language: str) -> None:
        syntax = Syntax("", language, theme=_THEME, tab_size=0)
        known = language not in _NO_LANGUAGE and syntax.lexer is not None
        self._syntax = syntax if known else None
        self._context = ""
        self._context_lines = 0

    def line(self, text: str) -> list[Segment]:
        """The segments of the next line, given without its line end."""
        if self._syntax is None or len(text) > MAX_LINE:
            return [Segment(text, PLAIN)] if text else []
        begin = len(self._context)
        source = f"{self._context}{text}\n"
        coloured = self._syntax.highlight(source)
        self._remember(source, blank=not text.strip(), within=_ends_within_token(coloured))
        return _segments(coloured, begin, begin + len(text))

    def _remember(self, source: str, *, blank: bool, within: bool) -> None:
        self._context_lines += 1
        enough = MAX_CONTEXT_LINES if within else CONTEXT_LINES
        if (blank and not within) or self._context_lines >= enough:
            source, self._context_lines = "", 0
        self._context = source


def _ends_within_token(coloured: Text) -> bool:
    """Whether the last line end belongs to a string or comment that goes on."""
    if not coloured.spans:
        return False
    last = coloured.spans[-1]
    return last.end >= len(coloured) and last.style in {_COMMENT, _STRING}


def _segments(coloured: Text, begin: int, end: int) -> list[Segment]:
    """The part of a coloured text from ``begin`` to ``end``. Its spans do not overlap."""
    segments: list[Segment] = []
    position = begin
    for span in coloured.spans:
        start, stop = max(span.start, begin), min(span.end, end)
        if start >= stop:
            continue
        if start > position:
            segments.append(Segment(coloured.plain[position:start]))
        style = span.style if isinstance(span.style, Style) else None
        segments.append(Segment(coloured.plain[start:stop], style))
        position = stop
    if position < end:
        segments.append(Segment(coloured.plain[position:end]))
    return segments


def highlight(code: str, language: str) -> Iterator[list[Segment]]:
    """The segments of every line of a finished piece of code."""
    highlighter = Highlighter(language)
    return (highlighter.line(line) for line in code.split("\n"))
