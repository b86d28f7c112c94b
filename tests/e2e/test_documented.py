"""Every slash command and every flag is where people look for it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from typer.core import TyperGroup, TyperOption
from typer.main import get_command

from agent.cli import app
from agent.config import SETTING_KEYS
from agent.ui.commands import COMMANDS
from agent.ui.completion import PromptCompleter
from tests.e2e.support import run_agent
from tests.ui.test_commands import Desk

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
WORDS = [word for command in COMMANDS for word in (command.name, *command.aliases)]


def flags() -> Iterator[tuple[str, str]]:
    """Every command of the program with each of its flags, in their longest form."""
    program = get_command(app)
    assert isinstance(program, TyperGroup)
    for name, command in [("", program), *program.commands.items()]:
        for parameter in command.params:
            if isinstance(parameter, TyperOption):
                yield name, max(parameter.opts, key=len)


FLAGS = list(flags())


@pytest.mark.parametrize("word", WORDS)
def test_a_slash_command_is_in_the_readme_and_completed(word: str, tmp_path: Path) -> None:
    assert re.search(rf"^\|.*`/{word}\b", README, re.MULTILINE)
    document = Document(f"/{word[:3]}")
    offered = PromptCompleter(tmp_path).get_completions(document, CompleteEvent())
    assert f"/{word}" in [completion.text for completion in offered]


async def test_every_slash_command_is_in_its_help() -> None:
    desk = Desk()
    await desk.type("/help")
    for word in WORDS:
        assert re.search(rf"/{word}\b", desk.text), word


@pytest.mark.parametrize(("command", "flag"), FLAGS)
def test_a_flag_is_in_the_readme(command: str, flag: str) -> None:
    assert re.search(rf"`(?:agent )?(?:-., `)?{flag}\b(?!-)", README)


def test_every_command_is_in_the_readme_and_completed(tmp_path: Path) -> None:
    names = {name for name, _ in FLAGS if name}
    asked = {"_AGENT_COMPLETE": "complete_bash", "COMP_WORDS": "agent ", "COMP_CWORD": "1"}
    offered = run_agent([], tmp_path, None, **asked).stdout.split()
    for name in names:
        assert f"`agent {name}" in README, name
        assert name in offered


def test_the_flags_of_chat_are_in_its_help_and_completed(tmp_path: Path) -> None:
    asked = {"_AGENT_COMPLETE": "complete_bash", "COMP_WORDS": "agent chat --", "COMP_CWORD": "2"}
    offered = run_agent([], tmp_path, None, **asked).stdout.split()
    told = run_agent(["chat", "--help"], tmp_path, None, COLUMNS="120").stdout
    for name, flag in FLAGS:
        if name == "chat":
            assert flag in offered
            assert flag in told


def test_every_setting_is_in_the_example_file() -> None:
    example = (ROOT / "config.example.toml").read_text(encoding="utf-8")
    for key in SETTING_KEYS:
        assert re.search(rf"^#?{key} = ", example, re.MULTILINE), key
