"""What the tests of the tools share: a context, and running a tool as the loop does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from agent.messages import ToolUseBlock
from agent.tools.base import Tool, ToolContext, ToolOutcome
from agent.tools.limits import BoundedOutcome
from agent.tools.registry import Prepared, ToolBox


def context_in(
    cwd: Path,
    *,
    max_chars: int = 20_000,
    timeout_seconds: float = 20.0,
    emit: Callable[[str], None] = lambda _: None,
) -> ToolContext:
    """A context whose transcripts are where a session has them."""
    return ToolContext(cwd, cwd / ".transcripts", max_chars, timeout_seconds, emit)


async def run_tool(tool: Tool, context: ToolContext, **arguments: object) -> ToolOutcome:
    """Plan a call and run it."""
    tool.plan(arguments, context)
    return await tool.run(arguments, context)


async def run_call(
    toolbox: ToolBox, context: ToolContext, name: str, **arguments: object
) -> BoundedOutcome:
    """Prepare a model's call and run it without asking."""
    prepared = toolbox.prepare(ToolUseBlock("call-1", name, arguments), context)
    if not isinstance(prepared, Prepared):
        return prepared
    return await toolbox.run(prepared, context.transcripts / "session")
