"""What code remembers of a turn once it is folded (pure).

Facts are read from the turn's own messages by code, so they are true whatever a
summary says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from agent.messages import Message, TextBlock, ToolUseBlock

_ASKED_CHARS = 2_000
_ANSWER_CHARS = 300
_COMMAND_CHARS = 200

_FILE_TOOLS = {"read_file": "read", "write_file": "written", "edit_file": "edited"}
_EXIT_CODE = re.compile(r"\[exit code (-?\d+)\]")


@dataclass(frozen=True)
class FileFact:
    """A file the turn read, wrote or edited."""

    path: str
    action: str


@dataclass(frozen=True)
class CommandFact:
    """A command the turn ran; ``exit_code`` is empty when it is unknown."""

    command: str
    exit_code: str


@dataclass(frozen=True)
class TurnFacts:
    """One turn: what was asked (the user's words), what came out, what was touched.

    Texts are clipped: ``asked`` to 2,000 characters, ``answer`` to 300.
    """

    number: int
    asked: str
    answer: str
    files: tuple[FileFact, ...]
    commands: tuple[CommandFact, ...]


def facts_of(number: int, messages: tuple[Message, ...]) -> TurnFacts:
    """The facts of one turn, whose first message is the user's."""
    results = {
        result.tool_use_id: result for message in messages for result in message.tool_results
    }
    files: list[FileFact] = []
    commands: list[CommandFact] = []
    for call in _calls(messages):
        result = results.get(call.id)
        if call.name in _FILE_TOOLS and result is not None and not result.is_error:
            files.append(FileFact(str(call.input.get("path", "")), _FILE_TOOLS[call.name]))
        elif call.name == "shell":
            found = _EXIT_CODE.findall(result.content) if result is not None else []
            command = str(call.input.get("command", ""))
            commands.append(CommandFact(command[:_COMMAND_CHARS], found[-1] if found else ""))
    return TurnFacts(
        number=number,
        asked=_asked(messages)[:_ASKED_CHARS],
        answer=_last_answer(messages)[:_ANSWER_CHARS],
        files=tuple(dict.fromkeys(files)),
        commands=tuple(commands),
    )


def _asked(messages: tuple[Message, ...]) -> str:
    match messages:
        case (Message(blocks=(TextBlock(text), *_)), *_):
            return text
        case _:
            return ""


def _calls(messages: tuple[Message, ...]) -> Iterator[ToolUseBlock]:
    for message in messages:
        yield from message.tool_uses


def _last_answer(messages: tuple[Message, ...]) -> str:
    for message in reversed(messages):
        if message.role == "assistant":
            texts = [block.text for block in message.blocks if isinstance(block, TextBlock)]
            if texts:
                return texts[-1].strip()
    return ""
