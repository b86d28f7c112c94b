"""A session: what a screen may do with a conversation."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path

from agent.config import Settings
from agent.context import ladder
from agent.context.budget import Budget
from agent.context.calibration import CalibrationStore
from agent.context.engine import ContextEngine
from agent.context.summariser import prepare_ahead
from agent.errors import AgentError, SessionError
from agent.events import (
    CompactionPreview,
    ContextReport,
    ContextSize,
    EventStream,
    Notice,
    Recap,
    SessionEntry,
    SessionTotals,
    TurnFinished,
    TurnStarted,
)
from agent.loop import Turn, never, run_turn
from agent.messages import Message, scrub
from agent.models import Models
from agent.providers.base import Provider
from agent.recap import make_recap
from agent.reports import context_report
from agent.spending import Spending
from agent.system_prompt import SystemPrompts
from agent.tasks import in_daemon
from agent.tool_session import ToolSession
from agent.tools.base import Approver
from agent.tools.registry import ToolBox
from agent.tools.sandbox import Sandbox
from agent.transcript.folders import FolderRegistry
from agent.transcript.records import START_FACTOR, ModelRecord, RewindRecord, SessionRecord
from agent.transcript.sessions import find_session, list_sessions, new_id
from agent.transcript.store import Transcript

logger = logging.getLogger(__name__)


class Session:
    """One conversation at a time, and the way to another. Implements the screen's port.

    ``patient`` sessions wait for a busy server as long as the user lets them; others
    give up after ``settings.retry_limit_seconds``. ``calibration`` hands on, from session
    to session, by how much estimates of sizes are off; ``folders`` is told where sessions
    are kept.
    """

    def __init__(
        self,
        settings: Settings,
        provider: Provider,
        tools: ToolBox,
        cwd: Path,
        *,
        patient: bool = True,
        calibration: CalibrationStore | None = None,
        folders: FolderRegistry | None = None,
    ) -> None:
        self._settings = settings
        self._provider = provider
        self._box = tools
        self._cwd = cwd
        self._patient = patient
        self._calibration = calibration
        self._folders = folders
        self._approver: Approver | None = None
        self._folder = cwd / settings.transcripts
        box = Sandbox(cwd, self._folder, required=settings.sandbox is True)
        self._sandbox = None if settings.sandbox is False else box
        self._models = Models(settings, provider)
        self._prompts = SystemPrompts(settings, cwd, self._label, tools)
        self._start(self._new_transcript(settings.model))

    @property
    def id(self) -> str:
        """The session's id, as ``--resume`` takes it."""
        return self._transcript.session_id

    @property
    def model(self) -> str:
        """The model's id."""
        return self._transcript.view.model

    @property
    def approval_mode(self) -> str:
        """``ask``, ``read-only``, ``auto-edit`` or ``yolo``."""
        return self._settings.approval

    @property
    def sandboxed(self) -> bool:
        """Whether commands run in a sandbox, as far as it is known before the first one."""
        return self._sandbox is not None and self._sandbox.expected()

    @property
    def transcript(self) -> Path:
        """The readable Markdown file of this session."""
        return self._transcript.readable_path

    @property
    def system(self) -> str:
        """The system prompt; may be empty."""
        return self._transcript.view.system

    @property
    def saved(self) -> bool:
        """Whether anything was said in this session, so that it can be resumed."""
        return self._transcript.saved

    def set_approver(self, approver: Approver | None) -> None:
        """Name who is asked before a tool acts; without one, the answer is no."""
        self._approver = approver
        self._tools.set_approver(approver)

    async def run_command(self, command: str, emit: Callable[[str], None], *, attach: bool) -> str:
        """Run a command of the user's own; how it ended, in one line.

        ``emit`` is given its output as it comes; with ``attach``, the next message has it, too.

        :raises AgentError: it could not be started.
        """
        return await self._tools.run_command(command, emit, attach=attach)

    async def send(self, text: str, should_yield: Callable[[], bool] = never) -> EventStream:
        """Run one turn. Cancelling the consumer stops it and keeps what was received."""
        if not self._transcript.saved and self._models.unknown(self.model):
            await self._learn_limits()
        turn = Turn(
            engine=self._engine,
            tools=self._tools.runner,
            max_requests=self._settings.max_requests,
            retry_limit_seconds=None if self._patient else self._settings.retry_limit_seconds,
            prepare=self._learn_limits,
            should_yield=should_yield,
        )
        try:
            attached = await self._tools.attachments(text)
            async with aclosing(run_turn(turn, scrub(text), attached)) as events:
                async for event in events:
                    if isinstance(event, TurnStarted):
                        self._tools.sent()
                        if self._folders is not None:
                            self._folders.add(self._folder)
                    if isinstance(event, TurnFinished):
                        if event.error is not None:
                            logger.debug("turn %d failed", event.turn, exc_info=event.error)
                        for warning in self.take_warnings():
                            if warning != str(event.error):
                                yield Notice(warning, "warning")
                    yield event
        finally:
            self._spending.turn(turn)
            if self._calibration is not None and turn.answers:
                self._calibration.save(self.model, self._transcript.view.factor)
        if self._patient and self._settings.background_summary:
            prepare_ahead(self._engine)

    def take_warnings(self) -> list[str]:
        """What could not be read or written, or has changed, and was not told yet; a line each."""
        return [*self._prompts.take_notices(self.system), *self._transcript.take_warnings()]

    async def compact(self, focus: str = "") -> EventStream:
        """Fold the conversation now; ``focus`` says what the summary should dwell on."""
        await self._learn_limits()
        try:
            async with aclosing(ladder.compact(self._engine, focus)) as events:
                async for event in events:
                    yield self._spending.compaction(event)
        except AgentError as error:
            yield Notice(str(error), "error")

    def preview_compaction(self) -> CompactionPreview | None:
        """What :meth:`compact` would do; ``None`` if there is nothing to fold."""
        return ladder.preview(self._engine)

    def uncompact(self) -> str:
        """Take the last compaction back; what was done, or why not, in one line.

        :raises AgentError: it could not be saved.
        """
        return ladder.uncompact(self._engine)

    @property
    def budget(self) -> Budget:
        """What a request may have, as far as it is known."""
        return self._engine.budget

    @property
    def size(self) -> ContextSize:
        """How full the window is. Makes no request."""
        return self._engine.size()

    def context(self) -> ContextReport:
        """What fills the window. Makes no request."""
        return context_report(self._engine)

    def recap(self) -> Recap:
        """The last turns as they looked. Makes no request."""
        return make_recap(self._transcript, self._box)

    def messages(self) -> tuple[Message, ...]:
        """The messages that the next request would carry."""
        return self._transcript.view.messages

    def totals(self) -> SessionTotals:
        """Requests, tokens and cost since this session was started or resumed here."""
        return self._spending.totals()

    def sessions(self) -> tuple[SessionEntry, ...]:
        """The sessions of this folder, newest first."""
        return list_sessions(self._folder, self.id)

    def reset(self) -> None:
        """Begin a new session with the same model; the old one stays on disk.

        :raises ConfigError: the file with the system prompt cannot be read any more.
        """
        fresh = self._new_transcript(self.model)
        self._leave()
        self._start(fresh)

    def resume(self, session_id: str | None, *, fork: bool = False) -> tuple[str, ...]:
        """Open another session (``None``: the newest) and return warnings.

        With ``fork``, a new session that holds all of it is opened instead; that works
        also while another process has it open.

        :raises SessionError: there is none such, or it is open in another process.
        """
        wanted = find_session(self._folder, session_id)
        if fork:
            opened = Transcript.fork(self._folder, wanted, new_id(), self._label)
        elif wanted == self.id and self._transcript.saved:
            return ()
        else:
            opened = Transcript.open(self._folder, wanted, self._label)
        opened.settle()
        self._leave()
        self._start(opened)
        return tuple(self.take_warnings())

    async def set_model(self, model: str) -> None:
        """Use another model from the next request on.

        :raises AgentError: the change could not be saved.
        """
        if model == self.model:
            return
        if self._transcript.saved:
            self._transcript.append(ModelRecord(model, self._factor(model)))
        else:
            self._leave()
            self._start(self._new_transcript(model))
        self._engine.budget = self._budget()
        await self._learn_limits()

    def rewind(self, turn: int | None) -> str:
        """Go back to before a turn (``None``: the newest); the words that it began with.

        Nothing is deleted: what followed stays in the transcript.

        :raises SessionError: there is no such turn in the conversation.
        :raises TranscriptError: it could not be saved.
        """
        view = self._transcript.view
        turns = [facts.number for facts in view.past] + [turn.number for turn in view.turns]
        wanted = turn if turn is not None else max(turns, default=0)
        if wanted not in turns:
            there = f"there are turns {turns[0]}-{turns[-1]}" if turns else "there is none yet"
            raise SessionError(f"there is no turn {wanted} to go back to: {there}")
        typed = self._transcript.typed(wanted)
        self._engine.background.drop()
        self._transcript.append(RewindRecord(wanted))
        self._engine.meter.forget()
        self._engine.budget = self._budget()
        return typed

    def undo_edit(self) -> str:
        """Put back what the last edit or write replaced; what was done, in one line.

        :raises ToolError: the file has changed since, or cannot be written.
        """
        return self._tools.undo_edit()

    def fork(self) -> str:
        """Go on in a new session that holds all of this one; the id of the one that is left.

        :raises SessionError: nothing was said yet.
        :raises TranscriptError: the new session could not be written.
        """
        if not self._transcript.saved:
            raise SessionError("there is nothing to fork yet")
        parent = self.id
        forked = Transcript.fork(self._folder, parent, new_id(), self._label)
        self._leave()
        self._start(forked)
        return parent

    def export(self, target: Path) -> Path:
        """Write the conversation to a new file and return where it went.

        :raises SessionError: nothing was said yet, or as :func:`export_session` says.
        """
        from agent.transcript.export import export_session

        if not self._transcript.saved:
            raise SessionError("there is nothing to export yet")
        path = self._cwd / target.expanduser()
        export_session(self._folder, self.id, path)
        return path

    async def warm_up(self, pause: Callable[[], Awaitable[None]] | None = None) -> None:
        """Load what the first request needs, in the background. Never raises.

        ``pause`` ends when the program may stand still for a moment.
        """
        await asyncio.gather(self._learn_limits(), self._load_vocabulary(pause))

    async def _load_vocabulary(self, pause: Callable[[], Awaitable[None]] | None) -> None:
        if pause is not None:
            await pause()
        # Its making holds the interpreter for a tenth of a second and more.
        await in_daemon(self._engine.size)

    async def close(self) -> None:
        """Release what the session holds open."""
        self._leave()
        await self._provider.close()

    @property
    def _label(self) -> str:
        """The transcripts folder as the model is told it."""
        inside = self._folder.is_relative_to(self._cwd)
        return scrub(str(self._folder.relative_to(self._cwd) if inside else self._folder))

    def _new_transcript(self, model: str) -> Transcript:
        self._form = self._models.form(model)
        system, tools = self._prompts.new(self._form)
        record = SessionRecord(
            id=new_id(),
            cwd=scrub(str(self._cwd)),
            model=model,
            system=system,
            tools=tools,
            factor=self._factor(model),
        )
        return Transcript.start(self._folder, self._label, record)

    def _factor(self, model: str) -> float:
        return (self._calibration and self._calibration.load(model)) or START_FACTOR

    def _leave(self) -> None:
        """Let go of the present session; everything of it is on disk."""
        self._engine.background.drop()
        self._transcript.close()

    def _start(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._engine = ContextEngine(
            provider=self._provider,
            transcript=transcript,
            budget=self._budget(),
            keep_recent_turns=self._settings.keep_recent_turns,
            rescue_interval_seconds=self._settings.rescue_interval_seconds,
            max_rescues=self._settings.max_rescues,
            summary_model=self._settings.summary_model,
            summary_budget=self._summary_budget(),
        )
        # What was allowed "always" and what was spent belong to the session that ends.
        self._spending = Spending(self._models, self._engine)
        self._tools = ToolSession(
            self._box, self._settings, self._cwd, self._engine, self._sandbox, self._approver
        )

    async def _learn_limits(self) -> None:
        """Let the budgets follow what the server says of the models."""
        if await self._models.learn(filter(None, (self.model, self._settings.summary_model))):
            if not self._transcript.saved and self._form != self._models.form(self.model):
                self._leave()
                self._start(self._new_transcript(self.model))
            self._engine.budget = self._budget()
            self._engine.summary_budget = self._summary_budget()

    def _budget(self) -> Budget:
        return self._models.budget(self.model, self._transcript.view.window)

    def _summary_budget(self) -> Budget | None:
        model = self._settings.summary_model
        return self._models.summary_budget(model) if model is not None else None
