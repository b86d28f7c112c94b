"""The terminal's input mode and the process's signals, changed and put back."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TextIO


@contextmanager
def quiet_input(stream: TextIO) -> Iterator[None]:
    """Keep what is typed from appearing in the middle of output, without losing it.

    Echo, line editing and the translation of Enter are off, so that a prompt
    later reads the very keys; Ctrl-C still is a signal, and no longer empties the
    input. The mode before is put back whatever happens. No effect without a terminal.
    """
    if not stream.isatty():
        yield
        return
    import termios

    descriptor = stream.fileno()
    before = termios.tcgetattr(descriptor)
    mode = termios.tcgetattr(descriptor)
    mode[0] &= ~(termios.ICRNL | termios.INLCR | termios.IGNCR | termios.IXON)
    mode[3] = (mode[3] & ~(termios.ECHO | termios.ICANON | termios.IEXTEN)) | termios.NOFLSH
    termios.tcsetattr(descriptor, termios.TCSANOW, mode)
    try:
        yield
    finally:
        # A terminal whose window was closed has no mode to put back.
        with suppress(termios.error):
            termios.tcsetattr(descriptor, termios.TCSANOW, before)


@contextmanager
def signal_handlers(handlers: Mapping[signal.Signals, Callable[[], None]]) -> Iterator[None]:
    """Let the event loop call these on signals; the handlers before are put back.

    Must be entered in the main thread, within a running loop.
    """
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in handlers}
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number, previous in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, previous)
