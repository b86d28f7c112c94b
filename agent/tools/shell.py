"""The tool that runs a command."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Mapping

from agent.errors import ToolError
from agent.messages import ToolSpec
from agent.tools.arguments import object_schema, one_line, text
from agent.tools.base import Action, ToolContext, ToolOutcome
from agent.tools.process import Finished, OutputBuffer, run_program

MAX_TIMEOUT_SECONDS = 600.0


class Shell:
    """Runs a bash command in the working folder and shows its output and exit code.

    Nothing is decided from the command's text: whatever it begins with, it may
    do anything, so it is always an ``execute`` action.
    """

    spec = ToolSpec(
        "shell",
        "Run a bash command in the working folder, without a terminal or input. Gives the output "
        "and the exit code. Background processes are ended when the command ends.",
        object_schema(
            "command",
            command={"type": "string"},
            timeout={"type": "number", "description": "seconds, default 120, at most 600"},
        ),
    )

    def summary(self, arguments: Mapping[str, object]) -> str:
        """The command, on one line."""
        return one_line(arguments.get("command", ""))

    def plan(self, arguments: Mapping[str, object], context: ToolContext) -> Action:
        """An execution of the very command."""
        return _action(_command(arguments), context)

    async def run(self, arguments: Mapping[str, object], context: ToolContext) -> ToolOutcome:
        """Run the command."""
        command = _command(arguments)
        seconds = _seconds(arguments, context)
        context.confirm(_action(command, context))
        buffer = OutputBuffer(context.emit)

        def consume(data: bytes) -> bool:
            buffer.feed(data)
            return True

        bash = shutil.which("bash")
        program = [bash, "--noprofile", "--norc"] if bash else ["/bin/sh"]
        try:
            finished = await run_program(
                [*program, "-c", "--", command], context.cwd, seconds, consume
            )
        except OSError as error:
            raise ToolError(f"The command could not be started: {error}.") from error
        buffer.feed(b"", final=True)
        output = buffer.text()
        if output and not output.endswith("\n"):
            output += "\n"
        failed = finished.timed_out or finished.code < 0
        return ToolOutcome(output + ending(finished, seconds), is_error=failed)


def _command(arguments: Mapping[str, object]) -> str:
    command = text(arguments, "command")
    if not command.strip():
        raise ToolError("The command is empty.")
    if "\0" in command:
        raise ToolError("The command has a NUL character in it.")
    return command


def _seconds(arguments: Mapping[str, object], context: ToolContext) -> float:
    """How long the command may run: what was asked for, at most ``MAX_TIMEOUT_SECONDS``."""
    seconds = arguments.get("timeout", context.timeout_seconds)
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not seconds > 0:
        raise ToolError("Argument 'timeout': a number of seconds above 0 is expected.")
    return min(float(seconds), max(MAX_TIMEOUT_SECONDS, context.timeout_seconds))


def _action(command: str, context: ToolContext) -> Action:
    return Action(
        kind="execute",
        title="Run a command",
        detail=command,
        key=f"shell:{context.cwd}:{command}",
        inside=False,
    )


def ending(finished: Finished, seconds: float) -> str:
    """The line that says how a command ended."""
    if finished.timed_out:
        return f"[stopped: not finished after {seconds:g} seconds]"
    if finished.code < 0:
        return f"[killed by {signal_name(-finished.code)}]"
    code = f"[exit code {finished.code}]"
    # Shells report a child's death by a signal as 128 and its number.
    if finished.code > 128 and (name := signal_name(finished.code - 128)).startswith("SIG"):
        code = f"[exit code {finished.code} = 128 + {name}]"
    if finished.left_running:
        return f"[processes left running in the background were ended]\n{code}"
    return code


def signal_name(number: int) -> str:
    """A signal's name, such as ``SIGKILL``."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
