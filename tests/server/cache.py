"""Prompt caching: what a request reads from the cache and writes to it.

A cache entry is a prefix of the prompt (tools, then system, then messages,
block by block) that ended at a cache marker. For each marker, last first, the
server looks for an entry that ends there or up to 20 blocks before; the first
found is read. What lies between it and the last marker is written, if the
prefix is long enough; a prefix that is too short is silently not cached. The
model is part of every entry, and the messages' entries depend on
``tool_choice`` and ``thinking``, too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from tests.server.tokens import Piece
from tests.server.wire import JsonObject, compact, normalised

LOOK_BACK = 20


@dataclass(frozen=True)
class PromptUsage:
    """A prompt's tokens by how they were billed; their sum is the prompt's size."""

    input_tokens: int
    cache_read: int = 0
    cache_written_5m: int = 0
    cache_written_1h: int = 0

    @property
    def total(self) -> int:
        """The prompt's size in tokens."""
        return self.input_tokens + self.cache_read + self.cache_written_5m + self.cache_written_1h

    def body(self, output_tokens: int) -> JsonObject:
        """The response's ``usage``."""
        return {
            "input_tokens": self.input_tokens,
            "cache_creation_input_tokens": self.cache_written_5m + self.cache_written_1h,
            "cache_read_input_tokens": self.cache_read,
            "cache_creation": {
                "ephemeral_5m_input_tokens": self.cache_written_5m,
                "ephemeral_1h_input_tokens": self.cache_written_1h,
            },
            "output_tokens": output_tokens,
            "service_tier": "standard",
        }


@dataclass(frozen=True)
class CachePlan:
    """How a request uses the cache, and the entries that it leaves behind."""

    usage: PromptUsage
    entries: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Breakpoint:
    """A cache marker: the number of the block that it ends, and its lifetime."""

    block: int
    ttl: str


@dataclass
class PromptCache:
    """The entries that earlier requests wrote. They do not expire by themselves."""

    _entries: set[str] = field(default_factory=set)

    def plan(self, body: Mapping[str, Any], pieces: Sequence[Piece], minimum: int) -> CachePlan:
        """What a request would read and write; the cache is not changed.

        ``minimum`` is the shortest prefix in tokens that is cached.
        """
        sizes = list(accumulate(piece.tokens for piece in pieces))
        marks = [mark for mark in breakpoints(body, pieces) if sizes[mark.block] >= minimum]
        if not marks:
            return CachePlan(PromptUsage(sizes[-1]))
        keys = prefix_keys(body, pieces)
        hit = self._longest_hit(keys, marks)
        read = sizes[hit] if hit is not None else 0
        written = {"5m": 0, "1h": 0}
        position = read
        for mark in marks:
            written[mark.ttl] += max(0, sizes[mark.block] - position)
            position = max(position, sizes[mark.block])
        usage = PromptUsage(sizes[-1] - position, read, written["5m"], written["1h"])
        return CachePlan(usage, frozenset(keys[mark.block] for mark in marks))

    def commit(self, plan: CachePlan) -> None:
        """Write a plan's entries; done when its response begins."""
        self._entries |= plan.entries

    def clear(self) -> None:
        """Let every entry expire."""
        self._entries.clear()

    def _longest_hit(self, keys: list[str], marks: list[Breakpoint]) -> int | None:
        for mark in reversed(marks):
            for block in range(mark.block, max(-1, mark.block - LOOK_BACK), -1):
                if keys[block] in self._entries:
                    return block
        return None


def breakpoints(body: Mapping[str, Any], pieces: Sequence[Piece]) -> list[Breakpoint]:
    """The request's cache markers in prompt order.

    A top-level ``cache_control`` marks the last block.
    """
    markers = {number: piece.block.get("cache_control") for number, piece in enumerate(pieces)}
    automatic = body.get("cache_control")
    if automatic is not None:
        markers[len(pieces) - 1] = automatic
    return [
        Breakpoint(number, marker.get("ttl", "5m")) for number, marker in markers.items() if marker
    ]


def prefix_keys(body: Mapping[str, Any], pieces: Sequence[Piece]) -> list[str]:
    """For every block, the name of the prefix that ends with it."""
    digest = hashlib.sha256(str(body["model"]).encode())
    in_messages = False
    keys = []
    for piece in pieces:
        if piece.section == "messages" and not in_messages:
            in_messages = True
            digest.update(compact([body.get("tool_choice"), body.get("thinking")]).encode())
        block = [piece.section, piece.index, piece.role, normalised(piece.block)]
        digest.update(compact(block).encode())
        keys.append(digest.hexdigest())
    return keys
