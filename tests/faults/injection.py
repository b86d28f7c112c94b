"""Faults put into a real process's system calls, by strace."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

_HARMLESS = re.compile(r"EINTR|read\(\d+<\S+\.md>|\.md\", O_RDONLY")


@dataclass(frozen=True)
class Fault:
    """The ``when``-th call fails: ``3``, ``3..6`` or ``3+``, as strace counts."""

    call: str
    error: str
    when: str

    def __str__(self) -> str:
        return f"{self.call}:error={self.error}:when={self.when}"


@dataclass(frozen=True)
class Traced:
    """How a process ended, and the calls that were traced."""

    code: int
    stdout: str
    stderr: str
    calls: tuple[str, ...]

    @property
    def hit(self) -> tuple[str, ...]:
        """The calls that were made to fail."""
        return tuple(call for call in self.calls if "(INJECTED)" in call)

    @property
    def grave(self) -> tuple[str, ...]:
        """Those that must be told.

        What is interrupted is done again; a readable file that cannot be read is made anew.
        """
        return tuple(call for call in self.hit if not _HARMLESS.search(call))


def why_not() -> str:
    """Why no faults can be injected here; empty if they can."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    done = subprocess.run(
        ["strace", "-f", "--seccomp-bpf", "-o", os.devnull, "-e", "inject=fsync:error=EIO", "true"],
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if done.returncode == 0 else f"strace may not attach: {done.stderr.strip()[:80]}"


def run_traced(
    command: Sequence[str],
    calls: Sequence[str],
    faults: Sequence[Fault] = (),
    paths: Sequence[Path] = (),
    *,
    cwd: Path = ROOT,
    env: Mapping[str, str] | None = None,
) -> Traced:
    """Run a command with faults in some of its calls; with ``paths``, only in those on them."""
    with tempfile.NamedTemporaryFile("r", prefix="strace-") as log:
        arguments = ["strace", "-f", "--seccomp-bpf", "-y", "-qq", "-o", log.name]
        arguments += ["-e", f"trace={','.join(calls)}"]
        for fault in faults:
            arguments += ["-e", f"inject={fault}"]
        for path in paths:
            arguments += ["-P", str(path)]
        done = subprocess.run(
            [*arguments, *command],
            cwd=cwd,
            env=None if env is None else dict(env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        return Traced(done.returncode, done.stdout, done.stderr, tuple(log.read().splitlines()))


def places(traced: Traced, folder: Path) -> list[tuple[str, int]]:
    """The calls on a folder: each with its number among the calls of its name."""
    counts: Counter[str] = Counter()
    found = []
    for line in traced.calls:
        if named := re.match(r"\d+ +(\w+)\(", line):
            counts[named[1]] += 1
            if str(folder) in line:
                found.append((named[1], counts[named[1]]))
    return found
