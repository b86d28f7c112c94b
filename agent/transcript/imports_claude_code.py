"""Reading Claude Code's session files.

A line is an entry with ``type``, ``uuid``, ``parentUuid`` and ``timestamp``. Blocks of
one assistant message stand on lines of their own that share ``message.id``; each tool
result is a user entry. The entries are read in the order of the file: the chain of
``parentUuid`` is known to leave out results of parallel calls. It only shows where the
user went back: two typed messages that have the same parent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agent.messages import ToolUseBlock
from agent.transcript.imports_builder import (
    Builder,
    Conversation,
    Json,
    Line,
    Place,
    blocks,
    items,
    media,
    plain,
    seconds,
    strings,
)
from agent.wire import usage_from_wire

PROGRAM = "Claude Code"

_INTERRUPTED = "[Request interrupted by user"
_NOT_SENT = ("<command-name>", "<local-command-", "Caveat: The messages below were generated")
_NOT_TYPED = re.compile(r"<task-notification>|/[\w:-]+(?:\s|$)")
"""What stands in the queue besides messages: notifications and commands."""


def is_claude_code(lines: Sequence[Line]) -> bool:
    """Whether a file's lines are of this format."""
    return any(_is_message(entry) for _, entry in lines)


def _is_message(entry: Json) -> bool:
    match entry:
        case {"type": "user" | "assistant", "message": {"content": str() | list()}}:
            return "parentUuid" in entry
        case _:
            return False


def read_claude_code(lines: Sequence[Line], damaged: int, when: float) -> Conversation:
    """The conversation; ``when`` is the time of entries that have none."""
    reader = _Reader(Builder(PROGRAM), when)
    counted = [(number, entry) for number, entry in lines if not _is_aside(entry)]
    for number, entry in counted:
        match entry:
            case {"type": "assistant", "message": {"content": str() | list()}}:
                reader.parts.setdefault(_message_id(number, entry), []).append((number, entry))
    for number, entry in counted:
        reader.follow(number, entry)
    return reader.builder.build(damaged=damaged)


def _is_aside(entry: Json) -> bool:
    """Whether an entry is not part of the conversation itself."""
    match entry:
        case {"type": "assistant", "message": {"model": "<synthetic>"}}:
            return True
        case _:
            return bool(entry.get("isSidechain") or entry.get("isApiErrorMessage"))


def _message_id(number: int, entry: Json) -> str:
    return next(strings(entry["message"], "id"), f"line {number}")


@dataclass
class _Reader:
    builder: Builder
    when: float
    parts: dict[str, list[Line]] = field(default_factory=dict)
    """The lines of each assistant message that was not read yet."""

    compacted: bool = False
    queue: list[tuple[Place, str]] = field(default_factory=list)
    delivered: set[str] = field(default_factory=set)
    started: dict[str, int] = field(default_factory=dict)
    """The last turn that began with a message of this parent."""

    def follow(self, number: int, entry: Json) -> None:
        self.when = seconds(entry, self.when)
        self.builder.cwd = self.builder.cwd or next(strings(entry, "cwd"), "")
        place = Place(number, self.when)
        match entry:
            case {"type": "system", "subtype": "compact_boundary"}:
                self.compacted = True
            case {"type": "assistant", "message": {"content": str() | list()}}:
                self._said(self.parts.pop(_message_id(number, entry), []))
            case {"type": "queue-operation", "operation": str(operation)}:
                self._queued(place, operation, entry)
            case {"type": "attachment", "attachment": {"type": "queued_command"} as queued}:
                self._delivered(place, plain(queued.get("prompt")))
            case {"type": "user", "message": {"content": str() | list()}}:
                if entry.get("isCompactSummary") and self.compacted:
                    self.builder.compactions += 1
                else:
                    self._user(place, entry)

    def _said(self, parts: Sequence[Line]) -> None:
        """One assistant message, from all its lines."""
        if not parts:
            return
        placed = [
            (Place(number, seconds(entry, self.when)), block)
            for number, entry in parts
            for block in blocks(entry["message"]["content"])
        ]
        self.builder.said(placed)
        number, last = parts[-1]
        called = any(isinstance(block, ToolUseBlock) for _, block in placed)
        message = last["message"]
        stop = next(strings(message, "stop_reason"), "tool_use" if called else "end_turn")
        model = next(strings(message, "model"), "")
        place = Place(number, seconds(last, self.when))
        used = message.get("usage")
        usage = usage_from_wire(used if isinstance(used, Mapping) else {})
        self.builder.ended(place, stop, model, usage)

    def _queued(self, place: Place, operation: str, entry: Json) -> None:
        """What was typed while a turn was running.

        A queued message is taken out again as a turn of its own (``dequeue``, and a user
        entry follows), put back into the input line (``popAll``), or given to the model in
        the running turn (``remove``), of which files of some versions keep nothing else.
        """
        match operation:
            case "enqueue":
                self.queue += [(place, text) for text in strings(entry, "content")]
            case "dequeue":
                self.queue = self.queue[1:]
            case "remove":
                for queued, text in self.queue:
                    self._delivered(queued, text)
                self.queue = []
            case _:
                self.queue = []

    def _delivered(self, place: Place, text: str) -> None:
        if not _NOT_TYPED.match(text) and text not in self.delivered:
            self.delivered.add(text)
            self.builder.typed(place, text)

    def _user(self, place: Place, entry: Json) -> None:
        others: list[object] = []
        for block in items(entry["message"]["content"]):
            match block:
                case {"type": "tool_result", "tool_use_id": str(call)}:
                    error = bool(block.get("is_error"))
                    self.builder.answered(place, call, block.get("content"), is_error=error)
                case _:
                    others.append(block)
        text = plain(others)
        if text.startswith(_INTERRUPTED):
            self.builder.interrupted(place, text)
        elif text.startswith(_NOT_SENT):
            return
        elif not (entry.get("isMeta") and self.builder.appended(text)):
            # Else the text of a skill, which that program adds after the call's result.
            self._typed(place, entry, others)

    def _typed(self, place: Place, entry: Json, content: list[object]) -> None:
        parent = "" if entry.get("isMeta") else next(strings(entry, "parentUuid"), "")
        if parent in self.started:
            self.builder.rewound(place, self.started[parent])
        before = self.builder.turns
        self.builder.typed(place, plain(content), tuple(media(content)))
        self.delivered.clear()
        if parent and self.builder.turns > before:
            self.started[parent] = self.builder.turns
