"""``--print``: one turn for a script. The answer or JSON on stdout, the rest on stderr."""

from __future__ import annotations

import os
import signal
import time
from contextlib import aclosing
from functools import partial
from typing import Literal, TextIO, TypeAlias

from agent.errors import AgentError, ProviderBusyError, StreamBrokenError
from agent.events import ServerQuiet
from agent.ui import describe
from agent.ui.port import SessionPort
from agent.ui.pump import Foreground
from agent.ui.sanitize import sanitize
from agent.ui.serialise import TurnResult, event_object, result_object, to_line
from agent.ui.terminal import signal_handlers

OutputFormat: TypeAlias = Literal["text", "json", "stream-json"]

EXIT_OK = 0
EXIT_ERROR = 1
EXIT_BUSY = 75
EXIT_INTERRUPTED = 130

_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


async def run_once(
    session: SessionPort,
    prompt: str,
    output_format: OutputFormat,
    stdout: TextIO,
    stderr: TextIO,
) -> int:
    """Send one prompt and print the answer; nobody is asked about actions.

    Returns the exit code: 0; 1 after an error, or when stdout cannot be written;
    75 when the server stayed busy or broke off again and again; 128 + n after
    SIGINT (130), SIGTERM or SIGHUP, which stop the turn and what it runs, and print
    what was received. Must run in the main thread.
    """
    started = time.monotonic()
    session.set_approver(None)
    run = _Run(session, output_format, stdout, stderr)
    foreground = Foreground()
    received: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        received.append(number)
        foreground.interrupt()

    with signal_handlers({number: partial(stop, number) for number in _STOPPING}):
        outcome = await foreground.run(run.consume(prompt))
    result = run.result
    if isinstance(outcome.error, OSError):
        return run.give_up(outcome.error)
    if isinstance(outcome.error, AgentError):
        result.error = outcome.error
        run.tell(describe.error(outcome.error))
    elif outcome.error is not None:
        raise outcome.error
    result.interrupted |= outcome.interrupted or not result.finished
    try:
        run.print_result(time.monotonic() - started)
    except OSError as error:
        return run.give_up(error)
    if received and received[0] != signal.SIGINT:
        return 128 + received[0]
    return _exit_code(result)


class _Run:
    """One prompt on its way to an answer."""

    def __init__(
        self, session: SessionPort, output_format: OutputFormat, stdout: TextIO, stderr: TextIO
    ) -> None:
        self.result = TurnResult()
        self._session = session
        self._format = output_format
        self._stdout = stdout
        self._stderr = stderr
        self._is_terminal = stdout.isatty()

    async def consume(self, prompt: str) -> None:
        """Run the turn. Raises ``OSError`` when stdout cannot be written."""
        quiet = False
        async with aclosing(self._session.send(prompt)) as events:
            async for event in events:
                told, quiet = quiet, isinstance(event, ServerQuiet)
                if told and quiet:
                    continue
                self.result.take(event)
                if line := describe.progress(event):
                    self.tell(line)
                if self._format == "stream-json":
                    self._print_object(event_object(event))

    def print_result(self, seconds: float) -> None:
        """Print what the format promises at the end; ``seconds`` is the run's time."""
        if self.result.interrupted and self.result.error is None:
            self.tell(describe.INTERRUPTED)
        if self._format != "text":
            self._print_object(result_object(self._session, self.result, seconds))
            return
        text = self.result.text
        if text:
            self._print(sanitize(text) if self._is_terminal else text)

    def tell(self, line: str) -> None:
        """Print a line on stderr."""
        print(_encodable(line, self._stderr), file=self._stderr, flush=True)

    def give_up(self, error: OSError) -> int:
        """Leave, quietly when nobody reads any more.

        What is still buffered goes nowhere instead of failing at exit.
        """
        if not isinstance(error, BrokenPipeError):
            kept = f"the conversation is in {self._session.transcript}"
            self.tell(f"error: cannot print the answer: {error.strerror}; {kept}")
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stdout.fileno())
        os.close(nowhere)
        return EXIT_ERROR

    def _print_object(self, value: dict[str, object]) -> None:
        self._print(to_line(value, ascii_only=self._is_terminal))

    def _print(self, text: str) -> None:
        end = "" if text.endswith("\n") else "\n"
        self._stdout.write(_encodable(text + end, self._stdout))
        self._stdout.flush()


def _encodable(text: str, stream: TextIO) -> str:
    """The text with what the stream's encoding lacks replaced by question marks."""
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, "replace").decode(encoding)


def _exit_code(result: TurnResult) -> int:
    if isinstance(result.error, ProviderBusyError | StreamBrokenError):
        return EXIT_BUSY
    if result.error is not None:
        return EXIT_ERROR
    return EXIT_INTERRUPTED if result.interrupted else EXIT_OK
