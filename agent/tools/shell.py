"""The tool that runs a command."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from agent.errors import ToolError
from agent.messages import ToolSpec
from agent.tools.arguments import object_schema, one_line, text
from agent.tools.base import Action, ToolContext, ToolOutcome
from agent.tools.process import Finished, OutputBuffer, outside_program, run_program
from agent.tools.sandbox import MISSED

MAX_TIMEOUT_SECONDS = 600.0
_IN_SANDBOX = (
    "[This ran in a sandbox: no network; only the working folder (not .git) and a /tmp of its "
    "own can be written; most of the home folder is not there.]"
)


class Shell:
    """Runs a bash command in the working folder and shows its output and exit code.

    Nothing is decided from the command's text: whatever it begins with, it may
    do anything, so it is always an ``execute`` action. Where there is a sandbox it
    runs in there; running it again outside is another action, of which the person is
    asked after it has failed. No argument of the call says so.
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
        sandboxed = _is_sandboxed(context)
        outcome = await _run(command, seconds, context, sandboxed=sandboxed)
        if not sandboxed or not _was_denied(outcome.content):
            return outcome
        inside = f"{outcome.content}\n{_IN_SANDBOX}"
        if context.ask is None:
            return replace(outcome, content=inside)
        decision = await context.ask(shell_action(command, context.cwd, again_outside=True))
        if not decision.allowed:
            return replace(outcome, content=f"{inside}\n[not run outside it: {decision.reason}]")
        outside = await _run(command, seconds, context, sandboxed=False)
        content = f"{inside}\n[run again outside the sandbox:]\n{outside.content}"
        return replace(outside, content=content)


async def _run(
    command: str, seconds: float, context: ToolContext, *, sandboxed: bool
) -> ToolOutcome:
    """Run a command once, in the sandbox or outside it."""
    buffer = OutputBuffer(context.emit)

    def consume(data: bytes) -> bool:
        buffer.feed(data)
        return True

    bash = outside_program("bash", context.cwd)
    program = [bash, "--noprofile", "--norc"] if bash else ["/bin/sh"]
    program += ["-c", "--", command]
    try:
        if sandboxed and context.sandbox is not None:
            program = context.sandbox.command(program)
        finished = await run_program(program, context.cwd, seconds, consume)
        # What builds the room may end a moment after the command; nothing outlives either.
        finished = replace(finished, left_running=finished.left_running and not sandboxed)
    except OSError as error:
        raise ToolError(f"The command could not be started: {error}.") from error
    buffer.feed(b"", final=True)
    output = buffer.text()
    if output and not output.endswith("\n"):
        output += "\n"
    failed = finished.timed_out or finished.code < 0
    return ToolOutcome(output + ending(finished, seconds), is_error=failed)


def _is_sandboxed(context: ToolContext) -> bool:
    """Whether commands run in the sandbox.

    Raises:
        ToolError: the user wants one, and there is none that works here.
    """
    sandbox = context.sandbox
    if sandbox is None or sandbox.works():
        return sandbox is not None
    if sandbox.required:
        raise ToolError(f"Not run: no sandbox works here ({sandbox.why_not}).")
    return False


def _was_denied(result: str) -> bool:
    """Whether a command failed, and perhaps because of the sandbox."""
    said = result.casefold()
    return not said.endswith("[exit code 0]") and any(words in said for words in MISSED)


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
    title = "Run a command"
    if context.sandbox is not None:
        boxed = _is_sandboxed(context)
        title += " in the sandbox" if boxed else f" WITHOUT a sandbox: {context.sandbox.why_not}"
    return replace(shell_action(command, context.cwd), title=title)


def shell_action(command: str, cwd: Path, *, again_outside: bool = False) -> Action:
    """The action of running a command; running it again outside the sandbox is another one."""
    return Action(
        kind="execute",
        title="It failed in the sandbox. Run it again OUTSIDE the sandbox",
        detail=command,
        key=f"shell{'-outside' * again_outside}:{cwd}:{command}",
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
