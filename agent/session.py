"""A session: what a screen may do with a conversation."""

from __future__ import annotations

import asyncio
import platform
import time
from contextlib import aclosing
from pathlib import Path

from agent.calls import ToolRunner
from agent.config import ModelSettings, Settings
from agent.context import ladder
from agent.context.budget import Budget, known_limits, lower_window, make_budget
from agent.context.engine import ContextEngine
from agent.context.prompts import load_prompt
from agent.context.tokens import count_text
from agent.errors import AgentError, ConfigError, ProviderError, SessionError
from agent.events import (
    CompactionFailed,
    CompactionFinished,
    ContextReport,
    EventStream,
    Notice,
    SessionEntry,
    SessionTotals,
    TurnFinished,
    TurnSize,
)
from agent.loop import Turn, run_turn
from agent.messages import Message, Usage, scrub
from agent.providers.base import Limits, Provider
from agent.tools.approval import Approval
from agent.tools.base import Approver, ToolContext
from agent.tools.registry import ToolBox
from agent.transcript.records import InterruptedRecord, ModelRecord, SessionRecord
from agent.transcript.sessions import find_session, list_sessions, new_id
from agent.transcript.store import Transcript

_RESULT_SHARE = 0.25
_MOST_RESULT_CHARS = 30_000
_LEAST_RESULT_CHARS = 1_200
_CHARS_PER_TOKEN = 3

_LIMITS_PAUSE_SECONDS = 60.0
"""How long a server that did not tell a model's limits is not asked again."""


