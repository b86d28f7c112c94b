"""Nothing foreign acts on the terminal: what is seen at its other end, byte by byte.

Sinks: answer, code, thinking, tool name, argument, output, result, diff, file name, error
text, session title, completion, status line, notice.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.ui.nasty import wrapped
from tests.ui.screens import SEQUENCES
from tests.ui.terminal import ROOT, Chat

PARTS = 4

# What this program and prompt_toolkit write themselves: colours, moves, erasure to the end
# of a line or of what is below, a question for the cursor's place, modes of the input line.
OWN = re.compile(r"\x1b\[(?:[0-9;]*m|[0-9]*[ABCDJK]|6n|\?(?:1|7|12|25|1004|2004)[hl]|0 q)")
CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def leftovers(written: str) -> set[str]:
    """Control characters and their surroundings that are not this program's own."""
    rest = OWN.sub("", written).replace("\b", "")
    return {rest[match.start() : match.start() + 12] for match in CONTROLS.finditer(rest)}


def folder_with_names(parent: Path) -> Path:
    """A folder whose own name and whose files' names hold sequences."""
    folder = parent / "Q\x1b[2J\x1b]0;folder\x07Z"
    folder.mkdir()
    for number in range(len(SEQUENCES)):
        name = f"f{number}{wrapped(number)}"
        if not {"/", "\0"} & set(name):
            (folder / name).touch()
    return folder


def has_written(chat: Chat, text: bytes, count: int) -> None:
    """Wait until a text was written that many times."""
    chat.wait_until(lambda: chat.written.count(text) >= count, f"{text!r} {count} times")


@pytest.mark.parametrize(("part", "plain"), [*((n, False) for n in range(PARTS)), (0, True)])
def test_no_sequence_reaches_the_terminal(tmp_path: Path, part: int, plain: bool) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TERM": "xterm-256color"}
    env |= {"PYTHONPATH": str(ROOT), "PYTHONUTF8": "1", **({"NO_COLOR": "1"} if plain else {})}
    arguments = ["tests.ui.nasty", str(tmp_path / "history")]
    chat = Chat(arguments, 80, 24, env, folder_with_names(tmp_path))
    try:
        chat.wait_for(">")
        numbers = range(part, len(SEQUENCES), PARTS)
        for count, number in enumerate(numbers, 1):
            chat.type(f"{number}\r")
            has_written(chat, b"error: ", count)
            chat.type(f"\x0f@f{number}")
            chat.read(0.2)
            chat.type("\x03/sessions\r")
            has_written(chat, b"9 B", count)
        written = chat.written.decode()
    finally:
        chat.close()
    assert leftovers(written) == set()
    assert [number for number in numbers if wrapped(number) in written] == []
    assert "\x1b[2J" not in written
