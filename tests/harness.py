"""Parts joined for tests: a turn's machinery on a scripted provider, and small helpers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agent.attachments import Attachments
from agent.calls import ToolRunner
from agent.context.budget import Budget
from agent.context.engine import ContextEngine
from agent.events import Event, EventStream, TurnFinished
from agent.loop import Turn, run_turn
from agent.messages import MediaBlock, Message, ToolSpec
from agent.providers.base import Request
from agent.providers.scripted import Answer, Failure, ScriptedProvider
from agent.tools.approval import Approval
from agent.tools.base import Action, ToolContext, ToolOutcome
from agent.tools.registry import ToolBox
from agent.transcript.outputs import keep_media
from agent.transcript.records import SessionRecord
from agent.transcript.store import Transcript
from agent.wire import message_to_wire
from tests.server.rules import check_history

PICTURE = MediaBlock(
    "image/png",
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg==",
    300,
)
"""One grey pixel, said to cost as much as a photograph."""


@dataclass
class NumberTool:
    """A tool for tests: as many numbered lines and images as it is asked for; -1 lines hang."""

    calls: int = 0
    spec: ToolSpec = field(
        default_factory=lambda: ToolSpec(
            "number",
            "Numbered lines.",
            {
                "type": "object",
                "properties": {"lines": {"type": "integer"}, "images": {"type": "integer"}},
            },
        )
    )

    def summary(self, arguments: Mapping[str, object]) -> str:
        return str(arguments.get("lines"))

    def plan(self, arguments: Mapping[str, object], context: ToolContext) -> Action:
        return Action("read", "number", "number", "number", inside=True)

    async def run(self, arguments: Mapping[str, object], context: ToolContext) -> ToolOutcome:
        self.calls += 1
        context.emit("working\n")
        count = arguments.get("lines")
        lines = count if isinstance(count, int) else 1
        if lines < 0:
            await asyncio.sleep(60)
        images = arguments.get("images")
        media = (PICTURE,) * (images if isinstance(images, int) else 0)
        text = "\n".join(f"line {n} of call {self.calls}" for n in range(lines))
        return ToolOutcome(text, media=media)


def size_of(request: Request) -> int:
    """A prompt's size for scripted servers: a token for each three characters on the wire.

    Images cost what they say.
    """
    media = [item for message in request.messages for item in message.media]
    text = request.system + str(request.tools) + str([message_to_wire(m) for m in request.messages])
    tokens = sum(item.tokens for item in media)
    return (len(text) - sum(len(item.data) for item in media)) // 3 + tokens


@dataclass
class Harness:
    """A session's machinery on a scripted provider, in a folder of its own."""

    transcript: Transcript
    provider: ScriptedProvider
    engine: ContextEngine
    tools: ToolRunner
    tool: NumberTool

    async def prepare(self) -> None:
        """Nothing is to be learnt before the first request."""

    async def turn(self, text: str, **settings: int) -> list[Event]:
        """Run one turn and collect its events."""
        return [event async for event in self.events(text, **settings)]

    def events(self, text: str, *, max_requests: int = 50, images: int = 0) -> EventStream:
        turn = Turn(self.engine, self.tools, max_requests, 5.0, prepare=self.prepare)
        folder = self.transcript.output_folder
        kept = (keep_media(PICTURE, folder, ".transcripts") for _ in range(images))
        return run_turn(turn, text, Attachments(media=tuple(kept)))

    def check_requests(self, window: int | None = None) -> None:
        """See that every request was valid, and none larger than the window."""
        for number, request in enumerate(self.provider.requests):
            wire = [message_to_wire(message) for message in request.messages]
            assert check_history(None, None, wire) is None, (number, wire)
            if window is not None:
                assert size_of(request) <= window, (number, size_of(request))


def make_harness(
    folder: Path,
    script: Iterable[Answer | Failure],
    *,
    budget: int = 100_000,
    window: int | None = None,
    keep: int = 5,
    max_chars: int = 30_000,
    measure: Callable[[Request], int] | None = size_of,
    session_id: str = "s-1",
) -> Harness:
    """The machinery, joined as a session joins it."""
    tool = NumberTool()
    box = ToolBox((tool,))
    record = SessionRecord(session_id, str(folder), "test-model", "Be brief.", box.specs)
    transcript = Transcript.start(folder / ".transcripts", ".transcripts", record)
    provider = ScriptedProvider(script, measure=measure)
    total = window or budget * 2
    engine = ContextEngine(
        provider=provider,
        transcript=transcript,
        budget=Budget(budget, total, 4_000, max(total // 10, 1), "a test"),
        keep_recent_turns=keep,
    )
    context = ToolContext(
        cwd=folder,
        transcripts=folder / ".transcripts",
        max_chars=max_chars,
        timeout_seconds=10.0,
        emit=lambda _: None,
    )
    runner = ToolRunner(box, Approval("ask", None), transcript, lambda: context)
    return Harness(transcript, provider, engine, runner, tool)


def finished(events: list[Event]) -> TurnFinished:
    """The last event of a turn."""
    last = events[-1]
    assert isinstance(last, TurnFinished), last
    return last


def words(messages: Iterable[Message]) -> str:
    """All text of some messages."""
    return "\n".join(message.text for message in messages)
