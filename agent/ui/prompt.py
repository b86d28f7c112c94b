"""The input line, on prompt_toolkit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from prompt_toolkit.filters import Condition
from prompt_toolkit.history import DummyHistory, History
from prompt_toolkit.input import Input
from prompt_toolkit.input.defaults import create_input
from prompt_toolkit.output import Output
from prompt_toolkit.output.defaults import create_output
from prompt_toolkit.shortcuts import PromptSession
from prompt_toolkit.styles import Style

from agent.events import SessionEntry
from agent.ui.ahead import TypedAhead
from agent.ui.completion import PromptCompleter, may_complete
from agent.ui.keys import ESCAPE_SECONDS, prompt_keys
from agent.ui.pastes import Pastes
from agent.ui.picker import pick_session

_STYLE = Style.from_dict(
    {"prompt": "bold ansigreen", "question": "bold ansiyellow", "paste": "ansicyan"}
)
_MENU_ROWS = 6
_VI_PAUSE_SECONDS = 0.3
"""How long an Esc may be the first of two keys, where it has a meaning of its own."""


class Prompt:
    """Reads what a person types: texts to send, and answers to questions.

    The process's Ctrl-C signal is left alone; keys are read raw. ``ahead`` has what is
    typed meanwhile, without a prompt.
    """

    def __init__(
        self,
        history: History,
        root: Path,
        terminal_input: Input | None = None,
        terminal_output: Output | None = None,
        *,
        vi_mode: bool = False,
    ) -> None:
        self._input = terminal_input or create_input()
        self._output = terminal_output or create_output()
        self.pastes = Pastes()
        self.ahead = TypedAhead(self._input, self._output, self.pastes)
        self._texts: PromptSession[str] = PromptSession(
            [("class:prompt", "> ")],
            multiline=True,
            prompt_continuation="  ",
            history=history,
            completer=PromptCompleter(root),
            complete_in_thread=True,
            complete_while_typing=Condition(self._may_complete),
            reserve_space_for_menu=_MENU_ROWS,
            key_bindings=prompt_keys(self.pastes),
            input_processors=[self.pastes],
            tempfile_suffix=".md",
            vi_mode=vi_mode,
            style=_STYLE,
            input=self._input,
            output=self._output,
        )
        self._texts.app.ttimeoutlen = ESCAPE_SECONDS
        if vi_mode:
            self._texts.app.timeoutlen = _VI_PAUSE_SECONDS
        self._prefilled = ""
        self._answers: PromptSession[str] = PromptSession(
            history=DummyHistory(), style=_STYLE, input=self._input, output=self._output
        )

    async def choose(self, sessions: Sequence[SessionEntry]) -> str | None:
        """Let a session be chosen; see :func:`pick_session`."""
        return await pick_session(sessions, self._input, self._output)

    def prefill(self, text: str) -> None:
        """Let the next text begin with this one, to be changed or sent."""
        self._prefilled = text

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
