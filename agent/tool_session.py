"""What the tools of one session work with: approval, sandbox, files seen, the user's commands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from agent.attachments import Attachments, attachments_in, run_command
from agent.calls import ToolRunner
from agent.config import Settings
from agent.context.engine import ContextEngine
from agent.tools.approval import Approval
from agent.tools.base import Approver, ToolContext
from agent.tools.changes import undo_last
from agent.tools.history import FileHistory
from agent.tools.registry import ToolBox
from agent.tools.sandbox import Sandbox
from agent.tools.shell import shell_action


class ToolSession:
    """The tools of one session, and what belongs to it alone.

    What was allowed "always", what edits have replaced and what commands have printed end
    with it. ``sandbox`` is ``None`` where none is wanted.
    """

    def __init__(
        self,
        box: ToolBox,
        settings: Settings,
        cwd: Path,
        engine: ContextEngine,
        sandbox: Sandbox | None,
        approver: Approver | None,
    ) -> None:
        self._box = box
        self._settings = settings
        self._cwd = cwd
        self._engine = engine
        self._sandbox = sandbox
        self._files = FileHistory(engine.transcript.output_folder / "undo")
        self._printed: list[str] = []
        self.set_approver(approver)

    def set_approver(self, approver: Approver | None) -> None:
        """Name who is asked before a tool acts; without one, the answer is no."""
        keys = [shell_action(command, self._cwd).key for command in self._settings.allow]
        self._approval = Approval(self._settings.approval, approver, keys)

    @property
    def runner(self) -> ToolRunner:
        """Runs the calls of a turn."""
        return ToolRunner(self._box, self._approval, self._engine.transcript, self._context)

    async def attachments(self, text: str) -> Attachments:
        """What goes with a typed message: files that it mentions, output of commands."""
        return await attachments_in(text, self._context(), self._printed)

    def sent(self) -> None:
        """The output of commands is on disk with a message."""
        self._printed.clear()

    async def run_command(self, command: str, emit: Callable[[str], None], *, attach: bool) -> str:
        """Run a command of the user's own, outside the sandbox; how it ended, in one line.

        :raises AgentError: it could not be started.
        """
        context = replace(self._context(), emit=emit, sandbox=None)
        return await run_command(command, context, self._printed if attach else [])

    def undo_edit(self) -> str:
        """Put back what the last edit or write replaced; what was done, in one line.

        :raises ToolError: the file has changed since, or cannot be written.
        """
        return undo_last(self._files, self._cwd)

    def _context(self) -> ToolContext:
        transcript = self._engine.transcript
        return ToolContext(
            cwd=self._cwd,
            transcripts=transcript.folder,
            max_chars=self._engine.budget.result_chars,
            timeout_seconds=self._settings.tool_timeout_seconds,
            emit=lambda _: None,
            session_id=transcript.session_id,
            sandbox=self._sandbox,
            files=self._files,
        )
