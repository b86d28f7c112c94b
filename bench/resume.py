"""What a long session costs: to resume it, and each turn afterwards.

``python -m bench.resume`` makes a session of 20,000 records and 100 MB and one of ten
turns that ends with the same words, resumes each with the real program in a terminal, and
compares: the time until a typed character is seen, the memory, the request that a turn
sends, and what turns and a compaction take. Times are wall time; CPU is beside them,
since other programs may be running.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.transcript.log import read_log
from agent.transcript.records import UserRecord
from agent.transcript.view import build
from agent.wire import message_to_wire
from bench.common import Target, print_table, print_targets
from bench.sessions import write_session
from tests.e2e.support import Brain, environment
from tests.server.replies import Reply
from tests.server.server import MessagesServer
from tests.ui.terminal import Chat

LONG, SHORT = 986, 10
"""Turns. Both are as many beyond the last fold."""

RESUMES = 3
TURNS = 8
SESSION = "20260101-000000-aaaa"
QUESTION = "and what now?"
WINDOW, BUDGET = 400_000, 300_000


@dataclass(frozen=True)
class Cost:
    """Wall time and CPU time, in seconds."""

    wall: float
    cpu: float


@dataclass(frozen=True)
class Measured:
    """What one session took. ``memory`` is in MB; ``request`` is from Enter to its arrival."""

    records: int
    megabytes: float
    first: Cost
    prompt: Cost
    memory_at_prompt: float
    memory: float
    request: float
    turn: Cost
    compaction: Cost
    as_built: bool
    commands: Mapping[str, Cost]


def measure(cwd: Path, turns: int) -> Measured:
    """Make a session of so many turns in a folder, and measure it."""
    log = write_session(cwd, SESSION, turns)
    entries = read_log(log).entries
    view = build([*(entry.record for entry in entries), UserRecord(turns + 1, QUESTION)])
    wire = [message_to_wire(message) for message in view.messages]
    records, megabytes = len(entries), log.stat().st_size / 1e6
    script = Brain([Reply("Nothing is left to do.")] * (TURNS + 1))
    with MessagesServer(script=script, window=WINDOW) as server:
        with resumed(server, cwd) as (chat, wall):
            first = Cost(wall, cpu_seconds(chat.pid))
        prompts, peaks = [], []
        for _ in range(RESUMES):
            with resumed(server, cwd) as (chat, wall):
                prompts.append(Cost(wall, cpu_seconds(chat.pid)))
                peaks.append(peak_megabytes(chat.pid))
        commands = {name: run_command(cwd, name) for name in ("sessions", "doctor")}
        with resumed(server, cwd) as (chat, _):
            # The first turn waits for imports that have nothing to do with the session.
            run_turn(server, chat)
            sent = without_cache_marks(server.messages_requests[0].messages)
            requests, costs = zip(*(run_turn(server, chat) for _ in range(TURNS)), strict=True)
            compaction = timed(chat, "/compact", lambda: "📦" in chat.picture)
            memory = peak_megabytes(chat.pid)
    return Measured(
        records=records,
        megabytes=megabytes,
        first=first,
        prompt=median(prompts),
        memory_at_prompt=max(peaks),
        memory=memory,
        request=statistics.median(requests),
        turn=median(costs),
        compaction=compaction,
        as_built=sent == wire,
        commands=commands,
    )


@contextmanager
def resumed(server: MessagesServer, cwd: Path) -> Iterator[tuple[Chat, float]]:
    """The chat, resumed, and after how many seconds a typed character was seen."""
    arguments = ["agent", "chat", "--resume", SESSION, "--max-input-tokens", str(BUDGET)]
    started = time.monotonic()
    chat = Chat(arguments, 100, 30, environment(server, cwd) | {"PYTHONUTF8": "1"}, cwd)
    try:
        chat.wait_for_prompt()
        chat.type("x")
        chat.wait_until(lambda: chat.lines[-1:] == ["> x"], "the typed character")
        wall = time.monotonic() - started
        yield chat, wall
    finally:
        chat.close()


def run_turn(server: MessagesServer, chat: Chat) -> tuple[float, Cost]:
    """One turn: the seconds from Enter to the request, and what it cost to its end."""
    before = len(server.messages_requests)
    entered = time.monotonic()
    cost = timed(chat, QUESTION, lambda: len(server.messages_requests) > before)
    return server.messages_requests[before].started - entered, cost


def timed(chat: Chat, text: str, done: Callable[[], bool]) -> Cost:
    """What it costs to type a line until something is done and the prompt is back."""
    chat.type("\x15" + text)
    chat.wait_until(lambda: chat.lines[-1].endswith(text), "the typed line")
    started, cpu = time.monotonic(), cpu_seconds(chat.pid)
    chat.type("\r")
    chat.wait_until(done, text)
    chat.wait_for_prompt()
    return Cost(time.monotonic() - started, cpu_seconds(chat.pid) - cpu)


def run_command(cwd: Path, name: str) -> Cost:
    """What a command about past sessions costs."""
    started, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "agent", name],
        cwd=cwd,
        env=environment(None, cwd),
        stdout=subprocess.DEVNULL,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(time.monotonic() - started, cpu)


def cpu_seconds(pid: int) -> float:
    """The time that a process's threads have run until now."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9


