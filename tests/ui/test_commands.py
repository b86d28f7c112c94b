from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import RenderableType

from agent.errors import SessionError
from agent.events import ContextReport, ContextSize, Event, EventStream, SessionEntry, TurnSize
from agent.messages import (
    Message,
    OpaqueBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from agent.ui import commands, views
from agent.ui.commands import COMMANDS, CommandContext, CommandLine
from tests.ui.screens import SEQUENCES, console, shown, unexpected_controls
from tests.ui.scripted import REPORT, ScriptedSession


class Desk:
    """Runs commands on a scripted session and keeps what they print."""

    def __init__(self) -> None:
        self.session = ScriptedSession()
        self.console, self.file = console(120, live=False)
        self.events: list[Event] = []
        self.recaps = 0
        self.prefilled: list[str] = []
        self.choice: str | None = None
        self.offered: list[str] = []
        self.answer = ""
        self.copied: list[str] = []

    async def type(self, text: str) -> bool:
        line = commands.parse(text)
        assert line is not None
        context = CommandContext(
            self.session,
            self._show,
            self._play,
            self._recap,
            self.prefilled.append,
            self._choose,
            self._copy,
            self.answer,
        )
        return await commands.run(context, line)

    def _show(self, shown: RenderableType) -> None:
        self.console.print(shown)

    async def _play(self, events: EventStream) -> None:
        self.events += [event async for event in events]

    async def _choose(self, sessions: Sequence[SessionEntry]) -> str | None:
        self.offered += [entry.id for entry in sessions]
        return self.choice

    def _copy(self, text: str) -> str:
        self.copied.append(text)
        return "copied"

    def _recap(self) -> None:
        self.recaps += 1

    @property
    def text(self) -> str:
        return self.file.getvalue()


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        ("/help", CommandLine("help", "")),
        ("  /Help  ", CommandLine("help", "")),
        ("/compact keep the paths\nand names", CommandLine("compact", "keep the paths\nand names")),
        ("/", CommandLine("", "")),
        ("/no-such", CommandLine("no-such", "")),
        ("/etc/hosts is empty", None),
        ("/usr/bin", None),
        ("/tmp2", None),
        ("what is /help", None),
        ("", None),
    ],
)
def test_which_lines_are_commands(typed: str, line: CommandLine | None) -> None:
    assert commands.parse(typed) == line


async def test_help_shows_every_command_with_its_aliases() -> None:
    desk = Desk()
    assert not await desk.type("/help")
    for command in COMMANDS:
        row = next(line for line in desk.text.split("\n") if line.startswith(f"/{command.name}"))
        assert command.help in row
        assert command.argument in row
        assert all(f"/{alias}" in row for alias in command.aliases)


def test_the_table_has_what_was_promised() -> None:
    names = {name for command in COMMANDS for name in (command.name, *command.aliases)}
    promised = "help compact reset resume sessions context tokens messages system model cost"
    assert names == {
        *promised.split(),
        "uncompact",
        "undo-edit",
        "rewind",
        "fork",
        "copy",
        "export",
        "exit",
        "quit",
    }


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("/hepl", "/help"), ("/con", "/context"), ("/contxt", "/context"), ("/qit", "/quit")],
)
async def test_an_unknown_command_suggests_and_is_not_sent(typed: str, meant: str) -> None:
    desk = Desk()
    assert not await desk.type(typed)
    assert f"unknown command {typed}; did you mean {meant}" in desk.text
    assert desk.session.sent == []


async def test_an_unknown_command_like_no_other_points_to_help() -> None:
    desk = Desk()
    await desk.type("/xyzzy")
    assert desk.text == "unknown command /xyzzy; /help lists them\n"


async def test_leaving() -> None:
    assert await Desk().type("/exit")
    assert await Desk().type("/quit")


async def test_compact_plays_its_events() -> None:
    desk = Desk()
    await desk.type("/compact the paths")
    assert [getattr(event, "report", None) for event in desk.events][-1] == REPORT


async def test_sessions_reset_and_resume() -> None:
    desk = Desk()
    await desk.type("/sessions")
    await desk.type("/reset")
    assert desk.session.id == "s2"
    assert "/resume s1" in desk.text
    await desk.type("/resume")
    assert desk.session.id == "s2", "none was chosen"
    desk.choice = "s0"
    await desk.type("/resume")
    assert desk.session.id == "s0"
    assert desk.offered == ["s0", "s0"], "the open one is not offered"
    assert "1 damaged record was skipped" in desk.text
    assert desk.recaps == 1
    with pytest.raises(SessionError):
        await desk.type("/resume missing")


