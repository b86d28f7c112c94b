"""Running a program so that nothing of it is left: its environment, output, process group."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import errno
import io
import os
import re
import shutil
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

KEPT_CHARS = 5_000_000
SHOWN_CHARS = 1_000_000
_READ_BYTES = 65_536
_POLL_SECONDS = 0.02
# A background child may hold the pipe open; what has been written arrives at once.
_DRAIN_SECONDS = 0.3
_TIMEOUT_GRACE_SECONDS = 2.0
# A person who presses Ctrl-C has the prompt back within half a second.
_CANCEL_GRACE_SECONDS = 0.2
# How long the kernel may take to end a killed process.
_KILL_SECONDS = 0.5
# Becomes the program, and leaves a guard in its process group that waits on a pipe of
# which this program alone holds the other end. The pipe's end means that this program was
# killed: then the guard ends the group in its place. Otherwise it is ended with the group.
_GUARDED = """exec 3<&0 </dev/null
( ( read -r line <&3; trap '' TERM; kill -s TERM 0; sleep 1; kill -s KILL 0
  ) >/dev/null 2>&1 & )
exec "$@" 3<&-
"""
_HAS_PROC = Path("/proc/self/stat").exists()
_KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
_SECRET_NAME = re.compile(
    r"(?:^|_)(?:API_?KEY|ACCESS_KEY(?:_ID)?|PRIVATE_KEY|AUTH_?KEY|SECRET|SECRET_KEY|TOKEN|PAT"
    r"|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?)(?:$|_)",
    re.IGNORECASE,
)
# Bash and sh run the files that these name before the command that was approved.
_STARTUP_FILES = frozenset({"BASH_ENV", "ENV"})
_PLAIN_OUTPUT = {"PAGER": "cat", "GIT_PAGER": "cat", "TERM": "dumb", "NO_COLOR": "1"}


def child_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for a program that a model runs: no keys, no pager, no colour.

    A key is known by its name, and ours by its value under any name.
    """
    ours = [environment[name] for name in _KEYS if environment.get(name)]
    kept = {
        name: value
        for name, value in environment.items()
        if name not in _STARTUP_FILES
        and not name.startswith("AGENT_")
        and not _SECRET_NAME.search(name)
        and not any(key in value for key in ours)
    }
    return kept | _PLAIN_OUTPUT


def outside_program(name: str, cwd: Path) -> str | None:
    """The program of that name on ``PATH``, but never one of the working folder's own."""
    folders = [Path(entry) for entry in os.environ.get("PATH", os.defpath).split(os.pathsep)]
    own = cwd.resolve()
    trusted = [
        str(folder)
        for folder in folders
        if folder.is_absolute() and not folder.resolve().is_relative_to(own)
    ]
    return shutil.which(name, path=os.pathsep.join(trusted) or os.defpath)


class OutputBuffer:
    """Collects a program's output: all of it up to a size, then its head and its tail.

    Text goes on to ``emit`` as it comes, up to ``SHOWN_CHARS``: a program that
    prints without end must not flood the screen's queue.
    """

    def __init__(self, emit: Callable[[str], None], kept_chars: int = KEPT_CHARS) -> None:
        self._emit = emit
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._half = kept_chars // 2
        self._head = io.StringIO()
        self._tail: deque[str] = deque()
        self._tail_chars = 0
        self._total = 0

    def feed(self, data: bytes, *, final: bool = False) -> None:
        """Take more output; ``final`` ends it."""
        # NUL would make the saved output a binary file, which read_file refuses.
        text = self._decoder.decode(data, final).replace("\0", "\N{REPLACEMENT CHARACTER}")
        if not text:
            return
        if self._total < SHOWN_CHARS:
            self._emit(text)
            if self._total + len(text) >= SHOWN_CHARS:
                self._emit("\n[more output is not shown here]\n")
        room = max(0, self._half - self._total)
        self._total += len(text)
        self._head.write(text[:room])
        self._tail.append(text[room:])
        self._tail_chars += len(self._tail[-1])
        while self._tail_chars - len(self._tail[0]) >= self._half:
            self._tail_chars -= len(self._tail.popleft())

    def text(self) -> str:
        """What was kept, with a line that says how much is missing in the middle."""
        head, tail = self._head.getvalue(), "".join(self._tail)[-self._half :]
        missing = self._total - len(head) - len(tail)
        if not missing:
            return head + tail
        return f"{head}\n[... {missing:,} characters of output were not kept ...]\n{tail}"


@dataclass(frozen=True)
class Finished:
    """How a program ended.

    ``code`` is the exit code, or minus the number of the signal that ended it;
    ``left_running`` tells that processes it had started were still there.
    """

    code: int
    timed_out: bool
    left_running: bool


