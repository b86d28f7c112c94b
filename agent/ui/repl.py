"""The interactive chat: a prompt, a turn, and the prompt again."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import time
from collections.abc import Coroutine, Sequence
from contextlib import AbstractContextManager, aclosing
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.text import Text

from agent.context.budget import Budget
from agent.events import ContextSize, EventStream, TurnFinished, TurnStarted
from agent.tasks import in_daemon
from agent.ui import commands, describe, figures
from agent.ui.approval import TerminalApprover
from agent.ui.clipboard import copy
from agent.ui.gentle import GentleImports
from agent.ui.live import is_live, terminal_console
from agent.ui.port import SessionPort
from agent.ui.prompt import Prompt
from agent.ui.prompt_history import PromptHistory, default_history_path
from agent.ui.pump import Foreground, pump, ticking
from agent.ui.recap import show_recap
from agent.ui.render import EventPrinter
from agent.ui.sanitize import sanitize
from agent.ui.status import Status
from agent.ui.terminal import quiet_input, signal_handlers

LEAVE_SECONDS = 2.0
"""Two presses of Ctrl-C in an empty box within this time leave."""

LONG_TURN_SECONDS = 20.0
"""The bell rings at the end of a longer turn."""

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
    plain: bool = False,
    show_thinking: bool = True,
    vi_mode: bool = False,
    bell: bool = True,
) -> int:
    """Chat until the person leaves; returns the exit code (128 + n after signal n).

    ``first_prompt`` is sent first. ``notices`` are told before the first prompt; ``bell``
    rings when a long turn has ended. ``plain`` shows text only: no colour, nothing that
    moves, no status line.
    The caller opens the session and closes it afterwards. Must run in the main
    thread, on the terminal of ``sys.stdin`` and ``sys.stdout``.
    """
    history = PromptHistory(history_path or default_history_path())
    console = console or terminal_console(plain=plain)
    printer = EventPrinter(console, show_thinking=show_thinking)
    repl = _Repl(session, printer, history, vi_mode=vi_mode, bell=bell)
    with (
        quiet_input(sys.stdin),
        signal_handlers(
            {
                signal.SIGINT: repl.interrupt,
                signal.SIGTERM: lambda: repl.end(signal.SIGTERM),
                signal.SIGHUP: lambda: repl.end(signal.SIGHUP),
                signal.SIGQUIT: lambda: repl.end(signal.SIGQUIT),
            }
        ),
    ):
        return await repl.run(first_prompt, notices)


class _Repl:
    """One run of the chat."""

    def __init__(
        self,
        session: SessionPort,
        printer: EventPrinter,
        history: PromptHistory,
        *,
        vi_mode: bool,
        bell: bool,
    ) -> None:
        self._session = session
        self._console = printer.console
        self._status = _status(session, None)
        self._prompt = Prompt(
            history,
            Path.cwd(),
            status=lambda: self._status,
            show_more=lambda: self._printer.show_whole(str(self._session.transcript)),
            plain=not is_live(self._console),
            vi_mode=vi_mode,
        )
        self._ahead = self._prompt.ahead
        self._history = history
        self._bell = bell
        self._printer = printer
        self._printer.below = self._ahead.lines
        self._foreground = Foreground()
        self._imports = GentleImports()
        self._chat: asyncio.Task[None] | None = None
        self._warming: asyncio.Task[None] | None = None
        self._signal = 0
        self._problems: list[str] = []
        self._interrupted_at = -LEAVE_SECONDS
        # Measuring takes a while before the first time.
        self._measured = False

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
        show_recap(self._printer, self._session.recap(), self._session.budget)

    async def _talk(self, first_prompt: str | None) -> None:
        if first_prompt and first_prompt.strip():
            self._say(f"> {first_prompt}")
            await self._send(first_prompt)
        while True:
            self._tell_problems()
            self._status = _status(self._session, self._session.size if self._measured else None)
            try:
                text = await self._next_text()
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

    async def _next_text(self) -> str:
        text = self._ahead.next()
        if text is None:
            return await self._prompt.text(self._warm_up_once)
        self._say(f"> {self._prompt.pastes.shown(text)}".replace("\n", "\n  "))
        text = self._prompt.pastes.whole(text)
        self._history.append_string(text)
        return text

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
        if (shell := commands.parse_shell(text)) is not None:
            await self._run(self._run_command(shell))
            self._console.print()
            return False
        line = commands.parse(text)
        if line is None:
            await self._send(text)
            return False
        context = commands.CommandContext(
            session=self._session,
            show=self._console.print,
            play=self._play,
            recap=self._recap,
            prefill=self._prompt.prefill,
            choose=self._prompt.choose,
            copy=lambda text: copy(text, sys.stdout),
            answer=self._printer.last_answer,
        )
        leave = await self._run(commands.run(context, line))
        if not leave:
            self._console.print()
        return leave is True

    async def _send(self, text: str) -> None:
        self._imports.sent()
        self._measured = True
        await self._run(self._play(self._sent(text)))
        self._console.print()

    async def _play(self, events: EventStream) -> None:
        with self._typing_ahead():
            await pump(events, self._printer)

    async def _run_command(self, line: commands.ShellLine) -> None:
        with self._typing_ahead(), ticking(self._printer):
            self._printer.output("")
            try:
                ending = await self._session.run_command(
                    line.command, self._printer.output, attach=line.attach
                )
            finally:
                self._printer.output("", final=True)
        self._printer.finish()
        told = " · goes with your next message" if line.attach else ""
        self._say(f"{ending}{told}", "dim")

    def _typing_ahead(self) -> AbstractContextManager[None]:
        return self._ahead.listening(self._printer.tick, self.interrupt, paste=self._printer.live)

    async def _sent(self, text: str) -> EventStream:
        """A turn's events; until its text is saved, it would be back in the input line."""
        self._prompt.prefill(text)
        async with aclosing(self._session.send(text, self._ahead.wants_a_turn)) as events:
            async for event in events:
                if isinstance(event, TurnStarted):
                    self._prompt.prefill("")
                elif isinstance(event, TurnFinished):
                    self._turn_ended(event)
                yield event

    def _turn_ended(self, event: TurnFinished) -> None:
        if event.error is not None:
            # What waits may have been meant for another outcome.
            self._ahead.hold()
        if self._bell and event.seconds > LONG_TURN_SECONDS:
            self._console.bell()

    async def _run(self, work: Coroutine[Any, Any, Result]) -> Result | None:
        """Run something that Ctrl-C stops and whose failure is one line."""
        outcome = await self._foreground.run(work)
        if outcome.interrupted or outcome.error is not None:
            self._ahead.hold()
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
            self._measured = True
            self._status = _status(self._session, self._session.size)
            self._prompt.redraw()
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
    return str(Path("~") / path.relative_to(home)) if path.is_relative_to(home) else str(path)


def _status(session: SessionPort, size: ContextSize | None) -> Status:
    return Status(
        model=session.model,
        budget=session.budget.tokens,
        context=size,
        cost=session.totals().cost,
        approval_mode=session.approval_mode,
        sandboxed=session.sandboxed,
        folder=_short(Path.cwd()),
    )


def _budget(budget: Budget) -> str:
    """The budget in words."""
    source = f" ({figures.one_line(budget.source)})" if budget.source else ""
    window = f"a window of {figures.tokens(budget.window)}{source}"
    return f"{figures.tokens(budget.tokens)} tokens of {window}"
