"""How soon it is there: the version, the prompt, and keys while the SDK is imported.

``python -m bench.start`` runs the program and, turn about, the bare programs of
:mod:`bench.floors`. Wall times depend on what else the machine does, so what counts is
the ratio to the floor; CPU time (user and system) stands beside them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from bench.common import Target, print_table, print_targets, quantile
from bench.terminal import ROOT, Terminal
from tests.e2e.support import environment
from tests.server.replies import Reply
from tests.server.server import MessagesServer

RUNS = 9
KEYS = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghjkmnopqrstuvwxyz023456789"
KEY_SECONDS = 0.08
FLOOR_COMMAND = ("bench.floors.typer_app", "--version")
FLOOR_PROMPT = ("bench.floors.prompt_app",)
FLOOR_BEHIND = ("bench.floors.prompt_app", "--sdk", "thread")
FLOOR_SDK = ("bench.floors.sdk_app",)
CHAT = ("agent", "chat")


@dataclass
class Times:
    """Milliseconds of runs, on the clock and of the CPU."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def add(self, wall: float, cpu: float) -> None:
        """One more run, in seconds."""
        self.wall.append(wall * 1_000)
        self.cpu.append(cpu * 1_000)


def run_command(arguments: Sequence[str], env: dict[str, str]) -> tuple[float, float]:
    """Seconds until ``python -m ...`` has ended: on the clock, and of the CPU."""
    started = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", *arguments], cwd=ROOT, env=env, stdout=subprocess.DEVNULL
    )
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    return time.monotonic() - started, usage.ru_utime + usage.ru_stime


def prompt_ready(arguments: Sequence[str], env: dict[str, str], cwd: Path) -> tuple[float, float]:
    """Seconds until a typed character is seen: on the clock, and of the CPU."""
    with closing(Terminal(arguments, env, cwd)) as terminal:
        terminal.wait_for(">")
        terminal.forget()
        terminal.type("Q")
        return terminal.wait_for("Q") - terminal.started, terminal.cpu_seconds()


def echoes(arguments: Sequence[str], env: dict[str, str], cwd: Path) -> list[float]:
    """Milliseconds until each of some keys is seen, typed from the first prompt on."""
    found = []
    with closing(Terminal(arguments, env, cwd)) as terminal:
        terminal.wait_for(">")
        for key in KEYS:
            terminal.forget()
            typed = time.monotonic()
            terminal.type(key)
            found.append((terminal.wait_for(key) - typed) * 1_000)
            terminal.read(KEY_SECONDS)
    return found


def first_line(
    arguments: Sequence[str], env: dict[str, str], cwd: Path, server: MessagesServer
) -> tuple[float, float]:
    """Seconds from start to the request of a line sent at the first prompt; CPU to its answer."""
    before = len(server.messages_requests)
    with closing(Terminal(arguments, env, cwd)) as terminal:
        terminal.wait_for(">")
        terminal.type("hello\r")
        terminal.wait_for("At once.")
        started = server.messages_requests[before].started
        return started - terminal.started, terminal.cpu_seconds()


def measure(cwd: Path) -> tuple[dict[str, Times], dict[str, list[float]]]:
    """All runs, turn about."""
    times: dict[str, Times] = {}
    keys: dict[str, list[float]] = {}

    def add(name: str, run: tuple[float, float]) -> None:
        times.setdefault(name, Times()).add(*run)

    with MessagesServer(script=lambda _body, _index: Reply("At once.")) as server:
        env = environment(server, cwd) | {"PYTHONPATH": str(ROOT)}
        for _ in range(RUNS):
            add("bare Typer program", run_command(FLOOR_COMMAND, env))
            add("agent --version", run_command(("agent", "--version"), env))
            add("bare Typer program, --help", run_command((FLOOR_COMMAND[0], "--help"), env))
            add("agent --help", run_command(("agent", "--help"), env))
            add("bare prompt", prompt_ready(FLOOR_PROMPT, env, cwd))
            add("prompt", prompt_ready(CHAT, env, cwd))
            add("bare, first line's request", first_line(FLOOR_SDK, env, cwd, server))
            add("first line's request", first_line(CHAT, env, cwd, server))
        for _ in range(RUNS // 3):
            keys.setdefault("bare prompt", []).extend(echoes(FLOOR_PROMPT, env, cwd))
            keys.setdefault("bare, SDK in a thread", []).extend(echoes(FLOOR_BEHIND, env, cwd))
            keys.setdefault("agent", []).extend(echoes(CHAT, env, cwd))
    return times, keys


def main() -> int:
    """Measure, print, and say whether the figures are reached."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        times, keys = measure(Path(folder))
    rows = [
        (name, *(f"{quantile(values, q):.0f}" for values in (t.wall, t.cpu) for q in (0.5, 0.95)))
        for name, t in times.items()
    ]
    print_table(f"start, {RUNS} runs (ms)", ("", "p50", "p95", "CPU p50", "CPU p95"), rows)
    print_table(
        "a key typed from the prompt on, until it is seen (ms)",
        ("", "p50", "p95", "most"),
        [(n, *(f"{quantile(v, q):.1f}" for q in (0.5, 0.95, 1))) for n, v in keys.items()],
    )

    def ratio(name: str, floor: str) -> float:
        return quantile(times[name].wall, 0.5) / quantile(times[floor].wall, 0.5)

    reached = print_targets(
        [
            Target("--version, times the bare", ratio("agent --version", "bare Typer program"), 2),
            Target("--help", ratio("agent --help", "bare Typer program, --help"), 2),
            Target("prompt ready, times the bare", ratio("prompt", "bare prompt"), 1.3),
            Target(
                "a first line at once, to the bare's, SDK first",
                ratio("first line's request", "bare, first line's request"),
                1.3,
            ),
            Target("a key during the import, p95 ms", quantile(keys["agent"], 0.95), 25),
        ]
    )
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
