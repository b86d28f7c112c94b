"""The clipboard of the person at the terminal, and what of an answer goes there."""

from __future__ import annotations

import base64
import os
from importlib import import_module
from typing import TextIO

from agent.ui import figures
from agent.ui.blocks import parser

MAX_BYTES = 74_994
"""What a terminal takes at most: 100,000 bytes of OSC 52 with its introducer, in base64."""

_CODE = frozenset({"fence", "code_block"})


def code_blocks(answer: str) -> list[str]:
    """The code blocks of an answer in order, those within lists and quotes included."""
    tokens = parser(inline=False).parse(answer)
    return [token.content.removesuffix("\n") for token in tokens if token.type in _CODE]


def copy(text: str, terminal: TextIO) -> str:
    """Copy a harmless text; what was done, or why not, in one line.

    It goes to the terminal as OSC 52, which also works over a remote link, and to the
    clipboard of this machine where pyperclip is installed and finds one.
    """
    local = _copy_locally(text)
    data = text.encode()
    fits = len(data) <= MAX_BYTES and terminal.isatty()
    if fits:
        terminal.write(sequence(data, in_tmux="TMUX" in os.environ))
        terminal.flush()
    if not fits and not local:
        if not terminal.isatty():
            return "not copied: there is no terminal to take it"
        most = figures.size(MAX_BYTES)
        told = f"not copied: {figures.size(len(data))}, and a terminal takes at most {most}"
        return f"{told}; /export FILE writes a file"
    how = "" if local else ", if this terminal takes them (OSC 52)"
    return f"copied {figures.count(len(text), 'character')}{how}"


def sequence(data: bytes, *, in_tmux: bool) -> str:
    """OSC 52 that sets the clipboard.

    tmux takes it itself with ``set-clipboard on``, or hands it on with
    ``allow-passthrough on``; what is not allowed has no effect.
    """
    plain = f"\x1b]52;c;{base64.b64encode(data).decode()}\x07"
    doubled = plain.replace("\x1b", "\x1b\x1b")
    return f"{plain}\x1bPtmux;{doubled}\x1b\\" if in_tmux else plain


def _copy_locally(text: str) -> bool:
    try:
        pyperclip = import_module("pyperclip")
    except ImportError:
        return False
    try:
        pyperclip.copy(text)
    except pyperclip.PyperclipException:
        # There is no clipboard here, such as on a server.
        return False
    return True
