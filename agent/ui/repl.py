"""The interactive chat: a prompt, a turn, and the prompt again."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import time
from collections.abc import Coroutine, Sequence
from contextlib import aclosing
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.text import Text

from agent.context.budget import Budget
from agent.events import EventStream, TurnStarted
from agent.tasks import in_daemon
from agent.ui import commands, describe, figures
from agent.ui.approval import TerminalApprover
from agent.ui.gentle import GentleImports
from agent.ui.port import SessionPort
from agent.ui.prompt import Prompt
from agent.ui.prompt_history import PromptHistory, default_history_path
from agent.ui.pump import Foreground, pump
from agent.ui.recap import show_recap
from agent.ui.render import EventPrinter
from agent.ui.sanitize import sanitize
from agent.ui.terminal import quiet_input, signal_handlers

LEAVE_SECONDS = 2.0
"""Two presses of Ctrl-C in an empty box within this time leave."""

LEAVE_HINT = "press Ctrl-D or type /exit to leave"

logger = logging.getLogger(__name__)

Result = TypeVar("Result")


async def run_repl(
    session: SessionPort,
    first_prompt: str | None,
    console: Console | None = None,
    *,
    history_path: Path | None = None,
    notices: Sequence[str] = (),
) -> int:
    """Chat until the person leaves; returns the exit code (128 + n after signal n).

    ``first_prompt`` is sent first. ``notices`` are told before the first prompt.
    The caller opens the session and closes it afterwards. Must run in the main
    thread, on the terminal of ``sys.stdin`` and ``sys.stdout``.
    """
    history = PromptHistory(history_path or default_history_path())
    console = console or Console(highlight=False)
    repl = _Repl(session, console, Prompt(history, Path.cwd()), history)
    with (
        quiet_input(sys.stdin),
        signal_handlers(
            {
                signal.SIGINT: repl.interrupt,
                signal.SIGTERM: lambda: repl.end(signal.SIGTERM),
                signal.SIGHUP: lambda: repl.end(signal.SIGHUP),
            }
        ),
    ):
        return await repl.run(first_prompt, notices)


class _Repl:
    """One run of the chat."""

    def __init__(
        self, session: SessionPort, console: Console, prompt: Prompt, history: PromptHistory
    ) -> None:
        self._session = session
        self._console = console
        self._prompt = prompt
        self._history = history
        self._printer = EventPrinter(console)
        self._foreground = Foreground()
        self._imports = GentleImports()
        self._chat: asyncio.Task[None] | None = None
        self._warming: asyncio.Task[None] | None = None
        self._signal = 0
        self._problems: list[str] = []
        self._interrupted_at = -LEAVE_SECONDS

    async def run(self, first_prompt: str | None, notices: Sequence[str]) -> int:
        """Everything from the first line to the last."""
        asyncio.get_running_loop().set_exception_handler(self._stray_error)
        approver = TerminalApprover(self._printer, self._prompt.answer, self.interrupt)
        self._session.set_approver(approver)
        self._greet(notices)
        self._chat = asyncio.create_task(self._talk(first_prompt))
        try:
            await asyncio.wait({self._chat})
        finally:
            self._session.set_approver(None)
            await _stop(self._chat, self._warming)
        if self._signal != signal.SIGHUP and self._session.saved:
            self._printer.finish()
            line = f"resume with: agent chat --resume {figures.one_line(self._session.id)}"
            self._say(line, "dim")
        if self._signal:
            return 128 + self._signal
        self._chat.result()
        return 0

    def interrupt(self) -> None:
        """Stop what runs in the foreground."""
        self._foreground.interrupt()

    def end(self, number: int) -> None:
        """Leave because of a signal; what runs is stopped and kept."""
        self._signal = number
        if self._chat is not None:
            self._chat.cancel()

    def _stray_error(self, _: asyncio.AbstractEventLoop, details: dict[str, Any]) -> None:
        """Take note of a failure in the background, to be told when the screen is free."""
        error = details.get("exception")
        logger.debug("failure in the background: %s", details.get("message"), exc_info=error)
        if isinstance(error, Exception):
            self._problems.append(describe.error(error))

    def _say(self, text: str, style: str = "") -> None:
        self._console.print(Text(sanitize(text), style), soft_wrap=True)

    def _greet(self, notices: Sequence[str]) -> None:
        """Four lines: model, folder, budget, where help is."""
        self._say(f"model   {figures.one_line(self._session.model)}")
        self._say(f"folder  {figures.one_line(_short(Path.cwd()))}")
        # The size of the conversation is not told here: measuring it takes a while.
        self._say(f"budget  {_budget(self._session.budget)}")
        self._say("/help shows what can be typed", "dim")
        for notice in notices:
            self._say(f"warning: {figures.one_line(notice)}", "yellow")
        if self._session.saved:
            self._say(f"resumed {figures.one_line(self._session.id)}")
        self._recap()
        self._console.print()

    def _recap(self) -> None:
        show_recap(self._printer, self._session.messages())

    async def _talk(self, first_prompt: str | None) -> None:
        if first_prompt and first_prompt.strip():
            self._say(f"> {first_prompt}")
            await self._send(first_prompt)
        while True:
            self._tell_problems()
            try:
                text = await self._prompt.text(self._warm_up_once)
            except EOFError:
                return
            except KeyboardInterrupt:
                if time.monotonic() - self._interrupted_at < LEAVE_SECONDS:
                    return
                self._interrupted_at = time.monotonic()
                self._say(LEAVE_HINT, "dim")
                continue
            if await self._take(text):
                return

    def _tell_problems(self) -> None:
        if self._history.problem:
            self._problems.append(f"warning: {self._history.problem}")
            self._history.problem = ""
        self._problems += [f"warning: {text}" for text in self._session.take_warnings()]
        for problem in dict.fromkeys(self._problems):
            self._say(figures.one_line(problem), "yellow")
        self._problems.clear()

    async def _take(self, text: str) -> bool:
        """Do what was typed; returns whether to leave."""
        line = commands.parse(text)
        if line is None:
            await self._send(text)
            return False
        context = commands.CommandContext(
            session=self._session,
            show=self._console.print,
            play=lambda events: pump(events, self._printer),
            recap=self._recap,
            prefill=self._prompt.prefill,
            choose=self._prompt.choose,
        )
        leave = await self._run(commands.run(context, line))
        if not leave:
            self._console.print()
        return leave is True

    async def _send(self, text: str) -> None:
        self._imports.sent()
        await self._run(pump(self._sent(text), self._printer))
        self._console.print()

    async def _sent(self, text: str) -> EventStream:
        """A turn's events; until its text is saved, it would be back in the input line."""
        self._prompt.prefill(text)
        async with aclosing(self._session.send(text)) as events:
            async for event in events:
                if isinstance(event, TurnStarted):
                    self._prompt.prefill("")
                yield event

    async def _run(self, work: Coroutine[Any, Any, Result]) -> Result | None:
        """Run something that Ctrl-C stops and whose failure is one line."""
        outcome = await self._foreground.run(work)
        if outcome.interrupted:
            self._printer.interrupted()
        elif outcome.error is not None:
            self._printer.finish()
            self._printer.say(describe.error(outcome.error), "red")
        return outcome.result

    def _warm_up_once(self) -> None:
        if self._warming is None:
            self._warming = asyncio.create_task(self._warm_up())

    async def _warm_up(self) -> None:
        """Import what the first answer needs, while the person types."""
        with self._imports:
            self._prompt.on_key(self._imports.typed)
            await self._session.warm_up(self._imports.pause)
            await in_daemon(partial(import_module, "agent.ui.answer"))


async def _stop(*tasks: asyncio.Task[None] | None) -> None:
    """Cancel tasks and wait until they have ended."""
    running = [task for task in tasks if task is not None and not task.done()]
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running)


def _short(path: Path) -> str:
    """A path with the home folder as ``~``."""
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


def _budget(budget: Budget) -> str:
    """The budget in words."""
    source = f" ({figures.one_line(budget.source)})" if budget.source else ""
    window = f"a window of {figures.tokens(budget.window)}{source}"
    return f"{figures.tokens(budget.tokens)} tokens of {window}"
