"""What a tool is: a description for the model, an action to approve, a way to run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from agent.errors import ToolError
from agent.messages import MediaBlock, ToolSpec
from agent.tools.history import FileHistory
from agent.tools.sandbox import Sandbox

ActionKind: TypeAlias = Literal["read", "write", "execute"]


@dataclass(frozen=True)
class Action:
    """What a call would do, so that it can be approved.

    ``detail`` is what a person must see to decide, whole: the command, the diff,
    the path. ``key`` identifies the exact same action for "always"; ``inside``
    says whether it stays within the working folder; ``protected`` marks a place
    inside it that is never written unasked, such as ``.git``.
    """

    kind: ActionKind
    title: str
    detail: str
    key: str
    inside: bool
    diff: str = ""
    protected: bool = False


@dataclass(frozen=True)
class ToolOutcome:
    """A tool's full result, before it is capped for the model.

    ``media`` are images or documents that the model shall see. ``capped`` is true
    when the tool has already bounded ``content`` itself and says in it how to page.
    """

    content: str
    is_error: bool = False
    diff: str = ""
    capped: bool = False
    media: tuple[MediaBlock, ...] = ()


@dataclass(frozen=True)
class Decision:
    """A person's answer to an approval question.

    ``reason`` goes to the model when the answer is no; ``always`` allows the
    exact same action for the rest of the session.
    """

    allowed: bool
    always: bool = False
    reason: str = ""


Approver: TypeAlias = Callable[[Action], Awaitable[Decision]]
"""Asks a person about an action. A screen supplies it; without one, the answer is no."""


@dataclass(frozen=True)
class ToolContext:
    """Where a tool works and what bounds it.

    ``max_chars`` bounds what the model is given of one result, in characters;
    ``emit`` sends output to the screen while the tool runs. ``approved`` is the
    action that was allowed, set when the tool is run. ``session_id`` names the session
    that the call belongs to; empty where there is none. Commands run in ``sandbox``;
    ``ask`` asks the person about a further action while the tool runs. ``files`` knows
    what was read and keeps what is replaced.
    """

    cwd: Path
    transcripts: Path
    max_chars: int
    timeout_seconds: float
    emit: Callable[[str], None]
    approved: Action | None = None
    session_id: str = ""
    sandbox: Sandbox | None = None
    ask: Approver | None = None
    files: FileHistory | None = None

    def confirm(self, action: Action) -> None:
        """Check that what is about to be done is what was allowed.

        Raises:
            ToolError: a file, folder or link has changed in between, so that
                ``action`` is another one.
        """
        if self.approved is not None and self.approved != action:
            raise ToolError(
                f"{action.title}: it has changed since this call was allowed, so nothing was "
                "done. Read it again and make a new call."
            )


class Tool(Protocol):
    """One tool. ``plan`` and ``run`` raise :class:`agent.errors.ToolError` on bad input."""

    @property
    def spec(self) -> ToolSpec:
        """What the model is told."""
        ...

    def summary(self, arguments: Mapping[str, object]) -> str:
        """The call in a few words, for one line on the screen. Never raises."""
        ...

    def plan(self, arguments: Mapping[str, object], context: ToolContext) -> Action:
        """What the call would do. Changes nothing."""
        ...

    async def run(self, arguments: Mapping[str, object], context: ToolContext) -> ToolOutcome:
        """Do it. Cancelling it leaves no process behind."""
        ...
