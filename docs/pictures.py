"""Draws the README's picture: ``.venv/bin/python docs/pictures.py``.

The picture is a real run. ``agent chat`` runs in a pseudo-terminal on the strict test
server with its demonstration model; keys are typed, and what the terminal then shows
becomes ``docs/agent-chat.svg``. The packages of the ``test`` extra are needed.
"""

from __future__ import annotations

import io
import itertools
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyte
from pyte.screens import Char
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from tests.server.demo import demo_reply
from tests.server.server import MessagesServer
from tests.ui.terminal import ROOT, Chat

PICTURE = Path(__file__).with_name("agent-chat.svg")
COLUMNS, LINES = 116, 40
KEPT_TURNS = 2
WINDOW = 12_000
SECONDS_PER_DELTA = 0.015


@dataclass(frozen=True)
class Input:
    """What is typed, and whether the turn asks for an approval, which is then given."""

    text: str
    approve: bool = False


CONVERSATION = (
    Input("Remember: the release is on Friday, as version 2.4."),
    Input("list ."),
    Input("read README.md"),
    Input("long 1200"),
    Input("long 800"),
    Input("read test_hours.py"),
    Input("Please read hours.py\nand run pytest -q", approve=True),
    Input("All tests pass, so we can go on. What did I say about the release?"),
)
SHOWN = CONVERSATION[-2:]
"""The turns in the picture. The last one is where the conversation gets too long."""

LAST_INPUT_TOKENS = 30
"""About the size of the last input: a third of it is what the budget lacks."""

EXPECTED = (
    "● read_file",
    "● shell",
    "[no] y",
    "def shown",
    "📦 folded",
    "· context ",
    "version 2.4",
    "% · ask",
)
"""What the picture is there to show."""

PROJECT = {
    "README.md": """\
# Hours

Adds up working hours from a list of entries. An entry is a number of whole
minutes; a total is shown as people write it, such as `7:45`.

The tests run with `pytest -q`.
""",
    "hours.py": '''\
"""Working hours, kept in whole minutes."""

MINUTES = 60  # of an hour


def shown(minutes: int) -> str:
    """Minutes as people write them, such as 7:45."""
    hours, rest = divmod(minutes, MINUTES)
    return f"{hours}:{rest:02}"  # 5 minutes are :05


def total(entries: list[int]) -> str:
    """All entries together."""
    return shown(sum(entries))
''',
    "test_hours.py": """\
from hours import shown, total


def test_minutes_have_two_digits() -> None:
    assert shown(65) == "1:05"


def test_entries_are_added_up() -> None:
    assert total([210, 255]) == "7:45"


def test_no_entries_are_no_time() -> None:
    assert total([]) == "0:00"
""",
}

# Rich names fonts that a page would have to load from elsewhere.
FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
FONT_FACE = re.compile(r"@font-face\s*\{.*?\}\s*", re.DOTALL)

THEME = TerminalTheme(
    (22, 27, 34),
    (214, 221, 229),
    [
        (72, 79, 88),
        (255, 123, 114),
        (99, 201, 119),
        (226, 182, 84),
        (111, 176, 255),
        (205, 155, 255),
        (96, 204, 217),
        (214, 221, 229),
    ],
)

# pyte does not know faint text; blinking text, which the program never writes, stands for it.
FAINT_AS_BLINKING = {2: (5,), 22: (22, 25)}
EXTENDED_COLOURS = {38, 48}
COLOUR_NAMES = {"brown": "yellow"}

ALT_ENTER, ENTER = "\x1b\r", "\r"


class Screen(pyte.HistoryScreen):
    """A terminal's screen and scrollback, in which faint text is kept."""

    def select_graphic_rendition(self, *attrs: int) -> None:
        """Take the attributes of the text to come."""
        if EXTENDED_COLOURS.isdisjoint(attrs):
            known = (FAINT_AS_BLINKING.get(attribute, (attribute,)) for attribute in attrs)
            attrs = tuple(itertools.chain.from_iterable(known))
        super().select_graphic_rendition(*attrs)

    @property
    def rows(self) -> list[Sequence[Char]]:
        """Everything that can be read by scrolling, to the status below the cursor's line."""
        visible = [self.buffer[line] for line in range(self.cursor.y + 2)]
        return [
            [row[column] for column in range(self.columns)] for row in (*self.history.top, *visible)
        ]


def plain(row: Sequence[Char]) -> str:
    """A row's characters, without the spaces at its end."""
    return "".join(cell.data for cell in row).rstrip()


