"""The whole program over HTTP: sessions and processes against the strict server."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from agent.config import load_settings
from agent.events import CompactionFinished, CompactionReport, Event, EventStream, TurnFinished
from agent.messages import TextBlock, Usage
from agent.providers.anthropic import AnthropicProvider
from agent.providers.watch import Patience
from agent.session import Session
from agent.tools.registry import ToolBox, default_tools
from agent.transcript.records import AssistantEndRecord, BlockRecord, SessionRecord, UserRecord
from agent.transcript.store import Transcript
from tests.server.replies import Reply, Step
from tests.server.server import MessagesServer

SUMMARY_REQUEST = "[Summarise the conversation so far]"


def last_text(body: Mapping[str, Any]) -> str:
    """The text that a request ends with; empty when it ends with something else."""
    content = body["messages"][-1]["content"]
    return str(content[-1].get("text", "")) if isinstance(content, list) else str(content)


def is_summary_request(body: Mapping[str, Any]) -> bool:
    """Whether a request asks for a summary."""
    return last_text(body).startswith(SUMMARY_REQUEST)


class Brain:
    """A script that answers summaries by itself and everything else from a list."""

    def __init__(self, steps: Sequence[Step], summary: Step | None = None) -> None:
        self.steps = list(steps)
        self.summary = summary or Reply("What matters: the port is 8123. " + "Detail. " * 20)
        self.summaries = 0

    def __call__(self, body: Mapping[str, Any], _index: int) -> Step:
        if is_summary_request(body):
            self.summaries += 1
            return self.summary
        return self.steps.pop(0)


@asynccontextmanager
async def open_session(
    server: MessagesServer,
    cwd: Path,
    resume: str | None = None,
    *,
    patient: bool = False,
    **flags: object,
) -> AsyncIterator[Session]:
    """A session on the server, as the command line builds it; ``patient`` as for a REPL."""
    environ = {
        "ANTHROPIC_BASE_URL": server.url,
        "ANTHROPIC_API_KEY": "test-key",
        "XDG_CONFIG_HOME": str(cwd / "no-config"),
    }
    settings = load_settings(flags, environ, None)
    provider = AnthropicProvider(
        api_key=settings.api_key,
        auth_token=settings.auth_token,
        base_url=settings.base_url,
        patience=Patience(settings.no_bytes_seconds, settings.no_content_seconds),
    )
    session = Session(settings, provider, ToolBox(default_tools()), cwd, patient=patient)
    try:
        if resume is not None:
            session.resume(resume)
        yield session
    finally:
        await session.close()


async def collect(events: EventStream) -> list[Event]:
    """All events of a stream."""
    return [event async for event in events]


async def send(session: Session, text: str) -> TurnFinished:
    """Run a turn; its last event."""
    last = (await collect(session.send(text)))[-1]
    assert isinstance(last, TurnFinished)
    return last


def compactions(events: Sequence[Event]) -> list[CompactionReport]:
    """What was folded."""
    return [event.report for event in events if isinstance(event, CompactionFinished)]


def environment(server: MessagesServer | None, home: Path) -> dict[str, str]:
    """A clean environment for a process: no configuration, no key but the test's."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    extra = {"HOME": str(home), "TERM": "xterm-256color", "PYTHONWARNINGS": "error"}
    if server is not None:
        extra |= {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "test-key"}
    return kept | extra


def run_agent(
    arguments: Sequence[str],
    cwd: Path,
    server: MessagesServer | None,
    *,
    stdin: str | None = None,
    **extra: str,
) -> subprocess.CompletedProcess[str]:
    """Run the command line to its end."""
    return subprocess.run(
        [sys.executable, "-m", "agent", *arguments],
        cwd=cwd,
        env=environment(server, cwd) | extra,
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def start_agent(
    arguments: Sequence[str], cwd: Path, server: MessagesServer
) -> subprocess.Popen[bytes]:
    """Start the command line, unheard, to be stopped in the middle."""
    return subprocess.Popen(
        [sys.executable, "-m", "agent", *arguments],
        cwd=cwd,
        env=environment(server, cwd),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def wait_for_file(path: Path, seconds: float = 20.0) -> None:
    """Wait until a file is there."""
    deadline = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < deadline, f"no {path} within {seconds} s"
        time.sleep(0.02)


def save_turn(transcript: Transcript, text: str, answer: str = "Noted.") -> None:
    """A turn, as a session saves it."""
    transcript.append(UserRecord(transcript.next_turn, text))
    transcript.append(BlockRecord(TextBlock(answer)))
    usage = Usage(1_200, 7)
    transcript.append(AssistantEndRecord("end_turn", "m", usage, prompt_tokens=1_200))


def three_sessions(folder: Path) -> list[str]:
    """Their ids, newest first; the newest has two turns."""
    ids = [f"20260101-00000{number}-{number}abc" for number in range(3)]
    for number, session_id in enumerate(ids):
        record = SessionRecord(session_id, str(folder), "claude-sonnet-5-5", "Be brief.", ())
        transcript = Transcript.start(folder / ".transcripts", ".transcripts", record)
        save_turn(transcript, f"question {number}")
        if number == 2:
            save_turn(transcript, "one more")
        transcript.close()
    return ids[::-1]
