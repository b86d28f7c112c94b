"""Real sessions of other agents, as records of this project.

The sessions stand in ``../shared/data`` beside the repository, where that folder
exists; none of them is part of it. Five formats are mapped: Claude Code and pi
sessions (JSON lines), SWE-agent trajectories, tau-bench trajectories (OpenAI
messages) and CrossWOZ dialogues. Nothing is folded: a compaction of the recording
product becomes a :class:`Boundary`, and its summary message is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from agent.messages import Block, TextBlock, ThinkingBlock, ToolUseBlock, Usage
from agent.transcript.records import (
    DiscardedRecord,
    InterruptedRecord,
    ModelRecord,
    ToolResultRecord,
)
from agent.wire import compact_json
from tests.real_records import ABSENT, DATA, Boundary, Builder, Json, RealSession, json_lines, plain

__all__ = ["ABSENT", "DATA", "Boundary", "RealSession", "real_sessions"]


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


# Claude Code

_INTERRUPTED = "[Request interrupted by user"
_NOT_SENT = ("<command-name>", "<local-command-", "Caveat: The messages below were generated")


def _claude_code(path: Path, name: str) -> Iterator[RealSession]:
    entries = [(number, entry) for number, entry in json_lines(path) if _counts(entry)]
    messages: dict[str, list[tuple[int, Json]]] = {}
    for number, entry in entries:
        if entry["type"] == "assistant":
            messages.setdefault(entry["message"]["id"], []).append((number, entry["message"]))
    builder = Builder(name)
    first = next((parts[0][1]["model"] for parts in messages.values()), "")
    builder.start(first, cwd=next((entry["cwd"] for _, entry in entries if "cwd" in entry), "/"))
    boundary: tuple[int, Json] | None = None
    for number, entry in entries:
        if entry["type"] == "system":
            boundary = (number, entry["compactMetadata"])
        elif entry["type"] == "assistant":
            _claude_said(builder, messages.pop(entry["message"]["id"], []))
        elif entry.get("isCompactSummary") and boundary is not None:
            line, meta = boundary
            summary = plain(entry["message"]["content"])
            builder.compacted(line, line, summary, meta["trigger"], meta["preTokens"])
        else:
            _claude_user(builder, number, entry)
    yield builder.build()


def _counts(entry: Json) -> bool:
    """Whether a line is part of the conversation itself."""
    if entry.get("isSidechain"):
        return False
    kind = entry.get("type")
    return kind in {"user", "assistant"} or entry.get("subtype") == "compact_boundary"


def _claude_said(builder: Builder, parts: list[tuple[int, Json]]) -> None:
    """One assistant message; its blocks are on several lines that share its id."""
    if not parts:
        return
    placed = [
        (number, block)
        for number, message in parts
        for block in map(_claude_block, message["content"])
    ]
    builder.said(placed)
    number, last = parts[-1]
    stop = last.get("stop_reason") or (
        "tool_use" if any(isinstance(block, ToolUseBlock) for _, block in placed) else "end_turn"
    )
    builder.ended(number, stop, last["model"], _claude_usage(last.get("usage") or {}))


def _claude_block(block: Json) -> Block:
    match block:
        case {"type": "thinking"}:
            return ThinkingBlock(block["thinking"], block.get("signature") or "")
        case {"type": "tool_use"}:
            return ToolUseBlock(block["id"], block["name"], block["input"])
        case _:
            return TextBlock(plain(block))


def _claude_usage(usage: Mapping[str, Any]) -> Usage:
    return Usage(
        usage.get("input_tokens") or 0,
        usage.get("output_tokens") or 0,
        usage.get("cache_read_input_tokens") or 0,
        usage.get("cache_creation_input_tokens") or 0,
    )


def _claude_user(builder: Builder, number: int, entry: Json) -> None:
    content = entry["message"]["content"]
    blocks: list[Json] = (
        content if isinstance(content, list) else [{"type": "text", "text": str(content)}]
    )
    results = [block for block in blocks if block["type"] == "tool_result"]
    for block in results:
        error = bool(block.get("is_error"))
        result = plain(block.get("content"))
        builder.answered(number, block["tool_use_id"], result, is_error=error)
    text = plain([block for block in blocks if block["type"] != "tool_result"])
    last = builder.records[-1]
    if text.startswith(_INTERRUPTED):
        builder.add(number, InterruptedRecord(text))
    elif text.startswith(_NOT_SENT):
        return
    elif entry.get("isMeta") and isinstance(last, ToolResultRecord):
        # The text of a skill, which that product adds after the call's result.
        joined = f"{last.content}\n\n{text}"
        builder.records[-1] = ToolResultRecord(last.tool_use_id, joined, last.is_error)
    else:
        builder.typed(number, text)


# pi


def _pi(path: Path, name: str) -> Iterator[RealSession]:
    builder = Builder(name)
    index_to_line: list[int] = []
    for number, entry in json_lines(path):
        index_to_line.append(number)
        match entry:
            case {"type": "session"}:
                builder.start(entry["modelId"], cwd=entry["cwd"])
            case {"type": "model_change"}:
                builder.add(number, ModelRecord(entry["modelId"]))
            case {"type": "compaction"}:
                kept = index_to_line[entry["firstKeptEntryIndex"]]
                size = entry["tokensBefore"]
                builder.compacted(number, kept, entry["summary"], "auto", size)
            case {"type": "message", "message": message}:
                _pi_message(builder, number, message)
    yield builder.build()


def _pi_message(builder: Builder, number: int, message: Json) -> None:
    match message["role"]:
        case "user":
            builder.typed(number, plain(message["content"]))
        case "bashExecution":
            output = f"Ran `{message['command']}`\n```\n{message['output']}\n```"
            builder.typed(number, output)
        case "toolResult":
            content, error = plain(message["content"]), bool(message.get("isError"))
            builder.answered(number, message["toolCallId"], content, is_error=error)
        case "assistant":
            builder.said((number, _pi_block(block)) for block in message["content"])
            _pi_end(builder, number, message)


def _pi_block(block: Json) -> Block:
    match block:
        case {"type": "thinking"}:
            return ThinkingBlock(block["thinking"], block.get("thinkingSignature") or "")
        case {"type": "toolCall"}:
            return ToolUseBlock(block["id"], block["name"], block["arguments"])
        case _:
            return TextBlock(plain(block))


def _pi_end(builder: Builder, number: int, message: Json) -> None:
    stop, used = message["stopReason"], message["usage"]
    usage = Usage(used["input"], used["output"], used["cacheRead"], used["cacheWrite"])
    if stop == "aborted":
        builder.add(number, InterruptedRecord("aborted by the user"))
    elif stop == "error":
        builder.add(number, DiscardedRecord("the request failed"))
    else:
        builder.ended(number, stop, message["model"], usage)


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
    """A conversation in OpenAI's form.

    Ids of calls that come twice, as in replays, are told apart by the message's number.
    """
    ids: dict[str, str] = {}
    numbered = list(messages)
    builder = Builder(name)
    system = (plain(message["content"]) for _, message in numbered if message["role"] == "system")
    builder.start("model", "\n\n".join(system))
    for number, message in numbered:
        content = plain(message.get("content"))
        match message["role"]:
            case "user":
                builder.typed(number, content)
            case "tool":
                builder.answered(number, ids[message["tool_call_id"]], content)
            case "assistant":
                for call in message.get("tool_calls") or ():
                    known = call["id"] in ids
                    ids[call["id"]] = f"{call['id']}-{number}" if known else call["id"]
                builder.said((number, block) for block in _chat_blocks(content, message, ids))
                stop = "tool_use" if message.get("tool_calls") else "end_turn"
                builder.ended(number, stop, "model", Usage())
    return builder.build(facts)


def _chat_blocks(content: str, message: Json, ids: Mapping[str, str]) -> Iterator[Block]:
    if content:
        yield TextBlock(content)
    for call in message.get("tool_calls") or ():
        function = call["function"]
        yield ToolUseBlock(ids[call["id"]], function["name"], json.loads(function["arguments"]))


def _tau_bench(path: Path, name: str) -> Iterator[RealSession]:
    for number, entry in json_lines(path):
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
    "claude_code": ("*/*.jsonl", _claude_code),
    "pi_sessions": ("*.jsonl", _pi),
    "swe_agent": ("*.traj*", _swe_agent),
    "tau_bench_airline": ("*.jsonl", _tau_bench),
    "crosswoz_zh": ("*.json", _crosswoz),
}
"""How the files of each kind are named and read."""
