"""What a screen may ask of a session. Screens depend on this and on nothing below it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

from agent.context.budget import Budget
from agent.events import (
    CompactionPreview,
    ContextReport,
    ContextSize,
    EventStream,
    Recap,
    SessionEntry,
    SessionTotals,
)
from agent.messages import Message
from agent.tools.base import Approver


class SessionPort(Protocol):
    """A conversation, as a screen sees it."""

    @property
    def id(self) -> str:
        """The session's id, as ``--resume`` takes it."""
        ...

    @property
    def model(self) -> str:
        """The model's id."""
        ...

    @property
    def sandboxed(self) -> bool:
        """Whether commands run in a sandbox, as far as it is known before the first one."""
        ...

    @property
    def approval_mode(self) -> str:
        """``ask``, ``read-only``, ``auto-edit`` or ``yolo``."""
        ...

    @property
    def transcript(self) -> Path:
        """The readable Markdown file of this session."""
        ...

    @property
    def system(self) -> str:
        """The system prompt; may be empty."""
        ...

    @property
    def saved(self) -> bool:
        """Whether anything was said, so that the session can be resumed."""
        ...

    def set_approver(self, approver: Approver | None) -> None:
        """Name who is asked before a tool acts; without one, the answer is no."""
        ...

    async def run_command(self, command: str, emit: Callable[[str], None], *, attach: bool) -> str:
        """Run a command of the user's own; how it ended, in one line.

        ``emit`` is given its output as it comes; with ``attach``, the next message carries
        it, also when this is cancelled. Raises :class:`agent.errors.AgentError`.
        """
        ...

    def send(self, text: str, should_yield: Callable[[], bool] = ...) -> EventStream:
        """Run one turn. Cancelling the consumer stops it and keeps what was received.

        ``should_yield`` is asked after the tool calls of a message; the turn ends there
        where it says yes.
        """
        ...

    def take_warnings(self) -> list[str]:
        """What could not be written and was not told yet, a line each."""
        ...

    def compact(self, focus: str = "") -> EventStream:
        """Fold the conversation now; ``focus`` says what the summary should dwell on."""
        ...

    def preview_compaction(self) -> CompactionPreview | None:
        """What :meth:`compact` would do; ``None`` if there is nothing to fold."""
        ...

    def uncompact(self) -> str:
        """Take the last compaction back; what was done, or why not, in one line.

        Raises :class:`agent.errors.AgentError`.
        """
        ...

    @property
    def budget(self) -> Budget:
        """What a request may have, as far as it is known."""
        ...

    @property
    def size(self) -> ContextSize:
        """How full the window is. Makes no request."""
        ...

    def context(self) -> ContextReport:
        """What fills the window. Makes no request."""
        ...

    def recap(self) -> Recap:
        """The last turns as they looked, and how full the window is. Makes no request."""
        ...

    def messages(self) -> tuple[Message, ...]:
        """The messages that the next request would carry."""
        ...

    def totals(self) -> SessionTotals:
        """Requests, tokens and cost so far."""
        ...

    def sessions(self) -> tuple[SessionEntry, ...]:
        """The sessions of this folder, newest first."""
        ...

    def reset(self) -> None:
        """Begin a new session; the old one stays on disk."""
        ...

    def resume(self, session_id: str | None) -> tuple[str, ...]:
        """Open another session (``None``: the newest other one) and return warnings.

        Raises :class:`agent.errors.SessionError` when there is none such.
        """
        ...

    async def set_model(self, model: str) -> None:
        """Use another model from the next request on. Raises :class:`agent.errors.AgentError`."""
        ...

    def rewind(self, turn: int | None) -> str:
        """Go back to before a turn (``None``: the newest); the words that it began with.

        Raises :class:`agent.errors.AgentError`.
        """
        ...

    def undo_edit(self) -> str:
        """Put back what the last edit or write replaced; what was done, in one line.

        :raises AgentError: the file has changed since, or cannot be written.
        """
        ...

    def fork(self) -> str:
        """Go on in a new session that holds all of this one; the id of the one that is left.

        Raises :class:`agent.errors.AgentError`.
        """
        ...

    def export(self, target: Path) -> Path:
        """Write the conversation to a new file, and return where it went.

        The suffix (.md, .html, .json) names the form. Raises :class:`agent.errors.AgentError`.
        """
        ...

    async def warm_up(self, pause: Callable[[], Awaitable[None]] | None = None) -> None:
        """Import what the first request needs, in the background. Never raises.

        ``pause`` ends when the program may stand still for a moment.
        """
        ...

    async def close(self) -> None:
        """Release what the session holds open."""
        ...