def peak_megabytes(pid: int) -> float:
    """The most memory that a process had."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1000 for line in lines if line.startswith("VmHWM"))


def without_cache_marks(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, object]]:
    """Messages as they were before the places to cache were marked."""
    return [
        {
            "role": message["role"],
            "content": [
                {name: value for name, value in block.items() if name != "cache_control"}
                for block in message["content"]
            ],
        }
        for message in messages
    ]


def median(costs: Sequence[Cost]) -> Cost:
    """The median of both times."""
    walls, cpus = [cost.wall for cost in costs], [cost.cpu for cost in costs]
    return Cost(statistics.median(walls), statistics.median(cpus))


def main() -> int:
    """Print the table; 1 when a target was missed."""
    with tempfile.TemporaryDirectory() as folder:
        measured = {turns: measure(Path(folder) / str(turns), turns) for turns in (SHORT, LONG)}
    long, short = measured[LONG], measured[SHORT]
    rows = [
        ("records", long.records, short.records),
        ("log, MB", f"{long.megabytes:.1f}", f"{short.megabytes:.1f}"),
        (
            "memory at the prompt, MB",
            f"{long.memory_at_prompt:.0f}",
            f"{short.memory_at_prompt:.0f}",
        ),
        ("memory at the end, MB", f"{long.memory:.0f}", f"{short.memory:.0f}"),
        ("from Enter to the request, s", f"{long.request:.2f}", f"{short.request:.2f}"),
        *(
            (f"{what}, s (CPU)", *(f"{c.wall:.2f} ({c.cpu:.2f})" for c in costs))
            for what, *costs in (
                ("from start to a typed character", long.prompt, short.prompt),
                ("the same, readable file missing", long.first, short.first),
                ("turn", long.turn, short.turn),
                ("/compact", long.compaction, short.compaction),
                *((f"agent {n}", long.commands[n], short.commands[n]) for n in long.commands),
            )
        ),
    ]
    print_table("a session resumed", ("", f"{LONG} turns", f"{SHORT} turns"), rows)
    reached = print_targets(
        [
            Target("seconds to the prompt", long.prompt.wall, 2.0),
            Target("MB at the prompt", long.memory_at_prompt, 300),
            Target("MB at the end", long.memory, 300),
            Target("requests that differ from the records", 2 - long.as_built - short.as_built, 0),
            Target(
                "turn: Enter to request, to a short session's", long.request / short.request, 1.25
            ),
            Target("turn: CPU, to a short session's", long.turn.cpu / short.turn.cpu, 1.25),
        ]
    )
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
