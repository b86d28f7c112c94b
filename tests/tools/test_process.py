from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.tools.process import SHOWN_CHARS, OutputBuffer, child_environment, run_program
from tests.e2e.support import wait_for_file


def silent(_: str) -> None:
    """Shows nothing."""


def test_keys_and_startup_files_are_kept_from_a_child() -> None:
    kept = child_environment(
        {
            "ANTHROPIC_API_KEY": "k",
            "ANTHROPIC_AUTH_TOKEN": "t",
            "AGENT_MODEL": "m",
            "AGENT_": "x",
            "BASH_ENV": "/evil",
            "ENV": "/evil",
            "PATH": "/bin",
            "PAGER": "less",
            "MY_AGENT_X": "1",
        }
    )
    assert kept == {
        "PATH": "/bin",
        "MY_AGENT_X": "1",
        "PAGER": "cat",
        "GIT_PAGER": "cat",
        "TERM": "dumb",
        "NO_COLOR": "1",
    }


@settings(deadline=None)
@given(st.binary(max_size=300), st.lists(st.integers(1, 300), max_size=10), st.integers(2, 400))
def test_output_is_whole_up_to_a_size_then_head_and_tail(
    data: bytes, cuts: list[int], kept: int
) -> None:
    shown: list[str] = []
    buffer = OutputBuffer(shown.append, kept)
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    for start, end in itertools.pairwise(edges):
        buffer.feed(data[start:end])
    buffer.feed(b"", final=True)
    whole = data.decode("utf-8", "replace").replace("\0", "\ufffd")
    assert "".join(shown) == whole
    text = buffer.text()
    half = kept // 2
    if len(whole) <= 2 * half:
        assert text == whole
    else:
        missing = len(whole) - 2 * half
        note = f"\n[... {missing:,} characters of output were not kept ...]\n"
        assert text == whole[:half] + note + whole[-half:]


def test_memory_and_screen_are_bounded() -> None:
    shown: list[str] = []
    buffer = OutputBuffer(shown.append, 10_000)
    for _ in range(1_000):
        buffer.feed(b"x" * 10_000)
    assert len(buffer.text()) < 10_100
    assert SHOWN_CHARS <= len("".join(shown)) < SHOWN_CHARS + 10_100
    assert shown[-1] == "\n[more output is not shown here]\n"


async def test_refused_output_ends_the_program(tmp_path: Path) -> None:
    started = time.monotonic()
    finished = await run_program(["yes"], tmp_path, 20.0, lambda _: False)
    assert finished.code < 0
    assert not finished.timed_out
    assert time.monotonic() - started < 2


async def test_an_error_of_the_reader_ends_the_program_and_is_raised(tmp_path: Path) -> None:
    def fail(_: bytes) -> bool:
        raise ZeroDivisionError

    started = time.monotonic()
    with pytest.raises(ZeroDivisionError):
        await run_program(["sh", "-c", "echo x; sleep 30"], tmp_path, 20.0, fail)
    assert time.monotonic() - started < 2


async def test_a_program_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await run_program([str(tmp_path / "none")], tmp_path, 1.0, lambda _: True)


async def test_no_descriptor_and_no_task_is_left(tmp_path: Path) -> None:
    async def once() -> int:
        await run_program(["true"], tmp_path, 5.0, lambda _: True)
        await asyncio.sleep(0.05)
        with (tmp_path / "probe").open("w") as probe:
            return probe.fileno()

    await once()
    assert len({await once() for _ in range(3)}) == 1
    assert asyncio.all_tasks() == {asyncio.current_task()}


KILLED = """
import asyncio, sys
from pathlib import Path
from agent.tools.process import run_program
folder, sleep = sys.argv[1:]
command = f"trap '' TERM; {sleep} & touch on; {sleep}; {sleep}"
asyncio.run(run_program(["bash", "-c", command], Path(folder), 60.0, lambda _: True))
"""


def test_nothing_is_left_when_this_program_is_killed(tmp_path: Path) -> None:
    sleep = f"sleep 4721.{os.getpid()}"
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path), sleep])
    wait_for_file(tmp_path / "on")
    assert len(running(sleep).split()) >= 3
    process.kill()
    process.wait()
    killed_at = time.monotonic()
    while running(sleep):
        assert time.monotonic() - killed_at < 5.0
        time.sleep(0.02)


async def test_background_processes_are_told_and_their_guard_is_none(tmp_path: Path) -> None:
    sleep = f"sleep 4731.{os.getpid()}"
    command = ["bash", "-c", f"{sleep} >/dev/null 2>&1 & true"]
    assert (await run_program(command, tmp_path, 20.0, lambda _: True)).left_running
    assert not (await run_program(["true"], tmp_path, 20.0, lambda _: True)).left_running
    assert running(sleep) == b""


def busy(seconds: float) -> None:
    """What a loop that is busy with something else does to everybody."""
    time.sleep(seconds)


def running(pattern: str) -> bytes:
    """The ids of processes whose command line matches."""
    return subprocess.run(["pgrep", "-f", pattern], capture_output=True, check=False).stdout


async def test_cancelling_at_any_moment_of_the_start_leaves_nothing(tmp_path: Path) -> None:
    command = ["bash", "-c", "sleep 4711 & sleep 4712"]
    for steps in range(12):
        task = asyncio.create_task(run_program(command, tmp_path, 60.0, lambda _: True))
        for _ in range(steps):
            await asyncio.sleep(0)
        busy(0.03)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert running("sleep 471[12]") == b""
