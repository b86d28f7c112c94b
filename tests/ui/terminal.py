"""The interactive chat in a pseudo-terminal, driven by keys."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyte

from tests.ui.screens import Screen, without_blank_end

ROOT = Path(__file__).resolve().parents[2]
WAIT_SECONDS = 20.0
STATUS_LINE = re.compile(r"\S+ · (?:…|[\d.]+[kM]?) / [\d.]+[kM]?(?: ·|$)")

# The shell leads a session without a terminal: the one that it opens becomes its own.
ON_TERMINAL = 'exec "$@" <"$TERMINAL" >"$TERMINAL" 2>&1'


class Chat:
    """A running chat: type on it, look at it. ``patience`` is in seconds."""

    patience = WAIT_SECONDS

    def __init__(
        self,
        arguments: list[str],
        columns: int,
        lines: int,
        env: dict[str, str],
        cwd: Path = ROOT,
    ) -> None:
        self._master, self._slave = pty.openpty()
        self._terminal = Screen(columns, lines, self.type)
        self._stream = pyte.ByteStream(self._terminal.screen)
        self._set_size(columns, lines)
        self._mode = termios.tcgetattr(self._slave)
        self.written = b""
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", ON_TERMINAL, "sh", sys.executable, "-m", *arguments],
            cwd=cwd,
            env={**env, "TERMINAL": os.ttyname(self._slave)},
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._master, keys.encode())

    def signal(self, number: signal.Signals) -> None:
        """Send the process a signal."""
        self._process.send_signal(number)

    def resize(self, columns: int, lines: int) -> None:
        """Change the size of the window."""
        self._terminal.screen.resize(lines, columns)
        self._set_size(columns, lines)

    def _set_size(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def read(self, seconds: float) -> None:
        """Take in what is written for a while."""
        until = time.monotonic() + seconds
        while (rest := until - time.monotonic()) > 0:
            ready, _, _ = select.select([self._master], [], [], rest)
            if ready:
                data = os.read(self._master, 65_536)
                self.written += data
                self._stream.feed(data)

    def wait_for(self, text: str) -> float:
        """Wait until a text can be read; returns after how many seconds."""
        return self.wait_until(lambda: any(text in line for line in self.lines), text)

    def wait_for_count(self, text: str, count: int) -> float:
        """Wait until a text stands that many times; returns after how many seconds."""
        return self.wait_until(lambda: self.picture.count(text) >= count, f"{text} {count} times")

    def wait_for_prompt(self) -> float:
        """Wait until the last line is an empty prompt; returns after how many seconds."""
        return self.wait_until(lambda: self.lines[-1:] == [">"], "the prompt")

    def wait_until(self, condition: Callable[[], bool], what: str) -> float:
        """Wait until a condition holds; returns after how many seconds."""
        started = time.monotonic()
        while not condition():
            assert time.monotonic() - started < self.patience, f"no {what!r} in:\n{self.picture}"
            self.read(0.02)
        return time.monotonic() - started

    def exit_code(self) -> int:
        """Wait for the end of the process; its exit code."""
        self.wait_until(lambda: self._process.poll() is not None, "end")
        self.read(0.1)
        return self._process.wait()

    def close(self) -> None:
        """End the process if it runs, and close the terminal."""
        self._process.kill()
        self._process.wait()
        os.close(self._master)
        os.close(self._slave)

    @property
    def process_id(self) -> int:
        """The running process."""
        return self._process.pid

    def is_quiet(self) -> bool:
        """Whether the terminal's mode is another than before the start."""
        return termios.tcgetattr(self._slave) != self._mode

    @property
    def lines(self) -> list[str]:
        """What can be read by scrolling, apart from the status line."""
        lines = self._terminal.lines
        return without_blank_end(lines[:-1]) if self.status else lines

    @property
    def status(self) -> str:
        """The line under the input box; empty where there is none."""
        last = (self._terminal.lines or [""])[-1]
        return last if STATUS_LINE.match(last) else ""

    @property
    def picture(self) -> str:
        """The lines in one text."""
        return "\n".join(self.lines)

    @property
    def cursor_row(self) -> int:
        """The line of the cursor in ``lines``, from 0."""
        return len(self._terminal.history) + self._terminal.screen.cursor.y

    @property
    def cursor_column(self) -> int:
        """Where the cursor stands, from 0."""
        return self._terminal.screen.cursor.x


@contextmanager
def chat(
    folder: Path,
    first_prompt: str = "",
    *,
    columns: int = 80,
    lines: int = 24,
    variables: Mapping[str, str] | None = None,
) -> Iterator[Chat]:
    """Run ``python -m tests.ui.scripted`` in a pseudo-terminal until the block ends."""
    arguments = ["tests.ui.scripted", str(folder / "history"), first_prompt]
    env = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    env |= {"TERM": "xterm-256color", "PYTHONUTF8": "1", **(variables or {})}
    running = Chat(arguments, columns, lines, env)
    try:
        yield running
    finally:
        running.close()
