"""The input line, on prompt_toolkit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.filters import Always, Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import DummyHistory, History
from prompt_toolkit.input import Input
from prompt_toolkit.input.defaults import create_input
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.output.defaults import create_output
from prompt_toolkit.shortcuts import PromptSession
from prompt_toolkit.utils import is_dumb_terminal

from agent.events import SessionEntry
from agent.ui.ahead import TypedAhead
from agent.ui.completion import PromptCompleter, may_complete
from agent.ui.keys import ESCAPE_SECONDS, prompt_keys
from agent.ui.pastes import Pastes
from agent.ui.picker import pick_session
from agent.ui.status import Status, status_line
from agent.ui.style import PROMPT_STYLE

_MENU_ROWS = 6
_VI_PAUSE_SECONDS = 0.3
"""How long an Esc may be the first of two keys, where it has a meaning of its own."""


class Prompt:
    """Reads what a person types: texts to send, and answers to questions.

    The process's Ctrl-C signal is left alone; keys are read raw. ``ahead`` has what is
    typed meanwhile, without a prompt. ``status`` is what the line under the texts says;
    ``show_more`` prints more at Ctrl-O. ``plain`` shows no colour, no menu and no status
    line.
    """

    def __init__(
        self,
        history: History,
        root: Path,
        terminal_input: Input | None = None,
        terminal_output: Output | None = None,
        status: Callable[[], Status] | None = None,
        show_more: Callable[[], None] | None = None,
        *,
        plain: bool = False,
        vi_mode: bool = False,
    ) -> None:
        self._status = status
        self._input = terminal_input or create_input()
        self._output = terminal_output or create_output()
        self.pastes = Pastes()
        self.ahead = TypedAhead(self._input, self._output, self.pastes)
        # Given no output, prompt_toolkit asks without moving the cursor on a dumb terminal.
        self._drawn_on = None if is_dumb_terminal() else self._output
        self._style = None if plain else PROMPT_STYLE
        self._depth = ColorDepth.DEPTH_1_BIT if plain else None
        keys = prompt_keys(self.pastes)
        if show_more is not None:
            keys.add("c-o")(lambda _: run_in_terminal(show_more))
        self._texts: PromptSession[str] = PromptSession(
            [("class:prompt", "> ")],
            multiline=True,
            prompt_continuation="  ",
            history=history,
            completer=PromptCompleter(root),
            complete_in_thread=True,
            complete_while_typing=Condition(lambda: not plain and self._may_complete()),
            reserve_space_for_menu=_MENU_ROWS,
            key_bindings=keys,
            input_processors=[self.pastes],
            tempfile_suffix=".md",
            vi_mode=vi_mode,
            style=self._style,
            color_depth=self._depth,
            bottom_toolbar=self._status_line if status and not plain else None,
            input=self._input,
            output=self._drawn_on,
        )
        # The status stands right under the text, not at the end of the screen.
        self._texts.layout.current_window.dont_extend_height = Always()
        self._texts.app.ttimeoutlen = ESCAPE_SECONDS
        if vi_mode:
            self._texts.app.timeoutlen = _VI_PAUSE_SECONDS
        self._prefilled = ""

    def on_key(self, heard: Callable[[], None]) -> None:
        """Have ``heard`` called at every key of a text, before it has an effect."""
        self._texts.app.key_processor.before_key_press += lambda _: heard()

    @cached_property
    def _answers(self) -> PromptSession[str]:
        return PromptSession(
            history=DummyHistory(),
            style=self._style,
            color_depth=self._depth,
            input=self._input,
            output=self._drawn_on,
        )

    async def choose(self, sessions: Sequence[SessionEntry]) -> str | None:
        """Let a session be chosen; see :func:`pick_session`."""
        return await pick_session(sessions, self._input, self._output)

    def prefill(self, text: str) -> None:
        """Let the next text begin with this one, to be changed or sent."""
        self._prefilled = text

    def _status_line(self) -> StyleAndTextTuples:
        columns = self._output.get_size().columns
        return status_line(self._status(), columns - 1) if self._status else []

    def redraw(self) -> None:
        """Show what has changed in the status."""
        self._texts.app.invalidate()

    def _may_complete(self) -> bool:
        return may_complete(self._texts.default_buffer.document.text_before_cursor)

    async def text(self, drawn: Callable[[], None]) -> str:
        """Read a text to send, of one or more lines; ``drawn`` is called when it can be typed.

        Raises ``KeyboardInterrupt`` on Ctrl-C in an empty box, ``EOFError`` on Ctrl-D there.
        """

        def after_render(_: object) -> None:
            self._texts.app.after_render -= after_render
            drawn()

        self._texts.app.after_render += after_render
        begun = "\n\n".join(filter(None, (self._prefilled, self.ahead.take_text())))
        self._prefilled = ""
        return await self._texts.prompt_async(
            default=begun, set_exception_handler=False, handle_sigint=False
        )

    async def answer(self, question: str) -> str:
        """Read one line as the answer to a question.

        Keys that were typed before the question was seen do not answer it; they
        are kept for the next text. Raises as :meth:`text` does.
        """
        self.ahead.catch_up()
        await self.ahead.rest()
        self.ahead.catch_up()
        try:
            return await self._answers.prompt_async(
                [("class:question", question)], set_exception_handler=False, handle_sigint=False
            )
        finally:
            self.ahead.catch_up()
