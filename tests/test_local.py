"""The local model's process: who may talk to it, and that it never outlives this program."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent.messages import user_text
from agent.providers.base import EndPart, Request, TextPart
from agent.providers.local import LocalProvider, trial_weights
from tests.e2e.support import run_agent
from tests.local_model import ABSENT

needs_model = pytest.mark.skipif(bool(ABSENT), reason=ABSENT or "there is one")

HELLO = Request("trial", "Be brief.", (), (user_text("Say hello."),), 24)

PARENT = """
import asyncio, pathlib, sys
from agent.providers.local import LocalProvider

async def main():
    provider = LocalProvider(pathlib.Path(sys.argv[1]), "trial", 512)
    await provider.limits("trial")
    print("ready", flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


@asynccontextmanager
async def trial(window: int = 512) -> AsyncIterator[LocalProvider]:
    weights = trial_weights()
    assert weights is not None
    provider = LocalProvider(weights, "trial", window)
    try:
        yield provider
    finally:
        await provider.close()


def children(pid: int) -> list[int]:
    """The processes that a process has started and that live."""
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return [int(line) for line in found.stdout.split()]


def lives(pid: int) -> bool:
    state = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return bool(state.stdout.strip()) and not state.stdout.startswith("Z")


def wait_for_end(pid: int, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while lives(pid):
        assert time.monotonic() < deadline, f"process {pid} lives"
        time.sleep(0.05)


@needs_model
async def test_it_streams_counts_and_tells_its_window() -> None:
    before = set(children(os.getpid()))
    async with trial(2_048) as provider:
        assert set(children(os.getpid())) == before, "it is started when it is first needed"
        parts = [part async for part in provider.stream(HELLO)]
        limits = await provider.limits("trial")
        counted = await provider.count(HELLO)
        (server,) = set(children(os.getpid())) - before
    assert sum(isinstance(part, TextPart) for part in parts) > 1
    assert isinstance(parts[-1], EndPart)
    assert parts[-1].usage.prompt_tokens == counted
    assert limits is not None
    assert limits.window == 2_048
    assert not limits.tools, "the trial model's template drops them"
    assert provider.summary_form == "told"
    assert not lives(server)


@needs_model
async def test_it_ends_at_once_also_while_it_answers() -> None:
    before = set(children(os.getpid()))
    async with trial(2_048) as provider:
        story = Request("trial", "", (), (user_text("Tell a long story."),), 1_500)
        async for part in provider.stream(story):
            if isinstance(part, TextPart):
                break
        (server,) = set(children(os.getpid())) - before
        started = time.monotonic()
    assert time.monotonic() - started < 2.0
    assert not lives(server)


@needs_model
async def test_a_server_that_died_is_started_again() -> None:
    before = set(children(os.getpid()))
    async with trial() as provider:
        assert await provider.count(HELLO)
        (server,) = set(children(os.getpid())) - before
        os.kill(server, signal.SIGKILL)
        await asyncio.to_thread(wait_for_end, server, 5.0)
        assert await provider.count(HELLO)


@needs_model
def test_it_ends_when_the_program_is_killed() -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(trial_weights())], stdout=subprocess.PIPE
    )
    with parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"ready\n"
        (server,) = children(parent.pid)
        parent.kill()
        parent.wait()
        wait_for_end(server, 3.0)


@needs_model
@pytest.mark.skipif(not Path("/proc/self/net").exists(), reason="no /proc here")
def test_nobody_else_may_use_it() -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(trial_weights())], stdout=subprocess.PIPE
    )
    with parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        (server,) = children(parent.pid)
        address = f"http://127.0.0.1:{listening_port(server)}/v1/messages"
        command = Path(f"/proc/{server}/cmdline").read_bytes()
        body = json.dumps({"messages": [{"role": "user", "content": "Hello"}]}).encode()
        headers = {"Origin": "https://elsewhere.example", "x-api-key": "guessed"}
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(urllib.request.Request(address, body, headers))
        parent.kill()
    assert refused.value.code == 401
    assert not refused.value.headers["Access-Control-Allow-Origin"]
    refused.value.close()
    assert len(command.split(b"\0")) == 7, "the key is not among the arguments"


def listening_port(pid: int) -> int:
    """The one TCP port on loopback that a process listens on."""
    sockets = {str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir()}
    for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        _, local, _, state, *_, inode = line.split()[:10]
        if state == "0A" and f"socket:[{inode}]" in sockets:
            address, port = local.split(":")
            assert address == "0100007F"
            return int(port, 16)
    raise AssertionError("it listens nowhere")


def error_of(tmp_path: Path, *arguments: str) -> str:
    """What ``agent chat`` says, in one line, when it cannot begin."""
    done = run_agent(["chat", *arguments, "-p", "Hello"], tmp_path, None)
    assert done.returncode in {1, 2}
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    return line


@needs_model
def test_what_is_no_model_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_text("no model")
    assert (
        error_of(tmp_path, "--local", "a.gguf")
        == "agent: --local a.gguf: is no model in the GGUF format"
    )
    assert "b.gguf: cannot be read: No such file" in error_of(tmp_path, "--local", "b.gguf")
    both = error_of(tmp_path, "--local", "--base-url", "http://localhost:1")
    assert both == "agent: --local and --base-url name two models: give one of them"
    (tmp_path / "cut.gguf").write_bytes(b"GGUF\x03\0\0\0")
    broken = error_of(tmp_path, "--local", "cut.gguf")
    assert "the local model could not be started: " in broken
