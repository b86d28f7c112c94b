"""A program in a pseudo-terminal, driven and timed; what it draws is not interpreted.

Only the requests for the cursor's position are answered, since a terminal does.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.ui.terminal import ON_TERMINAL

ROOT = Path(__file__).resolve().parents[1]
WAIT_SECONDS = 60.0
_ASKS_POSITION = b"\x1b[6n"
_SEQUENCE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|.)")


class Terminal:
    """``python -m <arguments>`` in a terminal of 100 x 30."""

    def __init__(self, arguments: Sequence[str], env: Mapping[str, str], cwd: Path = ROOT) -> None:
        self._master, self._slave = pty.openpty()
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        self._raw = bytearray()
        self.bytes = 0
        self.started = time.monotonic()
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", ON_TERMINAL, "sh", sys.executable, "-m", *arguments],
            cwd=cwd,
            env={**env, "TERMINAL": os.ttyname(self._slave), "TERM": "xterm-256color"},
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._master, keys.encode())

    def forget(self) -> None:
        """Look from now on only at what is written next."""
        self._raw.clear()

    def wait_for(self, *texts: str) -> float:
        """Wait until some texts were written, one after another; returns the clock then.

        Only the last 2,000 bytes are looked at.

        :raises TimeoutError: they were not.
        """
        wanted = re.compile(b".*?".join(re.escape(text.encode()) for text in texts), re.DOTALL)
        deadline = time.monotonic() + WAIT_SECONDS
        while not wanted.search(self._seen()):
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"no {texts!r} in {self._seen()!r}")
            self._read(left)
        return time.monotonic()

    def text_between(self, before: str, after: str) -> str:
        """Wait for a text between two others, and return it."""
        self.wait_for(before, after)
        return self._seen().decode(errors="replace").partition(before)[2].partition(after)[0]

    def _seen(self) -> bytes:
        return _SEQUENCE.sub(b"", bytes(self._raw[-2_000:]))

    def read(self, seconds: float) -> None:
        """Take in what is written for a while."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self._read(left)

    def _read(self, seconds: float) -> None:
        ready, _, _ = select.select([self._master], [], [], seconds)
        if not ready:
            return
        data = os.read(self._master, 65_536)
        self.bytes += len(data)
        self._raw += data
        for _ in range(data.count(_ASKS_POSITION)):
            os.write(self._master, b"\x1b[1;1R")

    def cpu_seconds(self) -> float:
        """The time that the process's threads have run until now."""
        threads = Path(f"/proc/{self.pid}/task").glob("*/schedstat")
        return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9

    def megabytes(self) -> float:
        """The memory that the process has now (RSS)."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) / 1000 for line in lines if line.startswith("VmRSS"))

    def close(self) -> None:
        """End the process and close the terminal."""
        self._process.kill()
        self._process.wait()
        os.close(self._master)
        os.close(self._slave)