async def run_program(
    arguments: Sequence[str],
    cwd: Path,
    seconds: float,
    consume: Callable[[bytes], bool],
    stderr: int | BinaryIO = asyncio.subprocess.STDOUT,
) -> Finished:
    """Run a program in a session of its own and hand its output to ``consume``.

    It is ended after ``seconds``, or as soon as ``consume`` returns false. When
    this returns or is cancelled, no process of its group is alive; when this program
    is killed, none is two seconds later.

    Raises:
        OSError: the program could not be started.
    """
    if shutil.which(arguments[0]) is None:
        # The shell that guards it would only write that into the output.
        raise FileNotFoundError(errno.ENOENT, "no such program", arguments[0])
    loop = asyncio.get_running_loop()
    read_end, write_end = os.pipe()
    reader = asyncio.StreamReader()
    # A pipe of our own: asyncio's would keep wait() from returning while a
    # background child holds it open.
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read_end, "rb", 0)
    )
    guard_end, lifeline = os.pipe()
    try:
        starting = asyncio.create_task(
            asyncio.create_subprocess_exec(
                "/bin/sh",
                "-c",
                _GUARDED,
                "sh",
                *arguments,
                stdin=guard_end,
                stdout=write_end,
                stderr=stderr,
                cwd=cwd,
                env=child_environment(os.environ),
                start_new_session=True,
            )
        )
        try:
            process = await _started(starting)
        finally:
            os.close(write_end)
            os.close(guard_end)
        return await _supervise(process, reader, seconds, consume)
    finally:
        os.close(lifeline)
        transport.close()


async def _started(
    starting: asyncio.Task[asyncio.subprocess.Process],
) -> asyncio.subprocess.Process:
    """The program once it runs; when cancelled before that, its whole group is ended.

    Left to itself, a cancelled start kills the program alone, and not what that has
    started meanwhile.
    """
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await asyncio.wait({starting})
        if starting.exception() is None:
            await end_group(starting.result().pid, 0.0)
        raise


async def _supervise(
    process: asyncio.subprocess.Process,
    reader: asyncio.StreamReader,
    seconds: float,
    consume: Callable[[bytes], bool],
) -> Finished:
    """Read and wait until a program is over, then end what is left of its group."""

    async def read_all() -> bool:
        """Whether the output was read to its end."""
        while data := await reader.read(_READ_BYTES):
            if not consume(data):
                return False
        return True

    reading = asyncio.create_task(read_all())
    waiting = asyncio.create_task(process.wait())
    grace = _CANCEL_GRACE_SECONDS
    left_running = False
    try:
        over = await _is_over(reading, waiting, seconds)
        if over:
            await asyncio.wait({reading}, timeout=_DRAIN_SECONDS)
            left_running = _has_more_than_its_guard(process.pid)
        grace = 0.0 if over else _TIMEOUT_GRACE_SECONDS
    finally:
        await end_group(process.pid, grace)
        # What was written last; a process outside the group may hold the pipe open.
        await asyncio.wait({reading, waiting}, timeout=_DRAIN_SECONDS)
        reading.cancel()
    if reading.done():
        reading.result()
    code = -signal.SIGKILL if process.returncode is None else process.returncode
    return Finished(code, timed_out=not over, left_running=left_running)


async def _is_over(reading: asyncio.Task[bool], waiting: asyncio.Task[int], seconds: float) -> bool:
    """Wait for a program's end, or for its output to be refused; false when time is up."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    await asyncio.wait({reading, waiting}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    if not reading.done() or not reading.result():
        return reading.done() or waiting.done()
    # It has closed its output but may still work.
    await asyncio.wait({waiting}, timeout=max(0.0, deadline - loop.time()))
    return waiting.done()


async def end_group(group: int, grace: float) -> None:
    """End a process group: SIGTERM and ``grace`` seconds, unless that is 0, then SIGKILL.

    The kill is sent even when this is cancelled while it waits.
    """
    try:
        if grace:
            _signal_group(group, signal.SIGTERM)
            await _until_gone(group, grace)
    finally:
        _signal_group(group, signal.SIGKILL)
    await _until_gone(group, _KILL_SECONDS)


def _signal_group(group: int, number: signal.Signals) -> None:
    # It may be gone, or consist of another user's programs only, which nobody here can end.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


async def _until_gone(group: int, seconds: float) -> None:
    """Wait until no process of a group is alive, for at most ``seconds``."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    pause = _POLL_SECONDS / 10
    while group_is_alive(group) and loop.time() < deadline:
        await asyncio.sleep(pause)
        pause = min(pause * 2, _POLL_SECONDS)


def group_is_alive(group: int) -> bool:
    """Whether a process group has a process that has not ended.

    One that has ended but is not collected by its parent still counts for
    ``kill``; where there is a ``/proc``, such processes are told apart.
    """
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not _HAS_PROC or _live_members(group) > 0


def _has_more_than_its_guard(group: int) -> bool:
    """Whether a program that has ended has left processes in its group."""
    if _HAS_PROC:
        return _live_members(group) > 1
    listed = subprocess.run(
        ["ps", "-A", "-o", "pgid=", "-o", "stat="], capture_output=True, text=True, check=False
    )
    states = [line.split() for line in listed.stdout.splitlines()]
    return sum(state[0] == str(group) and state[1][0] != "Z" for state in states) > 1


def _live_members(group: int) -> int:
    """How many processes of a group have not ended."""
    return sum(_is_live_member(stat, group) for stat in Path("/proc").glob("[0-9]*/stat"))


def _is_live_member(stat: Path, group: int) -> bool:
    """Whether the process of a ``/proc/<pid>/stat`` belongs to a group and has not ended."""
    try:
        # "pid (name) state parent group ...", where the name may hold anything.
        state, _, member_of = stat.read_text("utf-8", "replace").rpartition(")")[2].split()[:3]
    except (OSError, ValueError):
        return False
    return int(member_of) == group and state not in {"Z", "X"}
