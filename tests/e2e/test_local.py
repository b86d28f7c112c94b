"""Thirty turns with a real model in a window of 2,048 tokens, over a server not ours.

What the model says is chance, so nothing here looks at its words.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.support import environment
from tests.local_model import ABSENT
from tests.ui.terminal import Chat

pytestmark = [
    pytest.mark.skipif(bool(ABSENT), reason=ABSENT or "there is one"),
    pytest.mark.timeout(1_200),
]

WINDOW = 2_048
OPTIONS = ("--local", "--context-window", str(WINDOW), "--keep-recent-turns", "2")
VARIABLES = {"AGENT_MAX_OUTPUT_TOKENS": "256", "AGENT_RESCUE_INTERVAL_SECONDS": "0"}

PATIENCE = 240.0
"""Seconds for one answer: two slow cores that do other work, too."""

STORY = " ".join(
    f"Boat {number} left the old harbour at {number} o'clock with {number + 3} barrels of salt."
    for number in range(1, 9)
)
"""About 160 tokens."""

DENSE = "안녕하세요오늘우리는날씨와역사의문제에대해" * 29
"""609 characters that the model's vocabulary takes for 1,710 tokens, nearly four times what
they would be elsewhere: no estimate sees it coming."""


@contextmanager
def terminal(folder: Path, *arguments: str) -> Iterator[Chat]:
    """``agent chat`` with the local model in a pseudo-terminal."""
    variables = environment(None, folder) | VARIABLES | {"PYTHONUTF8": "1"}
    chat = Chat(["agent", "chat", *OPTIONS, *arguments], 100, 30, variables, folder)
    chat.patience = PATIENCE
    try:
        chat.wait_for_prompt()
        yield chat
    finally:
        chat.close()


def say(chat: Chat, text: str) -> None:
    """Type a line, and wait until the turn has ended and the prompt is back."""
    ended = chat.picture.count("· context")
    chat.type(f"{text}\r")
    chat.wait_for_count("· context", ended + 1)
    chat.wait_for_prompt()


def print_once(folder: Path, text: str, *arguments: str) -> list[dict[str, Any]]:
    """``agent chat -p``: the JSON objects that it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "agent", "chat", *OPTIONS, "-p", *arguments],
        cwd=folder,
        env=environment(None, folder) | VARIABLES,
        input=text,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "this is a trial model" in done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def records(folder: Path, kind: str) -> list[dict[str, Any]]:
    """The records of one kind, of the one session of a folder."""
    (log,) = (folder / ".transcripts").glob("*.jsonl")
    found = (json.loads(line) for line in log.read_text("utf-8").splitlines())
    return [record for record in found if record["type"] == kind]


def triggers(folder: Path) -> list[str]:
    """What caused each compaction so far."""
    return [record["trigger"] for record in records(folder, "compaction")]


def test_thirty_turns_with_a_real_model_in_a_small_window(tmp_path: Path) -> None:
    with terminal(tmp_path) as chat:
        chat.wait_for("this is a trial model")
        _overflow_and_survive(chat, tmp_path)
        _cancel(chat, tmp_path)
        for number in range(5, 17):
            say(chat, f"Part {number}. {STORY} Answer in three words.")
        assert triggers(tmp_path).count("auto") >= 2
        chat.type("\x04")
        assert chat.exit_code() == 0
    _go_on_by_print(tmp_path)
    with terminal(tmp_path, "-c") as chat:
        _compact_and_take_back(chat, tmp_path)
        for number in range(21, 31):
            say(chat, f"Part {number}. {STORY} Answer in three words.")
        chat.type("\x04")
        assert chat.exit_code() == 0
    assert len(records(tmp_path, "user")) == 30
    assert triggers(tmp_path).count("auto") >= 4
    usages = [record["usage"] for record in records(tmp_path, "assistant_end")]
    assert all(0 < _prompt(usage) < WINDOW for usage in usages)
    (readable,) = (tmp_path / ".transcripts").glob("2*.md")
    kept = readable.read_text("utf-8")
    assert kept.count(STORY) >= 25
    assert DENSE in kept, "what did not fit is kept, too"


def _prompt(usage: dict[str, int]) -> int:
    return usage["input_tokens"] + usage["cache_read_input_tokens"]


def _overflow_and_survive(chat: Chat, folder: Path) -> None:
    """Turns 1-3: a paste that the server refuses, with what stands before it."""
    for number in range(1, 3):
        say(chat, f"Part {number}. {STORY} Answer in three words.")
    assert triggers(folder) == []
    say(chat, f"\x1b[200~{DENSE}\x1b[201~")
    assert "overflow" in triggers(folder), chat.picture
    assert records(folder, "user")[-1]["text"] == DENSE
    assert records(folder, "assistant_end")[-1]["usage"]["output_tokens"] > 0


def _cancel(chat: Chat, folder: Path) -> None:
    """Turn 4: stopped as soon as something has come."""
    answers = len(records(folder, "assistant_end"))
    chat.type("Tell a very long story about a fox.\r")
    chat.wait_until(lambda: _answer_lines(chat) > 0, "the beginning of an answer")
    chat.type("\x03")
    chat.wait_for("interrupted")
    chat.wait_for_prompt()
    assert len(records(folder, "assistant_end")) == answers
    assert records(folder, "interrupted")


def _answer_lines(chat: Chat) -> int:
    """How many lines of text follow the line typed last."""
    lines = chat.lines
    typed = [number for number, line in enumerate(lines) if "story about a fox" in line]
    return sum(line[:1].isalpha() for line in lines[typed[-1] + 1 :]) if typed else 0


def _go_on_by_print(folder: Path) -> None:
    """Turns 17-19, each a process of its own."""
    for number in range(17, 19):
        (result,) = print_once(
            folder,
            f"Part {number}. {STORY} Answer in three words.",
            "-c",
            "--output-format",
            "json",
        )
        assert result["result"]
        assert 0 < result["context"]["tokens"] < WINDOW
    events = print_once(folder, f"Part 19. {STORY}", "-c", "--output-format", "stream-json")
    kinds = [event["type"] for event in events]
    assert kinds.count("text_delta") > 1, "it came in pieces"
    assert kinds[-1] == "result"


def _compact_and_take_back(chat: Chat, folder: Path) -> None:
    """Turn 20, folded by hand and unfolded again."""
    say(chat, f"Part 20. {STORY} Answer in three words.")
    before = records(folder, "compaction")
    chat.type("/compact\r")
    chat.wait_until(
        lambda: len(records(folder, "compaction")) > len(before) or "not compacted" in chat.picture,
        "the end of a compaction",
    )
    chat.wait_for_prompt()
    folded = len(records(folder, "compaction")) > len(before)
    chat.type("/uncompact\r")
    chat.wait_until(lambda: "taken back" in chat.picture, "an answer to /uncompact")
    chat.wait_for_prompt()
    assert folded == ("manual" in triggers(folder))
