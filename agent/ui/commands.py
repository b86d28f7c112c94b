"""Slash commands: what they are called, what they do, and which line is one."""

from __future__ import annotations

import difflib
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from rich.console import RenderableType
from rich.text import Text

from agent.events import EventStream, SessionEntry
from agent.ui import describe, figures, views
from agent.ui.clipboard import code_blocks
from agent.ui.port import SessionPort
from agent.ui.sanitize import sanitize


@dataclass(frozen=True)
class CommandContext:
    """What a command works with.

    ``show`` prints something; ``play`` prints the events of a running session;
    ``copy`` puts a text into the clipboard and says so; ``answer`` is the last one;
    ``recap`` prints the last turns of the session; ``prefill`` puts a text into the
    input line; ``choose`` lets one of some sessions be chosen, and gives its id or ``None``.
    """

    session: SessionPort
    show: Callable[[RenderableType], None]
    play: Callable[[EventStream], Awaitable[None]]
    recap: Callable[[], None]
    prefill: Callable[[str], None]
    choose: Callable[[Sequence[SessionEntry]], Awaitable[str | None]]
    copy: Callable[[str], str]
    answer: str = ""

    def say(self, text: str, style: str = "") -> None:
        """Print a text, made harmless."""
        self.show(Text(sanitize(text), style=style))


Handler: TypeAlias = Callable[[CommandContext, str], Awaitable[bool]]
"""Does what a command does, given its argument; returns whether to leave.

Raises :class:`agent.errors.AgentError` when it cannot.
"""


@dataclass(frozen=True)
class Command:
    """One slash command. Names are written without the slash."""

    name: str
    argument: str
    help: str
    handler: Handler
    aliases: tuple[str, ...] = field(default=())


DRY_RUN = "--dry-run"


@dataclass(frozen=True)
class CommandLine:
    """A typed line that is a command: the word after the slash, and the rest."""

    word: str
    argument: str


_COMMAND_LINE = re.compile(r"/([A-Za-z-]*)(?:\s+(.*))?\s*\Z", re.DOTALL)


def parse(text: str) -> CommandLine | None:
    """The command that a typed text is, or ``None`` for a text to send.

    Only a first word of letters and dashes after the slash makes a command:
    ``/etc/hosts is empty`` is a text.
    """
    match = _COMMAND_LINE.match(text.strip())
    if match is None:
        return None
    return CommandLine(match[1].lower(), (match[2] or "").strip())


@dataclass(frozen=True)
class ShellLine:
    """A typed text that is a command for the shell; ``attach``: its output is for the model."""

    command: str
    attach: bool


def parse_shell(text: str) -> ShellLine | None:
    """The shell's command that a typed text is: ``!command``, or ``!!command`` only to see it."""
    match = re.fullmatch(r"(!!?)(?!!)\s*(\S.*)", text.strip(), re.DOTALL)
    return ShellLine(match[2], match[1] == "!") if match else None


async def _help(context: CommandContext, _: str) -> bool:
    rows = []
    for command in COMMANDS:
        names = ", ".join(f"/{name}" for name in (command.name, *command.aliases))
        rows.append([Text(f"{names} {command.argument}".rstrip(), "bold"), Text(command.help)])
    context.show(views.grid(rows))
    context.say(
        "Enter sends; Alt-Enter, Shift-Enter, Ctrl-J or \\ and Enter make a new line; "
        "Ctrl-G opens your editor; Ctrl-R searches what was typed before; Tab completes "
        "commands and @files. !command runs a command and tells the model what it printed; "
        "!!command only shows it. What you send during an answer goes out at its next step; "
        "Esc or Ctrl-C stops it. Ctrl-O shows the last tool result whole, again the one "
        "before; Ctrl-D leaves.",
        "dim",
    )
    return False


async def _compact(context: CommandContext, argument: str) -> bool:
    if argument.split()[:1] == [DRY_RUN]:
        preview = context.session.preview_compaction()
        context.say(describe.preview(preview) if preview else "there is nothing to fold")
    else:
        await context.play(context.session.compact(argument))
    return False


async def _uncompact(context: CommandContext, _: str) -> bool:
    context.say(context.session.uncompact())
    return False


async def _reset(context: CommandContext, _: str) -> bool:
    before = context.session.id
    context.session.reset()
    context.say(f"new session {context.session.id}; the one before: /resume {before}")
    return False


async def _resume(context: CommandContext, session_id: str) -> bool:
    others = [] if session_id else [e for e in context.session.sessions() if not e.current]
    if others:
        session_id = await context.choose(others) or ""
        if not session_id:
            context.say("no other session was chosen; this one goes on", "dim")
            return False
    for warning in context.session.resume(session_id or None):
        context.say(f"warning: {figures.one_line(warning)}", "yellow")
    context.say(f"resumed {context.session.id}")
    context.recap()
    return False