async def test_model_cost_system_export(tmp_path: Path) -> None:
    desk = Desk()
    await desk.type("/model other-2")
    await desk.type("/cost")
    await desk.type("/system")
    await desk.type("/export")
    await desk.type(f"/export {tmp_path / 'out.md'}")
    assert desk.session.model == "other-2"
    assert "model other-2" in desk.text
    assert "$0.0123" in desk.text
    assert "You are a script." in desk.text
    assert "/export FILE" in desk.text
    assert (tmp_path / "out.md").read_text() == "transcript"


async def test_context_and_its_alias() -> None:
    desk = Desk()
    await desk.type("/context")
    first = desk.text
    await desk.type("/tokens")
    assert desk.text == first * 2
    for words in ("38.2k of 140k tokens (27%)", "system", "tools", "for 7 turns", "turn 8", "free"):
        assert words in first


def report(**parts: int) -> ContextReport:
    kept = (TurnSize(1, parts.get("turns", 0), "words", "x.md:1-2"),)
    size = ContextSize(sum(parts.values()), parts.get("budget", 1_000), 2_000, exact=True)
    return ContextReport(
        size, "m", parts.get("system", 0), parts.get("tools", 0), parts.get("summary", 0), kept
    )


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"system": 1, "tools": 1, "summary": 1, "turns": 1},
        {"system": 100, "turns": 900},
        {"system": 5_000, "tools": 4_000, "turns": 1_000_000},
    ],
)
def test_the_bar_has_a_fixed_width_and_shows_every_part(parts: dict[str, int]) -> None:
    drawn = views.context_parts(report(**parts))
    text = views.bar(drawn).plain
    assert len(text) == views.BAR_CELLS
    assert all(part.glyph in text for part in drawn[:-1] if part.tokens)


async def test_messages_are_one_line_each() -> None:
    messages = (
        Message("user", (TextBlock("question\nwith lines"),)),
        Message("assistant", (ThinkingBlock("hm", "s"), ToolUseBlock("t", "shell", {"c": "ls"}))),
        Message("user", (ToolResultBlock("t", "out", is_error=True),)),
        Message("assistant", (OpaqueBlock({"type": "redacted_thinking"}), TextBlock("x" * 2_000))),
    )
    made, file = console(120, live=False)
    made.print(views.messages_view(messages))
    lines = file.getvalue().rstrip("\n").split("\n")
    assert len(lines) == 4
    assert "question with lines" in lines[0]
    assert "thinking, call shell" in lines[1]
    assert "error result" in lines[2]
    assert "redacted_thinking, text" in lines[3]
    assert "2.0k chars" in lines[3]


@pytest.mark.parametrize("sequence", SEQUENCES)
async def test_foreign_text_is_harmless(sequence: str) -> None:
    desk = Desk()
    nasty = f"a{sequence}b[/x]"
    desk.session.model = desk.session.system = desk.session.id = nasty
    desk.session.sent.append(nasty)
    for command in ("/context", "/messages", "/system", "/model", "/sessions", "/reset"):
        desk.session.id = nasty
        await desk.type(command)
    assert unexpected_controls(desk.text) == set()
    assert shown(desk.text)


async def test_a_rewind_puts_the_words_into_the_input_line() -> None:
    desk = Desk()
    await desk.type("/rewind 3")
    assert desk.prefilled == ["what turn 3 began with"]
    await desk.type("/rewind")
    await desk.type("/rewind back")
    assert desk.prefilled == ["what turn 3 began with", "what turn the newest began with"]
    assert "say which turn" in desk.text


async def test_a_fork_names_the_one_before() -> None:
    desk = Desk()
    await desk.type("/fork")
    assert "/resume the-one-before" in desk.text


ANSWER = """Two ways:

- first

  ```sh
  make
  ```

```python
print("x")


print("y")
```
"""


async def test_copy_takes_the_answer_or_one_of_its_code_blocks() -> None:
    desk = Desk()
    await desk.type("/copy")
    assert desk.text == "there is no answer to copy yet\n"
    desk.answer = ANSWER
    for typed in ("/copy", "/copy 1", "/copy 2"):
        await desk.type(typed)
    assert desk.copied == [ANSWER.strip(), "make", 'print("x")\n\n\nprint("y")']


@pytest.mark.parametrize("argument", ["0", "3", "x", "-1"])
async def test_copy_says_which_blocks_there_are(argument: str) -> None:
    desk = Desk()
    desk.answer = ANSWER
    await desk.type(f"/copy {argument}")
    assert desk.text == "the last answer has 2 code blocks: /copy [N]\n"
    assert desk.copied == []