class Session:
    """One conversation at a time, and the way to another. Implements the screen's port.

    ``patient`` sessions wait for a busy server as long as the user lets them; others
    give up after ``settings.retry_limit_seconds``.
    """

    def __init__(
        self,
        settings: Settings,
        provider: Provider,
        tools: ToolBox,
        cwd: Path,
        *,
        patient: bool = True,
    ) -> None:
        self._settings = settings
        self._provider = provider
        self._box = tools
        self._cwd = cwd
        self._patient = patient
        self._approver: Approver | None = None
        self._folder = cwd / settings.transcripts
        self._limits: dict[str, Limits] = {}
        self._learning = asyncio.Lock()
        self._no_limits_before = 0.0
        self._system = _system_prompt(settings, cwd, self._label)
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
        self._approval = Approval(self._settings.approval, approver)

    async def send(self, text: str) -> EventStream:
        """Run one turn. Cancelling the consumer stops it and keeps what was received."""
        turn = Turn(
            engine=self._engine,
            tools=self._tool_runner(),
            max_requests=self._settings.max_requests,
            retry_limit_seconds=None if self._patient else self._settings.retry_limit_seconds,
            prepare=self._learn_limits,
        )
        try:
            async with aclosing(run_turn(turn, scrub(text))) as events:
                async for event in events:
                    if isinstance(event, TurnFinished):
                        for warning in self._transcript.take_warnings():
                            yield Notice(warning, "warning")
                    yield event
        finally:
            self._count(turn.requests, turn.usage)

    async def compact(self, focus: str = "") -> EventStream:
        """Fold the conversation now; ``focus`` says what the summary should dwell on."""
        await self._learn_limits()
        try:
            async with aclosing(ladder.compact(self._engine, focus)) as events:
                async for event in events:
                    if isinstance(event, CompactionFinished):
                        self._count(1, event.report.usage)
                    elif isinstance(event, CompactionFailed):
                        self._count(1, event.usage)
                    yield event
        except AgentError as error:
            yield Notice(str(error), "error")

    def context(self) -> ContextReport:
        """What fills the window. Makes no request."""
        view, meter, engine = self._transcript.view, self._engine.meter, self._engine
        return ContextReport(
            size=engine.size(),
            model=view.model,
            system=meter.system(view),
            tools=meter.tools(view),
            summary=meter.messages(view, view.summary_messages),
            turns=tuple(
                TurnSize(
                    turn=turn.number,
                    tokens=meter.messages(view, turn.messages),
                    first_words=" ".join(turn.messages[0].text.split())[:60],
                    address=self._transcript.address(turn.number, turn.number),
                )
                for turn in view.turns
            ),
            folded_turns=len(view.past),
            folded_address=self._transcript.address(view.past[0].number, view.past[-1].number)
            if view.past
            else "",
            output_reserve=engine.budget.reserve,
            window_source=engine.budget.source,
        )

    def messages(self) -> tuple[Message, ...]:
        """The messages that the next request would carry."""
        return self._transcript.view.messages

    def totals(self) -> SessionTotals:
        """Requests, tokens and cost since this session was started or resumed here."""
        return self._totals

    def sessions(self) -> tuple[SessionEntry, ...]:
        """The sessions of this folder, newest first."""
        return tuple(
            SessionEntry(
                id=info.id,
                modified=info.modified,
                turns=info.turns,
                first_words=info.first_words,
                size=info.size,
                current=info.id == self.id,
            )
            for info in list_sessions(self._folder)
        )

    def reset(self) -> None:
        """Begin a new session with the same model; the old one stays on disk."""
        fresh = self._new_transcript(self.model)
        self._transcript.close()
        self._start(fresh)

    def resume(self, session_id: str | None) -> tuple[str, ...]:
        """Open another session (``None``: the newest) and return warnings.

        :raises SessionError: there is none such, or it is open in another process.
        """
        wanted = find_session(self._folder, session_id)
        if wanted == self.id and self._transcript.saved:
            return ()
        opened = Transcript.open(self._folder, wanted, self._label)
        if not opened.view.session_id:
            opened.close()
            raise SessionError(f"{opened.log_path} holds no session: its first record is missing")
        if opened.view.running:
            opened.append(InterruptedRecord("the program ended"))
        self._transcript.close()
        self._start(opened)
        return tuple(opened.take_warnings())

    async def set_model(self, model: str) -> None:
        """Use another model from the next request on.

        :raises AgentError: the change could not be saved.
        """
        if model == self.model:
            return
        if self._transcript.saved:
            self._transcript.append(ModelRecord(model))
        else:
            self._transcript.close()
            self._start(self._new_transcript(model))
        self._engine.budget = self._budget()
        await self._learn_limits()

    def export(self, target: Path) -> Path:
        """Write the readable transcript to ``target`` and return where it went.

        :raises AgentError: nothing was said yet, the file exists, or it cannot be written.
        """
        if not self._transcript.saved:
            raise SessionError("there is nothing to export yet")
        path = self._cwd / target.expanduser()
        if path.is_dir():
            path /= f"{self.id}.md"
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(self.transcript.read_text(encoding="utf-8"))
        except FileExistsError:
            raise SessionError(f"{path} exists; choose another name") from None
        except OSError as error:
            raise SessionError(f"cannot write {path}: {error.strerror}") from error
        return path

    async def warm_up(self) -> None:
        """Load what the first request needs, in the background. Never raises."""
        await asyncio.to_thread(count_text, "warm")
        await self._learn_limits()

    async def close(self) -> None:
        """Release what the session holds open."""
        self._transcript.close()
        await self._provider.close()

    @property
    def _label(self) -> str:
        """The transcripts folder as the model is told it."""
        folder = self._folder
        inside = folder.is_relative_to(self._cwd)
        return scrub(str(folder.relative_to(self._cwd) if inside else folder))

    def _new_transcript(self, model: str) -> Transcript:
        record = SessionRecord(
            id=new_id(),
            cwd=scrub(str(self._cwd)),
            model=model,
            system=self._system,
            tools=self._box.specs,
        )
        return Transcript.start(self._folder, self._label, record)

    def _start(self, transcript: Transcript) -> None:
        self._transcript = transcript
        # What was allowed "always" and what was spent belong to the session that ends.
        self._approval = Approval(self._settings.approval, self._approver)
        self._totals = SessionTotals(0, Usage(), None)
        self._engine = ContextEngine(
            provider=self._provider,
            transcript=transcript,
            budget=self._budget(),
            keep_recent_turns=self._settings.keep_recent_turns,
            rescue_interval_seconds=self._settings.rescue_interval_seconds,
            max_rescues=self._settings.max_rescues,
        )

    async def _learn_limits(self) -> None:
        """Ask the server for the model's limits, once.

        A failure shows in the request itself; the table serves, and a later turn asks
        again.
        """
        async with self._learning:
            model = self.model
            if model in self._limits or time.monotonic() < self._no_limits_before:
                return
            try:
                limits = await self._provider.limits(model)
            except ProviderError:
                # The request itself will show what is wrong.
                self._no_limits_before = time.monotonic() + _LIMITS_PAUSE_SECONDS
                return
            self._limits[model] = limits or known_limits(model)
            self._engine.budget = self._budget()

    def _budget(self) -> Budget:
        view = self._transcript.view
        limits = self._limits.get(view.model) or known_limits(view.model)
        own = self._settings.models.get(view.model, ModelSettings())
        if own.context_window or own.max_output_tokens:
            limits = Limits(
                own.context_window or limits.window,
                own.max_output_tokens or limits.max_output,
                "the configuration",
            )
        budget = make_budget(
            limits, self._settings.max_input_tokens, self._settings.max_output_tokens
        )
        return lower_window(budget, view.window) if view.window else budget

    def _tool_runner(self) -> ToolRunner:
        return ToolRunner(self._box, self._approval, self._transcript, self._tool_context)

    def _tool_context(self) -> ToolContext:
        chars = round(self._engine.budget.tokens * _RESULT_SHARE * _CHARS_PER_TOKEN)
        return ToolContext(
            cwd=self._cwd,
            transcripts=self._folder,
            max_chars=min(max(chars, _LEAST_RESULT_CHARS), _MOST_RESULT_CHARS),
            timeout_seconds=self._settings.tool_timeout_seconds,
            emit=lambda _: None,
        )

    def _count(self, requests: int, usage: Usage) -> None:
        prices = self._settings.models.get(self.model, ModelSettings())
        cost = self._totals.cost
        if prices.input_price is not None and prices.output_price is not None:
            # Cache prices relative to plain input: reading 0.1, writing 1.25.
            units = (
                usage.input_tokens
                + 0.1 * usage.cache_read_input_tokens
                + 1.25 * usage.cache_creation_input_tokens
            )
            spent = (units * prices.input_price + usage.output_tokens * prices.output_price) / 1e6
            cost = (cost or 0.0) + spent
        self._totals = SessionTotals(
            self._totals.requests + requests, self._totals.usage + usage, cost
        )


def _system_prompt(settings: Settings, cwd: Path, transcripts: str) -> str:
    if settings.no_system:
        return ""
    if settings.system_file is not None:
        try:
            return scrub(settings.system_file.read_text(encoding="utf-8")).strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"cannot read the system prompt {settings.system_file}: {error}"
            ) from error
    return load_prompt(
        "system",
        cwd=scrub(str(cwd)),
        platform=f"{platform.system()} {platform.machine()}",
        transcripts=transcripts,
    )