def play(home: Path, budget: int) -> tuple[bytes, list[int]]:
    """Have the conversation under a budget in tokens, in the folder ``project`` of a home.

    Returns what was written to the terminal, and the sizes of the requests in tokens.
    """
    folder = home / "project"
    folder.mkdir(parents=True)
    for name, text in PROJECT.items():
        (folder / name).write_text(text, encoding="utf-8")
    limits = ["--max-input-tokens", str(budget), "--keep-recent-turns", str(KEPT_TURNS)]
    with MessagesServer(script=demo_reply, window=WINDOW, delay=SECONDS_PER_DELTA) as server:
        chat = Chat(
            ["agent", "chat", *limits], COLUMNS, LINES, environment(home, server.url), folder
        )
        try:
            converse(chat)
        finally:
            chat.close()
        return chat.written, [request.prompt_tokens for request in server.messages_requests]


def environment(home: Path, url: str) -> dict[str, str]:
    """An environment in which nothing of this machine shows."""
    return {
        "ANTHROPIC_API_KEY": "any",
        "ANTHROPIC_BASE_URL": url,
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": str(ROOT),
        "TERM": "xterm-256color",
    }


def converse(chat: Chat) -> None:
    """Type the conversation, and wait for the end of each turn."""
    chat.wait_for_prompt()
    for turn, line in enumerate(CONVERSATION, 1):
        chat.type(line.text.replace("\n", ALT_ENTER) + ENTER)
        if line.approve:
            chat.wait_until(lambda: chat.lines[-1].endswith("why not [no]"), "question")
            chat.type("y" + ENTER)
        chat.wait_until(partial(has_finished, chat, turn), f"end of turn {turn}")
        chat.wait_for_prompt()


def has_finished(chat: Chat, turns: int) -> bool:
    """Whether the last line of that many turns is on the screen."""
    return sum("· context " in line for line in chat.lines) == turns


def shown(written: bytes) -> list[Text]:
    """The lines of the picture, from the first shown prompt to the status line."""
    screen = Screen(COLUMNS, LINES, history=1_000)
    pyte.ByteStream(screen).feed(written)
    rows = screen.rows
    first = "> " + SHOWN[0].text.splitlines()[0]
    begin = next(number for number, row in enumerate(rows) if plain(row) == first)
    lines = [styled(row) for row in rows[begin:-2]]
    typed = styled(rows[-2][: screen.cursor.x]).append(" ", Style(reverse=True))
    status = styled(rows[-1])
    for line in (*lines, status):
        line.rstrip()
    return [*lines, typed, status]


def styled(row: Sequence[Char]) -> Text:
    """A row with its colours. The cell after a wide character is empty."""
    text = Text()
    for style, cells in itertools.groupby(row, style_of):
        text.append("".join(cell.data for cell in cells), style)
    return text


def style_of(cell: Char) -> Style:
    """A cell's style as Rich names it."""
    return Style(
        color=COLOUR_NAMES.get(cell.fg, cell.fg),
        bgcolor=COLOUR_NAMES.get(cell.bg, cell.bg),
        bold=cell.bold,
        dim=cell.blink,
        italic=cell.italics,
        underline=cell.underscore,
        strike=cell.strikethrough,
        reverse=cell.reverse,
    )


def drawn(lines: Sequence[Text]) -> str:
    """The lines as an SVG image that loads nothing."""
    console = Console(
        record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, highlight=False
    )
    for line in lines:
        console.print(line, no_wrap=True, crop=True)
    svg = console.export_svg(title="agent chat", theme=THEME, unique_id="agent-chat")
    svg = FONT_FACE.sub("", svg)
    svg = svg.replace("Fira Code, monospace", FONTS)
    # Some viewers drop the spaces at both ends of a text otherwise, no-break ones, too.
    svg = svg.replace(
        '<g class="agent-chat-matrix">', '<g class="agent-chat-matrix" xml:space="preserve">'
    )
    return svg.replace("font-family: arial", "font-family: system-ui, Arial, sans-serif")


def main() -> None:
    """Play twice: without folding to learn the sizes, then so that the last turn folds."""
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary).resolve()
        _, sizes = play(home / "1", WINDOW)
        written, _ = play(home / "2", sizes[-1] - LAST_INPUT_TOKENS // 3)
    lines = shown(written)
    text = "\n".join(line.plain for line in lines)
    missing = [part for part in EXPECTED if part not in text]
    if missing or temporary in text:
        sys.exit(f"docs/pictures.py: not drawn: {missing or temporary} in the picture:\n{text}")
    PICTURE.write_text(drawn(lines), encoding="utf-8")
    sys.stdout.write(f"{PICTURE.name}: {len(lines)} lines\n")


if __name__ == "__main__":
    main()
