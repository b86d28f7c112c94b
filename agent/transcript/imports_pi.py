"""Reading pi's session files.

The first line is a header, the others are entries with ``type`` and ``timestamp``. From
version 2 on an entry has an ``id`` and a ``parentId``: the entries are a tree, and the
conversation is the path to the last one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent.transcript.imports_builder import (
    Builder,
    Conversation,
    Json,
    Line,
    Place,
    blocks,
    media,
    plain,
    seconds,
    strings,
)
from agent.wire import usage_from_wire

PROGRAM = "pi"

_STOPS = {"stop": "end_turn", "toolUse": "tool_use", "length": "max_tokens"}
_USAGE = {
    "input_tokens": "input",
    "output_tokens": "output",
    "cache_read_input_tokens": "cacheRead",
    "cache_creation_input_tokens": "cacheWrite",
}
"""What the Messages API calls that program's reasons, and that program its counts."""


def is_pi(lines: Sequence[Line]) -> bool:
    """Whether a file's lines are of this format."""
    begun = any(entry.get("type") == "session" and "timestamp" in entry for _, entry in lines)
    return begun and any(_is_message(entry) for _, entry in lines)


def _is_message(entry: Json) -> bool:
    match entry:
        case {"type": "message", "message": {"role": str()}}:
            return True
        case _:
            return False


def read_pi(lines: Sequence[Line], damaged: int, when: float) -> Conversation:
    """The conversation; ``when`` is the time of entries that have none."""
    builder = Builder(PROGRAM)
    path = _path(lines)
    on_it = {number for number, _ in path}
    left_out = sum(_is_message(entry) and number not in on_it for number, entry in lines)
    for number, entry in path:
        when = seconds(entry, when)
        place = Place(number, when)
        match entry:
            case {"type": "session"}:
                builder.cwd = builder.cwd or next(strings(entry, "cwd"), "")
                builder.model = builder.model or next(strings(entry, "modelId"), "")
            case {"type": "model_change", "modelId": str(model)}:
                builder.changed_model(place, model)
            case {"type": "compaction"}:
                builder.compactions += 1
            case {"type": "branch_summary", "summary": str(summary)}:
                builder.typed(place, f"[A branch that was left, summarised]\n{summary}")
            case {"type": "custom_message"}:
                builder.typed(place, plain(entry.get("content")))
            case {"type": "message", "message": {"role": str()}}:
                _message(builder, place, entry["message"])
    return builder.build(damaged=damaged, left_out=left_out)


def _path(lines: Sequence[Line]) -> list[Line]:
    """The entries from the first to the last one, without those on other branches.

    Where the chain is broken, everything before it is taken.
    """
    tree = {
        own: (number, entry)
        for number, entry in lines
        if "parentId" in entry
        for own in strings(entry, "id")
    }
    if not tree:
        return list(lines)
    on_path: set[int] = set()
    number, entry = list(tree.values())[-1]
    while number not in on_path:
        on_path.add(number)
        parent = next(strings(entry, "parentId"), "")
        if parent in tree:
            number, entry = tree[parent]
        elif entry["parentId"] is not None:
            on_path.update(range(number))
    return [(at, other) for at, other in lines if at in on_path or "parentId" not in other]


def _message(builder: Builder, place: Place, message: Json) -> None:
    match message["role"]:
        case "user" | "custom" | "hookMessage":
            content = message.get("content")
            builder.typed(place, plain(content), tuple(media(content)))
        case "bashExecution" if not message.get("excludeFromContext"):
            command, output = plain(message.get("command")), plain(message.get("output"))
            builder.typed(place, f"Ran `{command}`\n```\n{output}\n```")
        case "toolResult":
            call, error = str(message.get("toolCallId")), bool(message.get("isError"))
            builder.answered(place, call, message.get("content"), is_error=error)
        case "assistant":
            builder.said((place, block) for block in blocks(message.get("content")))
            _end(builder, place, message)


def _end(builder: Builder, place: Place, message: Json) -> None:
    stop, found = str(message.get("stopReason")), message.get("usage")
    used = found if isinstance(found, Mapping) else {}
    usage = usage_from_wire({name: used.get(theirs) for name, theirs in _USAGE.items()})
    if stop == "aborted":
        builder.interrupted(place, "aborted by the user")
    elif stop == "error":
        builder.discarded(place, "the request failed")
    else:
        model = next(strings(message, "model"), "")
        builder.ended(place, _STOPS.get(stop, stop), model, usage)
