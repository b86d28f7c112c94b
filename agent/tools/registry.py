"""The tools of a session, and running one call of a model.

A call is run in three steps, so that a record can be written between them::

    prepared = toolbox.prepare(call, context)       # Prepared, or the error result
    decision = await approval.decide(prepared.action)
    outcome = await toolbox.run(prepared, folder)   # or refused(decision)
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from agent.errors import ToolError
from agent.messages import ToolSpec, ToolUseBlock, scrub
from agent.tools.arguments import checked, one_line
from agent.tools.base import Action, Decision, Tool, ToolContext, ToolOutcome
from agent.tools.edit_file import EditFile
from agent.tools.grep import Grep
from agent.tools.limits import BoundedOutcome, bounded, cap
from agent.tools.list_dir import ListDir
from agent.tools.read_file import ReadFile
from agent.tools.recall import Recall
from agent.tools.shell import Shell
from agent.tools.write_file import WriteFile

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Prepared:
    """A call that may be run once ``action`` is allowed."""

    tool: Tool
    arguments: Mapping[str, object]
    action: Action
    context: ToolContext


def default_tools() -> tuple[Tool, ...]:
    """The built-in tools, always in the same order: a model's cache depends on it."""
    return (ReadFile(), ListDir(), Grep(), WriteFile(), EditFile(), Shell(), Recall())


class ToolBox:
    """Finds, checks and runs the tools that a model calls.

    Whatever is wrong with a call or goes wrong in a tool becomes an error result
    for the model. Only cancellation passes through.
    """

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools = {tool.spec.name: tool for tool in tools}

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """What the model is told, in the order of the tools."""
        return tuple(tool.spec for tool in self._tools.values())

    @property
    def short_specs(self) -> tuple[ToolSpec, ...]:
        """As :attr:`specs`, without what a model can do without: for small windows."""
        return tuple(map(_shortened, self.specs))

    def summary(self, name: str, arguments: Mapping[str, object]) -> str:
        """A call in a few words, on one line. Never raises."""
        tool = self._tools.get(name)
        return tool.summary(arguments) if tool else one_line(dict(arguments))

    def prepare(self, call: ToolUseBlock, context: ToolContext) -> Prepared | BoundedOutcome:
        """Check a call and find out what it would do; changes nothing."""
        try:
            return self._prepared(call, context)
        # A bug in one tool must not end the conversation; the model can go another way.
        except Exception as error:
            logger.debug("call of %s failed", call.name, exc_info=True)
            return BoundedOutcome(cap(_told(error), context.max_chars, ""), is_error=True)

    def _prepared(self, call: ToolUseBlock, context: ToolContext) -> Prepared:
        if call.defect:
            raise ToolError(f"Not run: {call.defect}")
        tool = self._tools.get(call.name)
        if tool is None:
            names = ", ".join(self._tools)
            raise ToolError(f"There is no tool {one_line(call.name)!r}; there are: {names}.")
        arguments = checked(tool.spec.input_schema, call.input)
        return Prepared(tool, arguments, tool.plan(arguments, context), context)

    async def run(self, prepared: Prepared, folder: Path) -> BoundedOutcome:
        """Run an allowed call; ``folder`` keeps an output that is too long for the model."""
        context = replace(prepared.context, approved=prepared.action)
        try:
            outcome = await prepared.tool.run(prepared.arguments, context)
        # As in prepare; a record of the call's start is already written and wants its end.
        except Exception as error:
            logger.debug("tool %s failed", prepared.tool.spec.name, exc_info=True)
            outcome = ToolOutcome(_told(error), is_error=True)
        return bounded(outcome, context, prepared.tool.spec.name, folder)


def _shortened(spec: ToolSpec) -> ToolSpec:
    """The first sentence of a description, and the arguments without descriptions."""
    first, _, _ = spec.description.partition(". ")
    properties = spec.input_schema.get("properties")
    typed = properties.items() if isinstance(properties, dict) else ()
    return replace(
        spec,
        description=first.partition(";")[0].rstrip("."),
        input_schema={
            "type": "object",
            "properties": {name: {"type": value["type"]} for name, value in typed},
            "required": spec.input_schema.get("required", []),
        },
    )


def refused(decision: Decision) -> BoundedOutcome:
    """The result of a call that was not allowed."""
    return BoundedOutcome(scrub(decision.reason) or "Not allowed.", is_error=True)


def _told(error: Exception) -> str:
    """An error as the model is told of it."""
    text = str(error) if isinstance(error, ToolError) else f"{type(error).__name__}: {error}"
    return scrub(text)
