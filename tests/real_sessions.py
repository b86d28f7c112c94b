"""Real sessions of other agents, as records of this project.

The sessions stand in ``../shared/data`` beside the repository, where that folder
exists; none of them is part of it. Claude Code and pi sessions are read by the
program's own importer; SWE-agent trajectories, tau-bench trajectories (OpenAI
messages) and CrossWOZ dialogues are mapped here. Nothing is folded: a compaction of
the recording program becomes a :class:`Boundary`, and its summary message is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from agent.messages import Block, TextBlock, ToolUseBlock, Usage
from agent.transcript.imports import read_conversation
from agent.transcript.imports_builder import Builder, Place, json_lines, plain
from agent.wire import compact_json
from tests.real_records import ABSENT, DATA, Boundary, RealSession, real_session

__all__ = ["ABSENT", "DATA", "Boundary", "RealSession", "real_sessions"]

Json: TypeAlias = Mapping[str, Any]


def real_sessions(*kinds: str) -> list[RealSession]:
    """All sessions of the given kinds (the data folder's names), or of all kinds.

    :raises FileNotFoundError: the data folder is absent; see :data:`ABSENT`.
    """
    if not DATA.is_dir():
        raise FileNotFoundError(ABSENT)
    return [
        session
        for kind, (pattern, read) in _FORMATS.items()
        if not kinds or kind in kinds
        for path in sorted((DATA / kind).glob(pattern))
        for session in read(path, path.relative_to(DATA).as_posix())
    ]


def _imported(path: Path, name: str) -> Iterator[RealSession]:
    yield real_session(name, read_conversation(path), entries=json_lines(path)[0])


# SWE-agent, tau-bench, CrossWOZ

_COMMAND = re.compile(r"```\w*\n(.*?)\n```", re.DOTALL)


def _swe_agent(path: Path, name: str) -> Iterator[RealSession]:
    data = json.loads(path.read_text("utf-8"))
    history: list[Json] = data if isinstance(data, list) else data["history"]
    yield _chat(name, enumerate(map(_as_call, range(1, len(history) + 1), _observed(history)), 1))


def _observed(history: list[Json]) -> Iterator[Json]:
    """A user message after an action is that action's output, not a typed message."""
    acted = False
    for message in history:
        yield {**message, "role": "tool"} if acted and message["role"] == "user" else message
        acted = message["role"] == "assistant"


def _as_call(number: int, message: Json) -> Json:
    """A message in OpenAI's form, where an action or an output may have been plain text."""
    if message["role"] == "tool":
        return {**message, "tool_call_id": (message.get("tool_call_ids") or [_call(number - 1)])[0]}
    if message["role"] == "assistant" and not message.get("tool_calls"):
        fenced = _COMMAND.findall(message["content"])
        command = message.get("action") or (fenced[-1] if fenced else "")
        function = {"name": "bash", "arguments": compact_json({"command": command})}
        return {**message, "tool_calls": [{"id": _call(number), "function": function}]}
    return message


def _call(number: int) -> str:
    return f"call_{number}"


def _chat(
    name: str, messages: Iterable[tuple[int, Json]], facts: Iterable[str] = ()
) -> RealSession:
    """A conversation in OpenAI's form."""
    numbered = list(messages)
    builder = Builder("OpenAI messages", model="model")
    system = (plain(message["content"]) for _, message in numbered if message["role"] == "system")
    for number, message in numbered:
        place, content = Place(number), plain(message.get("content"))
        match message["role"]:
            case "user":
                builder.typed(place, content)
            case "tool":
                builder.answered(place, message["tool_call_id"], content)
            case "assistant":
                builder.said((place, block) for block in _chat_blocks(content, message))
                stop = "tool_use" if message.get("tool_calls") else "end_turn"
                builder.ended(place, stop, "model", Usage())
    return real_session(name, builder.build(), "\n\n".join(system), facts)


def _chat_blocks(content: str, message: Json) -> Iterator[Block]:
    if content:
        yield TextBlock(content)
    for call in message.get("tool_calls") or ():
        function = call["function"]
        yield ToolUseBlock(call["id"], function["name"], json.loads(function["arguments"]))


def _tau_bench(path: Path, name: str) -> Iterator[RealSession]:
    for number, entry in json_lines(path)[0]:
        actions = entry["info"]["task"]["actions"]
        facts = (text for action in actions for text in _literals(action["kwargs"]))
        yield _chat(f"{name}:{number}", enumerate(entry["traj"], 1), facts)


def _literals(value: object) -> Iterator[str]:
    match value:
        case Mapping():
            for item in value.values():
                yield from _literals(item)
        case list():
            for item in value:
                yield from _literals(item)
        case str() | int() | float():
            yield str(value)


_WOZ_ROLES = {"usr": "user", "sys": "assistant"}


def _crosswoz(path: Path, name: str) -> Iterator[RealSession]:
    for key, dialogue in json.loads(path.read_text("utf-8")).items():
        messages = (
            {"role": _WOZ_ROLES[message["role"]], "content": message["content"]}
            for message in dialogue["messages"]
        )
        facts = (text for slot in dialogue["final_goal"] for text in _literals(slot[3]))
        yield _chat(f"{name}:{key}", enumerate(messages, 1), facts)


_FORMATS = {
    "claude_code": ("*/*.jsonl", _imported),
    "pi_sessions": ("*.jsonl", _imported),
    "swe_agent": ("*.traj*", _swe_agent),
    "tau_bench_airline": ("*.jsonl", _tau_bench),
    "crosswoz_zh": ("*.json", _crosswoz),
}
"""How the files of each kind are named and read."""