async def _rewind(context: CommandContext, argument: str) -> bool:
    if argument and not argument.isdecimal():
        context.say("say which turn: /rewind [N]; /context shows their numbers", "yellow")
        return False
    words = context.session.rewind(int(argument) if argument else None)
    context.prefill(words)
    context.say("went back; what followed stays in the transcript")
    return False


async def _undo_edit(context: CommandContext, _: str) -> bool:
    context.say(context.session.undo_edit())
    return False


async def _fork(context: CommandContext, _: str) -> bool:
    before = context.session.fork()
    context.say(f"forked {context.session.id}; the one before: /resume {before}")
    return False


async def _sessions(context: CommandContext, _: str) -> bool:
    entries = context.session.sessions()
    if entries:
        context.show(views.sessions_view(entries, time.time()))
    else:
        context.say("no sessions in this folder yet")
    return False


async def _context(context: CommandContext, _: str) -> bool:
    for part in views.context_view(context.session.context()):
        context.show(part)
    return False


async def _messages(context: CommandContext, _: str) -> bool:
    messages = context.session.messages()
    if messages:
        context.show(views.messages_view(messages))
    else:
        context.say("no messages yet")
    return False


async def _system(context: CommandContext, _: str) -> bool:
    context.say(context.session.system.strip() or "no system prompt")
    return False


async def _model(context: CommandContext, model: str) -> bool:
    if model:
        await context.session.set_model(model)
    context.say(f"model {figures.one_line(context.session.model)}")
    return False


async def _cost(context: CommandContext, _: str) -> bool:
    context.show(views.totals_view(context.session.totals()))
    return False


async def _export(context: CommandContext, target: str) -> bool:
    if not target:
        context.say("say where to: /export FILE, its name ending in .md, .html or .json", "yellow")
        return False
    written = context.session.export(_path(target))
    context.say(f"written to {figures.one_line(str(written))}")
    return False


def _path(typed: str) -> Path:
    return Path(typed).expanduser()


async def _copy(context: CommandContext, argument: str) -> bool:
    if not context.answer.strip():
        context.say("there is no answer to copy yet", "yellow")
        return False
    text = context.answer.strip()
    if argument:
        blocks = code_blocks(text)
        number = int(argument) if argument.isdecimal() else 0
        if not 0 < number <= len(blocks):
            there = figures.count(len(blocks), "code block") if blocks else "no code block"
            context.say(f"the last answer has {there}: /copy [N]", "yellow")
            return False
        text = blocks[number - 1]
    context.say(context.copy(text))
    return False


async def _exit(_: CommandContext, __: str) -> bool:
    return True


COMMANDS: tuple[Command, ...] = (
    Command("help", "", "what can be typed here", _help),
    Command(
        "compact",
        f"[{DRY_RUN}] [FOCUS]",
        "fold the conversation now, or say how",
        _compact,
    ),
    Command("uncompact", "", "take the last compaction back", _uncompact),
    Command("context", "", "what fills the model's window", _context, ("tokens",)),
    Command("messages", "", "the messages of the next request, one line each", _messages),
    Command("system", "", "the system prompt", _system),
    Command("model", "[ID]", "the model, or use another one", _model),
    Command("cost", "", "tokens and cost of this session", _cost),
    Command("sessions", "", "the sessions of this folder", _sessions),
    Command("resume", "[ID]", "go on with another session; without ID, choose one", _resume),
    Command("rewind", "[N]", "go back to before turn N, or the newest one", _rewind),
    Command("undo-edit", "", "put back what the last edit or write replaced", _undo_edit),
    Command("fork", "", "go on in a new session that holds all of this one", _fork),
    Command("reset", "", "begin a new session; this one stays on disk", _reset),
    Command("copy", "[N]", "copy the last answer, or its N-th code block", _copy),
    Command("export", "FILE", "write the conversation to a .md, .html or .json file", _export),
    Command("exit", "", "leave; the session can be resumed", _exit, ("quit",)),
)

_BY_WORD = {word: command for command in COMMANDS for word in (command.name, *command.aliases)}


def suggestions(word: str) -> list[str]:
    """Command words that an unknown one may have meant, best first, with their slash."""
    begun = [name for name in _BY_WORD if word and name.startswith(word)]
    similar = difflib.get_close_matches(word, _BY_WORD, n=2, cutoff=0.7)
    return [f"/{name}" for name in dict.fromkeys([*begun, *similar])]


async def run(context: CommandContext, line: CommandLine) -> bool:
    """Do what a command line says; returns whether to leave.

    An unknown command says so and does nothing else.
    Raises :class:`agent.errors.AgentError` when the command cannot be done.
    """
    command = _BY_WORD.get(line.word)
    if command is not None:
        return await command.handler(context, line.argument)
    meant = " or ".join(suggestions(line.word)[:3])
    advice = f"did you mean {meant}?" if meant else "/help lists them"
    context.say(f"unknown command /{line.word}; {advice}", "yellow")
    return False
