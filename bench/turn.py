"""A turn's own time: from Enter to the request, from the last byte to the next prompt.

``python -m bench.turn`` resumes sessions of 18 and of 2,000 messages in a terminal, and
sends the same messages with a bare chat on the SDK. Both are measured turn about against
the strict server; their difference is what this program adds. Then ``-p`` is timed from
the last byte of the answer to its end, and the memory is read after 200 turns.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from agent.messages import TextBlock, Usage
from agent.transcript.records import (
    AssistantEndRecord,
    BlockRecord,
    Entry,
    Record,
    SessionRecord,
    UserRecord,
    encode,
)
from agent.transcript.view import build
from agent.wire import message_to_wire
from bench.common import Target, print_table, print_targets, quantile
from bench.terminal import ROOT, Terminal
from tests.e2e.support import environment
from tests.server.replies import Reply
from tests.server.server import MessagesServer

LENGTHS = {"turn 10": 18, "2,000 messages": 2_000}
TURNS = 25
MEMORY_TURNS = 200
PRINTS = 12
MODEL = "claude-sonnet-5-5"
SESSION = "20260101-000000-aaaa"
DONE = "Zzz."


def records(messages: int) -> Iterator[Record]:
    """A session of so many messages."""
    yield SessionRecord(SESSION, "/", MODEL, "Be brief.", ())
    for turn in range(1, messages // 2 + 1):
        yield UserRecord(turn, f"question {turn} " + "word " * 40)
        yield BlockRecord(TextBlock(f"answer {turn} " + "because " * 60))
        yield AssistantEndRecord("end_turn", MODEL, Usage(turn * 110, 70), 1.0, turn * 110)


def write_history(cwd: Path, messages: int) -> None:
    """A session to resume, and the same messages for the bare chat."""
    folder = cwd / ".transcripts"
    folder.mkdir(mode=0o700, parents=True)
    lines = [encode(Entry(n, 0.0, r)) for n, r in enumerate(records(messages), 1)]
    (folder / f"{SESSION}.jsonl").write_bytes(b"".join(lines))
    wire = [message_to_wire(message) for message in build(records(messages)).messages]
    (cwd / "messages.json").write_text(json.dumps(wire))


class Measured:
    """Milliseconds of turns: to the request, from the answer to the prompt, of the CPU."""

    def __init__(self, terminal: Terminal, server: MessagesServer) -> None:
        self.request: list[float] = []
        self.prompt: list[float] = []
        self.cpu: list[float] = []
        self._terminal = terminal
        self._server = server

    def turn(self) -> None:
        """One more turn."""
        before = len(self._server.messages_requests)
        self._terminal.type("and what now")
        self._terminal.wait_for("and what now")
        self._terminal.read(0.1)
        self._terminal.forget()
        cpu, entered = self._terminal.cpu_seconds(), time.monotonic()
        self._terminal.type("\r")
        self._terminal.wait_for(DONE)
        answered = time.monotonic()
        self._terminal.wait_for(DONE, ">")
        self.prompt.append((time.monotonic() - answered) * 1_000)
        self._terminal.read(0.1)
        self._terminal.forget()
        self.cpu.append((self._terminal.cpu_seconds() - cpu) * 1_000)
        arrived = self._server.messages_requests[before].started
        self.request.append((arrived - entered) * 1_000)


def measure_turns(server: MessagesServer, folder: Path) -> dict[str, Measured]:
    """Turns of this program and of the bare chat, turn about."""
    found: dict[str, Measured] = {}
    for name, messages in LENGTHS.items():
        cwd = folder / str(messages)
        write_history(cwd, messages)
        env = environment(server, cwd) | {"PYTHONPATH": str(ROOT)}
        chat = ("agent", "chat", "--resume", SESSION, "--max-input-tokens", "900000")
        bare = ("bench.floors.sdk_app", str(cwd / "messages.json"))
        with ExitStack() as stack:
            for what, arguments in ((name, chat), (f"{name}, bare", bare)):
                terminal = stack.enter_context(closing(Terminal(arguments, env, cwd)))
                terminal.wait_for(">")
                terminal.read(6.0)
                found[what] = Measured(terminal, server)
                found[what].turn()
                found[what] = Measured(terminal, server)
            for _ in range(TURNS):
                found[name].turn()
                found[f"{name}, bare"].turn()
    return found


def print_once(env: Mapping[str, str], cwd: Path) -> float:
    """Milliseconds from the answer's last byte to the end of ``-p``."""
    with subprocess.Popen(
        [sys.executable, "-m", "agent", "chat", "-p", "hello"],
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        while DONE.encode() not in process.stdout.readline():
            assert process.poll() is None
        answered = time.monotonic()
        process.wait()
        return (time.monotonic() - answered) * 1_000


def memory(server: MessagesServer, cwd: Path) -> tuple[float, float]:
    """MB (RSS) of a chat when everything is imported, and after 200 turns."""
    cwd.mkdir()
    env = environment(server, cwd) | {"PYTHONPATH": str(ROOT)}
    with closing(Terminal(("agent", "chat"), env, cwd)) as terminal:
        terminal.wait_for(">")
        first = 0.0
        for turn in range(MEMORY_TURNS):
            terminal.forget()
            terminal.type(f"turn {turn}\r")
            terminal.wait_for(DONE, ">")
            first = first or terminal.megabytes()
        return first, terminal.megabytes()


@contextmanager
def serving() -> Iterator[tuple[MessagesServer, Path]]:
    """A server that gives short answers, and a folder."""
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        MessagesServer(script=lambda _body, _index: Reply(DONE), window=1_000_000) as server,
    ):
        yield server, Path(folder)


def main() -> int:
    """Measure, print, and say whether the figures are reached."""
    with serving() as (server, folder):
        turns = measure_turns(server, folder)
        (folder / "print").mkdir()
        env = environment(server, folder / "print") | {"PYTHONPATH": str(ROOT)}
        ends = [print_once(env, folder / "print") for _ in range(PRINTS)]
        first, last = memory(server, folder / "memory")
    columns = [(m.request, m.prompt, m.cpu) for m in turns.values()]
    rows = [
        (name, *(f"{quantile(values, share):.1f}" for values in column for share in (0.5, 0.95)))
        for name, column in zip(turns, columns, strict=True)
    ]
    rows.append(("-p, from the answer to the end", "", "", *_middle(ends), "", ""))
    heads = ("request p50", "p95", "prompt p50", "p95", "CPU p50", "p95")
    print_table(f"{TURNS} turns: from Enter, from the answer (ms)", ("", *heads), rows)
    print(f"\nmemory: {first:.0f} MB after a turn, {last:.0f} MB after {MEMORY_TURNS}")

    def added(name: str) -> float:
        own, bare = turns[name].request, turns[f"{name}, bare"].request
        return quantile(own, 0.5) - quantile(bare, 0.5)

    reached = print_targets(
        [
            Target("turn 10: more than the bare chat, ms", added("turn 10"), 15),
            Target("2,000 messages: the same", added("2,000 messages"), 50),
            Target("-p: from the answer to the end, p50 ms", quantile(ends, 0.5), 50),
            Target(f"MB after {MEMORY_TURNS} turns", last, 100),
        ]
    )
    return 0 if reached else 1


def _middle(values: list[float]) -> tuple[str, str]:
    return f"{quantile(values, 0.5):.1f}", f"{quantile(values, 0.95):.1f}"


if __name__ == "__main__":
    sys.exit(main())
