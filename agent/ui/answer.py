"""Finished Markdown as lines of segments.

Heavy: imports ``rich.markdown``. What differs from Rich's own rendering: code is
neither padded nor wrapped, HTML is shown as text instead of being dropped, links
and images are text and address, and nothing carries a background colour.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from markdown_it.token import Token
from rich import box
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult
from rich.markdown import (
    CodeBlock,
    Heading,
    HorizontalRule,
    Markdown,
    MarkdownElement,
    TableElement,
)
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.theme import Theme

from agent.ui.blocks import parser
from agent.ui.code import Highlighter
from agent.ui.live import Line
from agent.ui.longwords import LongWords, longest_url
from agent.ui.sanitize import sanitize

THEME = Theme(
    {
        "markdown.code": "cyan",
        "markdown.h1": "bold underline",
        "markdown.h2": "bold",
        "markdown.h3": "bold italic",
        "markdown.h4": "italic",
        "markdown.block_quote": "dim",
        "markdown.item.number": "bold",
        "markdown.link": "none",
        "markdown.link_url": "blue underline",
        "markdown.table.border": "dim",
        "markdown.table.header": "bold",
    }
)

LEAST_COLUMN = 5
"""Columns of the screen that a table's column needs; a table with less is shown as written."""

_PLACE = "code_line"

# Columns that a list or a quote takes from the text in it, and what is around an address.
_INDENTS = {"bullet_list": 3, "ordered_list": 6, "blockquote": 4}
_PARENTHESES = 3

# What Rich's element classes raise on nestings that they do not expect.
_RENDER_ERRORS = (AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)


class _LeftHeading(Heading):
    LEVEL_ALIGN: ClassVar[dict[str, JustifyMethod]] = {}


class _ThinRule(HorizontalRule):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Segment("─" * options.max_width, console.get_style("markdown.hr", default="none"))
        yield Segment.line()
        yield Segment.line()


class _Table(TableElement):
    """A table whose cells are folded where Rich would cut them."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        border = console.get_style("markdown.table.border", default="none")
        table = Table(box=box.SIMPLE, pad_edge=False, show_edge=False, border_style=border)
        if self.header is not None and self.header.row is not None:
            for cell in self.header.row.cells:
                heading = cell.content.copy()
                heading.stylize("markdown.table.header")
                table.add_column(heading, overflow="fold")
        if self.body is not None:
            for row in self.body.rows:
                table.add_row(*(cell.content for cell in row.cells))
        yield table


class _Code(CodeBlock):
    """Emits one placeholder per line, which :func:`render` replaces by the whole line.

    Rich would fit the lines into the width of the list or quote around them.
    """

    def __init__(self, lexer_name: str, theme: str, lines: list[Line]) -> None:
        super().__init__(lexer_name, theme)
        self._lines = lines

    @classmethod
    def create(cls, markdown: Markdown, token: Token) -> _Code:
        language = token.info.strip().partition(" ")[0]
        lines = markdown.code_lines if isinstance(markdown, AnswerMarkdown) else []
        return cls(language, markdown.code_theme, lines)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = self.text.plain.removesuffix("\n").split("\n")
        for line in Highlighter(console, self.lexer_name).lines(code):
            self._lines.append(line)
            yield Segment(" ", Style.from_meta({_PLACE: len(self._lines) - 1}))
            yield Segment.line()


class AnswerMarkdown(Markdown):
    """Markdown of an answer, to be laid out in a width.

    ``code_lines`` holds what the placeholders stand for, ``long_words`` the words that
    are wider than their line; ``table_width`` is what the widest table needs.
    """

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _LeftHeading,
        "hr": _ThinRule,
        "table_open": _Table,
        "fence": _Code,
        "code_block": _Code,
    }

    def __init__(self, markup: str, width: int) -> None:
        super().__init__("", hyperlinks=False)
        self.markup = markup
        self.parsed = parser().parse(markup)
        self.code_lines: list[Line] = []
        self.long_words = LongWords()
        self.table_width = 0
        columns: list[int] = []
        column = 0
        for token in self.parsed:
            width -= token.nesting * _INDENTS.get(token.type.rpartition("_")[0], 0)
            match token.type:
                case "table_open":
                    columns = []
                case "tr_open":
                    column = 0
                case "th_open":
                    columns.append(LEAST_COLUMN)
                case "inline" if columns:
                    columns[column] = max(columns[column], longest_url(token.content) + 2)
                    column += 1
                case "table_close":
                    self.table_width = max(self.table_width, sum(columns))
                    columns = []
            if token.children:
                token.children = list(_plain_links(token.children))
                if not columns:
                    self._hide_long_words(token.children, width)

    def _hide_long_words(self, tokens: list[Token], width: int) -> None:
        room = max(width - _PARENTHESES, LEAST_COLUMN)
        for token in tokens:
            token.content = self.long_words.hide(token.content, room)
            if "href" in token.attrs:
                token.attrs["href"] = self.long_words.hide(str(token.attrs["href"]), room)


def _plain_links(tokens: list[Token]) -> Iterator[Token]:
    """Inline tokens with images as text, and without links around their own address."""
    for token in tokens:
        if token.type == "image":
            source = str(token.attrs.get("src", ""))
            yield Token("text", "", 0, content=f"{token.content or 'image'} ({source})")
        elif token.markup != "autolink":
            yield token


def render(console: Console, markup: str, width: int) -> list[Line]:
    """The markup as lines without trailing space, ``width`` columns wide.

    Code and words that are longer than a line, such as URLs, are not broken.

    There are no blank lines at either end; between blocks there is one.
    What Rich cannot lay out is returned as it was written.
    """
    document = AnswerMarkdown(markup, width)
    if document.table_width > width:
        return _as_written(markup)
    options = console.options.update(width=width, height=None)
    try:
        with console.use_theme(THEME):
            lines = console.render_lines(document, options, pad=False)
    except _RENDER_ERRORS:
        return _as_written(markup)
    finished = [_trimmed(_with_code(line, document)) for line in lines]
    return _without_blank_ends(finished)


def _as_written(markup: str) -> list[Line]:
    return [[Segment(line)] for line in markup.split("\n")]


def _without_blank_ends(lines: list[Line]) -> list[Line]:
    """The lines from the first to the last with text: Rich adds blank ones around some blocks."""
    filled = [index for index, line in enumerate(lines) if line]
    return lines[filled[0] : filled[-1] + 1] if filled else []


def _with_code(line: Line, document: AnswerMarkdown) -> Line:
    """The line with the code and the long words that it has stand-ins for."""
    out: Line = []
    for segment in line:
        place = segment.style.meta.get(_PLACE) if segment.style else None
        text = document.long_words.show(segment.text)
        out += [Segment(text, segment.style)] if place is None else document.code_lines[place]
    return out


def _trimmed(line: Line) -> Line:
    """The line without trailing spaces, each segment made safe once more.

    A character reference such as ``&#13;`` becomes a control character only when
    Markdown is parsed.
    """
    safe = [Segment(sanitize(text).replace("\n", " "), style) for text, style, _ in line]
    while safe and not safe[-1].text.rstrip(" "):
        safe.pop()
    if safe:
        safe[-1] = Segment(safe[-1].text.rstrip(" "), safe[-1].style)
    return safe
