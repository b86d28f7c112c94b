"""A terminal that reflows its lines: tmux, resized in the middle of an answer."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.support import Brain, environment
from tests.server.replies import Reply
from tests.server.server import MessagesServer
from tests.ui.terminal import ROOT

PARAGRAPH = " ".join(f"word{number}" for number in range(60))
ANSWER = "\n\n".join(f"{part}: {PARAGRAPH}" for part in ("First", "Second", "Third", "Fourth"))
RESIZES = (("word30", 70), ("Second: word0 ", 45), ("Third: word0 ", 100))
"""What is waited for, and how wide the window is made then."""

SECONDS = 30.0


class Tmux:
    """A tmux server of its own with one window."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    def run(self, *arguments: str) -> str:
        """Run a tmux command; what it printed."""
        command = ["tmux", "-S", str(self._socket), "-f", "/dev/null", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def text(self) -> str:
        """Everything that can be read by scrolling, broken lines joined."""
        return self.run("capture-pane", "-p", "-J", "-S", "-")

    def wait_for(self, wanted: str) -> str:
        """Wait until a text can be read; everything that can be."""
        until = time.monotonic() + SECONDS
        while wanted not in (text := self.text()):
            assert time.monotonic() < until, text
            time.sleep(0.02)
        return text


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Tmux]:
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    running = Tmux(tmp_path / "tmux")
    yield running
    running.run("kill-server")


def test_resizes_in_the_middle_of_an_answer_leave_finished_blocks_alone(
    tmp_path: Path, tmux: Tmux
) -> None:
    slow = Reply(ANSWER, delay=0.02)
    with MessagesServer(script=Brain([slow])) as server:
        variables = environment(server, tmp_path) | {"PYTHONPATH": str(ROOT)}
        settings = [f"{name}={value}" for name, value in variables.items() if name != "TERM"]
        command = ["env", "COLUMNS=30", *settings, sys.executable, "-m", "agent", "chat", "go"]
        tmux.run("new-session", "-d", "-x", "120", "-y", "40", "-c", str(tmp_path), *command)
        for seen, columns in RESIZES:
            tmux.wait_for(seen)
            tmux.run("resize-window", "-x", str(columns), "-y", "40")
        text = tmux.wait_for(" · context ")
    assert text.startswith("model   ")
    assert text.count("> go\n") == 1
    # Every block is there once and whole. Of one in progress, rows may be left: tmux breaks
    # lines anew up to a quarter of a second before it tells.
    assert " ".join(text.split()).count(PARAGRAPH) == 4
    for part in ("First: ", "Second: ", "Third: ", "Fourth: "):
        assert 1 <= text.count(part) <= 1 + len(RESIZES)
