"""A model for the whole program under faults: what it does follows from what was typed.

Every piece that it says or runs has a name of its own, so that a test can tell what
was shown, what is in the log, and what was run.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tests.e2e.support import is_summary_request
from tests.server.replies import Reply, Step, ToolUse
from tests.server.wire import message_text


def sleep(round_number: int) -> str:
    """What children of a round's commands do: no other process on the machine does the same."""
    return f"sleep {70_000 + round_number}.{os.getpid()}"


def command(round_number: int, call: int) -> str:
    """A command that notes that it runs, with children, output, and deaf to SIGTERM."""
    child = sleep(round_number)
    return (
        f"echo {round_number}.{call} >> runs; trap '' TERM; {child} & ({child} & {child}) & "
        "for n in 1 2 3 4 5 6; do echo tick $n; sleep 0.05; done; kill -9 $!; "
        f"[ {call} -lt 6 ] || wait"
    )


def words(round_number: int, message: int, count: int) -> str:
    """Text of which every word is unique."""
    return " ".join(f"r{round_number}m{message}w{n}" for n in range(count)) + "\n"


def model(body: Mapping[str, Any], _number: int) -> Step:
    """Thinks, talks, runs commands one by one and in pairs, and ends with a command that hangs.

    ``round N talk`` is answered by text alone.
    """
    if is_summary_request(body):
        return Reply("What matters: nothing yet. " * 12, delay=0.15)
    position, round_number, typed = _typed(body["messages"])
    steps = sum(message["role"] == "assistant" for message in body["messages"][position:])
    if "talk" in typed:
        return Reply(words(round_number, 0, 200), delay=0.02)
    if "briefly" in typed:
        return Reply("Briefly.")
    text = words(round_number, steps, 12)
    calls = [ToolUse("shell", {"command": command(round_number, 2 * steps)})]
    if steps == 1:
        calls.append(ToolUse("shell", {"command": command(round_number, 3)}))
    thinking = "So, what next? " * 3 if steps == 0 else ""
    return Reply(text, thinking=thinking, tool_uses=calls, delay=0.01, first_delay=0.05)


def _typed(messages: Sequence[Mapping[str, Any]]) -> tuple[int, int, str]:
    """Where the running turn begins, its round, and what was typed."""
    for position in range(len(messages) - 1, -1, -1):
        text = message_text(messages[position])
        found = re.match(r"round (\d+)", text)
        if messages[position]["role"] == "user" and found:
            return position, int(found[1]), text
    raise AssertionError("no round was typed")


def wait_for_no_child(round_number: int, limit: float) -> None:
    """Wait until no child of a round's commands is alive."""
    deadline = time.monotonic() + limit
    while left := subprocess.run(
        ["pgrep", "-af", sleep(round_number)], capture_output=True, text=True, check=False
    ).stdout:
        assert time.monotonic() < deadline, left
        time.sleep(0.02)
