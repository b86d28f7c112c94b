"""Copying: what is written to a terminal, alone, in tmux, and with pyperclip."""

from __future__ import annotations

import base64
import io
import sys
from pathlib import Path
from types import ModuleType

import pytest

from agent.ui.clipboard import MAX_BYTES, copy, sequence
from tests.ui.terminal import chat


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMUX", raising=False)
    monkeypatch.setitem(sys.modules, "pyperclip", None)


def test_a_terminal_is_told_by_osc_52() -> None:
    terminal = _Terminal()
    assert copy("日本", terminal) == "copied 2 characters, if this terminal takes them (OSC 52)"
    assert terminal.getvalue() == "\x1b]52;c;5pel5pys\x07"


def test_tmux_is_told_and_asked_to_hand_it_on() -> None:
    assert sequence(b"ab", in_tmux=True) == (
        "\x1b]52;c;YWI=\x07\x1bPtmux;\x1b\x1b]52;c;YWI=\x07\x1b\\"
    )


def test_a_text_that_is_too_long_is_one_clear_line() -> None:
    terminal = _Terminal()
    assert copy("x" * MAX_BYTES, terminal).startswith("copied")
    assert len(terminal.getvalue()) <= 100_000
    terminal = _Terminal()
    assert copy("x" * (MAX_BYTES + 1), terminal) == (
        "not copied: 75.0 kB, and a terminal takes at most 75.0 kB; /export FILE writes a file"
    )
    assert terminal.getvalue() == ""


def test_without_a_terminal_nothing_is_written() -> None:
    file = io.StringIO()
    assert copy("x", file) == "not copied: there is no terminal to take it"
    assert file.getvalue() == ""


@pytest.mark.parametrize("works", [True, False])
def test_pyperclip_is_used_where_it_is_installed(
    monkeypatch: pytest.MonkeyPatch, works: bool
) -> None:
    copied: list[str] = []

    def put(text: str) -> None:
        if not works:
            raise RuntimeError("no clipboard here")
        copied.append(text)

    module = ModuleType("pyperclip")
    module.__dict__.update(copy=put, PyperclipException=RuntimeError)
    monkeypatch.setitem(sys.modules, "pyperclip", module)
    said = copy("x" * (MAX_BYTES + 1), _Terminal())
    assert said.startswith("copied" if works else "not copied")
    assert bool(copied) == works


def test_a_code_block_is_copied_from_the_chat(tmp_path: Path) -> None:
    with chat(tmp_path) as running:
        running.wait_for_prompt()
        running.type("markdown\r")
        running.wait_for("Done.")
        running.wait_for_prompt()
        running.type("/copy 1\r")
        running.wait_for("copied 48 characters")
        code = b"def add(a: int, b: int) -> int:\n    return a + b"
        assert b"\x1b]52;c;" + base64.b64encode(code) + b"\x07" in running.written
