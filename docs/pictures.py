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
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pexpect
import pyte
from pyte.screens import Char
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from tests.server.demo import demo_reply
from tests.server.server import MessagesServer

PICTURE = Path(__file__).with_name("agent-chat.svg")
ROOT = Path(__file__).parents[1]
COLUMNS, LINES = 100, 40
KEPT_TURNS = 2
WINDOW = 12_000
SECONDS_PER_DELTA = 0.02
PATIENCE_SECONDS = 30.0


@dataclass(frozen=True)
class Input:
    """What is typed, and whether the turn asks for an approval, which is then given."""

    text: str
    approve: bool = False


CONVERSATION = (
    Input("Remember: the release is on Friday, as version 2.4."),
    Input("list ."),
    Input("read README.md"),
    Input("long 500"),
    Input("read test_hours.py"),
    Input("Please read hours.py\nand run pytest -q", approve=True),
    Input("What did I say about the release?"),
)
SHOWN = CONVERSATION[-2:]
"""The turns in the picture. The last one is where the conversation gets too long."""

EXPECTED = (
    "● read_file",
    "● shell",
    "[no] y",
    "def shown",
    "📦 folded",
    "· context ",
    "version 2.4",
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
            attrs = tuple(
                itertools.chain.from_iterable(
                    FAINT_AS_BLINKING.get(attribute, (attribute,)) for attribute in attrs
                )
            )
        super().select_graphic_rendition(*attrs)

    @property
    def rows(self) -> list[Sequence[Char]]:
        """Everything that can be read by scrolling, to the cursor's line."""
        visible = [self.buffer[line] for line in range(self.cursor.y + 1)]
        return [
            [row[column] for column in range(self.columns)] for row in (*self.history.top, *visible)
        ]


class Terminal:
    """A program in a terminal, and what it shows."""

    def __init__(
        self, arguments: Sequence[str], folder: Path, environment: Mapping[str, str]
    ) -> None:
        self.screen = Screen(COLUMNS, LINES, history=1_000)
        self._stream = pyte.Stream(self.screen)
        self._program = pexpect.spawn(
            sys.executable,
            list(arguments),
            cwd=str(folder),
            env=dict(environment),
            dimensions=(LINES, COLUMNS),
            encoding="utf-8",
        )
        # The program asks where the cursor is.
        self.screen.write_process_input = self.type

    def type(self, keys: str) -> None:
        """Press keys."""
        self._program.send(keys)

    def wait(self, condition: Callable[[list[str]], bool]) -> None:
        """Read what is written until the lines fulfil a condition.

        :raises TimeoutError: they do not within :data:`PATIENCE_SECONDS`.
        """
        end = time.monotonic() + PATIENCE_SECONDS
        while not condition(lines := [plain(row) for row in self.screen.rows]):
            if time.monotonic() > end:
                raise TimeoutError("the program stands at:\n" + "\n".join(lines[-LINES:]))
            try:
                self._stream.feed(self._program.read_nonblocking(4096, timeout=0.1))
            except pexpect.TIMEOUT:
                continue

    def close(self) -> None:
        """End the program."""
        self._program.close(force=True)


def plain(row: Sequence[Char]) -> str:
    """A row's characters, without the spaces at its end."""
    return "".join(cell.data for cell in row).rstrip()


def play(home: Path, budget: int) -> tuple[Screen, list[int]]:
    """Have the conversation under a budget in tokens, in the folder ``project`` of a home.

    Returns the screen at its end, and the sizes of its requests in tokens.
    """
    folder = home / "project"
    folder.mkdir(parents=True)
    for name, text in PROJECT.items():
        (folder / name).write_text(text, encoding="utf-8")
    limits = ["--max-input-tokens", str(budget), "--keep-recent-turns", str(KEPT_TURNS)]
    with MessagesServer(script=demo_reply, window=WINDOW, delay=SECONDS_PER_DELTA) as server:
        environment = {
            "ANTHROPIC_API_KEY": "any",
            "ANTHROPIC_BASE_URL": server.url,
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": str(ROOT),
            "TERM": "xterm-256color",
        }
        terminal = Terminal(["-m", "agent", "chat", *limits], folder, environment)
        try:
            converse(terminal)
        finally:
            terminal.close()
        return terminal.screen, [request.prompt_tokens for request in server.messages_requests]


def converse(terminal: Terminal) -> None:
    """Type the conversation, and wait for the end of each turn."""
    for turn, line in enumerate(CONVERSATION):
        terminal.wait(lambda lines, turns=turn: is_ready(lines, turns))
        terminal.type(line.text.replace("\n", ALT_ENTER) + ENTER)
        if line.approve:
            terminal.wait(lambda lines: lines[-1].endswith("why not [no]"))
            terminal.type("y" + ENTER)
    terminal.wait(lambda lines: is_ready(lines, len(CONVERSATION)))


def is_ready(lines: Sequence[str], turns: int) -> bool:
    """Whether that many turns are finished and the next line can be typed."""
    return lines[-1] == ">" and sum("· context " in line for line in lines) == turns


def shown(screen: Screen) -> list[Text]:
    """The lines of the picture, from the first shown prompt to the cursor."""
    rows = screen.rows
    first = "> " + SHOWN[0].text.splitlines()[0]
    begin = next(number for number, row in enumerate(rows) if plain(row) == first)
    lines = [styled(row) for row in rows[begin:]]
    cursor = Text(" ", Style(reverse=True))
    lines[-1] = Text.assemble(lines[-1][: screen.cursor.x], cursor)
    return lines


def styled(row: Sequence[Char]) -> Text:
    """A row with its colours. The cell after a wide character is empty."""
    text = Text(end="")
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
    return svg.replace("font-family: arial", "font-family: system-ui, Arial, sans-serif")


def main() -> None:
    """Play twice: without folding to learn the sizes, then so that the last turn folds."""
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary).resolve()
        _, sizes = play(home / "1", WINDOW)
        screen, _ = play(home / "2", sum(sizes[-2:]) // 2)
    lines = shown(screen)
    text = "\n".join(line.plain for line in lines)
    missing = [part for part in EXPECTED if part not in text]
    if missing or temporary in text:
        sys.exit(f"docs/pictures.py: not drawn: {missing or temporary} in the picture:\n{text}")
    PICTURE.write_text(drawn(lines), encoding="utf-8")
    sys.stdout.write(f"{PICTURE.name}: {len(lines)} lines\n")


if __name__ == "__main__":
    main()
