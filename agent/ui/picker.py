"""Choosing a session from a list, on prompt_toolkit, in the lines below the cursor."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from prompt_toolkit.application import Application, get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import BufferControl, FormattedTextControl, HSplit, Layout, Window
from prompt_toolkit.layout.processors import BeforeInput, Processor
from prompt_toolkit.output import Output
from prompt_toolkit.shortcuts import PromptSession
from prompt_toolkit.utils import is_dumb_terminal

from agent.events import SessionEntry
from agent.ui import figures
from agent.ui.keys import ESCAPE_SECONDS
from agent.ui.views import session_lines

_HINT = "type to filter · ↑ ↓ move · Enter resumes · Esc leaves"
_MOST_ROWS = 12
_MOST_NUMBERED = 20


async def pick_session(
    sessions: Sequence[SessionEntry],
    terminal_input: Input | None = None,
    terminal_output: Output | None = None,
) -> str | None:
    """The id of the session that a person chooses; ``None`` when none is wanted.

    ``sessions`` are one or more, newest first. Where there is nothing to choose, or no
    terminal to ask on, it is the first. Whatever was drawn is gone when this returns.
    """
    if len(sessions) == 1 or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return sessions[0].id
    if is_dumb_terminal():
        return await _ask_number(sessions[:_MOST_NUMBERED], terminal_input, terminal_output)
    picker = _Picker(sessions)
    application: Application[str | None] = Application(
        layout=Layout(picker.layout()),
        key_bindings=picker.keys(),
        erase_when_done=True,
        input=terminal_input,
        output=terminal_output,
    )
    application.ttimeoutlen = ESCAPE_SECONDS
    return await application.run_async(set_exception_handler=False, handle_sigint=False)


async def _ask_number(
    sessions: Sequence[SessionEntry], terminal_input: Input | None, terminal_output: Output | None
) -> str | None:
    """The choice on a terminal that cannot redraw a line."""
    lines = session_lines(sessions, time.time())
    listed = "".join(f"{number:3} {line.plain}\n" for number, line in enumerate(lines, 1))
    prompt: PromptSession[str] = PromptSession(input=terminal_input, output=terminal_output)
    question = f"{listed}which one? a number, or Enter for none: "
    while True:
        try:
            answer = await prompt.prompt_async(
                question, set_exception_handler=False, handle_sigint=False
            )
        except (EOFError, KeyboardInterrupt):
            return None
        if not answer.strip():
            return None
        if answer.strip().isdecimal() and 0 < int(answer) <= len(sessions):
            return sessions[int(answer) - 1].id
        question = f"a number from 1 to {len(sessions)}, or Enter for none: "


class _Picker:
    """The list, what is typed to filter it, and the line that is marked."""

    def __init__(self, sessions: Sequence[SessionEntry]) -> None:
        lines = session_lines(sessions, time.time())
        self._rows = [(entry, line.plain) for entry, line in zip(sessions, lines, strict=True)]
        self._found = self._rows
        self._marked = 0
        self._filter = Buffer(multiline=False, on_text_changed=self._narrow)

    def layout(self) -> HSplit:
        """The filter, the list, and what can be pressed."""
        before: list[Processor] = [BeforeInput("resume: ", "bold ansigreen")]
        return HSplit(
            [
                Window(BufferControl(self._filter, input_processors=before), height=1),
                Window(FormattedTextControl(self._lines), height=self._height),
                Window(FormattedTextControl(_HINT, "dim"), height=1),
            ]
        )

    def keys(self) -> KeyBindings:
        """Arrows and pages move, Enter chooses, Esc, Ctrl-C and Ctrl-D leave."""
        keys = KeyBindings()
        page = _MOST_ROWS - 1
        for names, step in (
            (("up", "c-p", "s-tab"), -1),
            (("down", "c-n", "tab"), 1),
            (("pageup",), -page),
            (("pagedown",), page),
        ):
            for name in names:
                keys.add(name)(lambda _, step=step: self._move(step))

        @keys.add("enter")
        def _choose(event: KeyPressEvent) -> None:
            if self._found:
                event.app.exit(result=self._found[self._marked][0].id)

        @keys.add("escape", eager=True)
        @keys.add("c-c")
        @keys.add("c-d")
        def _leave(event: KeyPressEvent) -> None:
            event.app.exit(result=None)

        @keys.add(Keys.BracketedPaste)
        def _paste(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text(figures.one_line(event.data))

        return keys

    def _narrow(self, _: Buffer) -> None:
        words = self._filter.text.casefold().split()
        self._found = [
            (entry, line)
            for entry, line in self._rows
            if all(word in f"{entry.id} {entry.first_words}".casefold() for word in words)
        ]
        self._marked = 0

    def _move(self, step: int) -> None:
        self._marked = min(max(self._marked + step, 0), max(len(self._found) - 1, 0))

    def _height(self) -> int:
        room = get_app().output.get_size().rows - 3
        return max(min(_MOST_ROWS, len(self._rows), room), 1)

    def _lines(self) -> StyleAndTextTuples:
        if not self._found:
            return [("", "  no session has these words")]
        height = self._height()
        top = max(min(self._marked - height // 2, len(self._found) - height), 0)
        shown = list(enumerate(self._found))[top : top + height]
        return [
            ("reverse" if number == self._marked else "", f"{line}\n")
            for number, (_, line) in shown
        ]
