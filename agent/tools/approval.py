"""Whether an action may be done: by rule, or by asking a person."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Literal, TypeAlias

from agent.tools.base import Action, Approver, Decision

Mode: TypeAlias = Literal["ask", "read-only", "auto-edit", "yolo"]
Verdict: TypeAlias = Literal["allow", "ask", "refuse"]

MODES: tuple[Mode, ...] = ("ask", "read-only", "auto-edit", "yolo")


def judge(mode: Mode, action: Action, allowed_keys: AbstractSet[str]) -> Verdict:
    """What the rules say of an action.

    ========== ============ ============ ============= ========
    mode       read inside  read outside write inside  the rest
    ========== ============ ============ ============= ========
    ask        allow        ask          ask           ask
    read-only  allow        ask          refuse        refuse
    auto-edit  allow        ask          allow         ask
    yolo       allow        allow        allow         allow
    ========== ============ ============ ============= ========

    A write to a protected place counts as "the rest". What a command's text looks
    like decides nothing. ``allowed_keys`` are the actions allowed "always"; they
    are asked about no more, but do not widen ``read-only``.
    """
    if mode == "yolo" or (action.kind == "read" and action.inside):
        return "allow"
    if mode == "read-only" and action.kind != "read":
        return "refuse"
    if action.key in allowed_keys:
        return "allow"
    free_write = action.kind == "write" and action.inside and not action.protected
    return "allow" if mode == "auto-edit" and free_write else "ask"


class Approval:
    """Decides on actions for a session: the mode, the person, what was allowed "always".

    ``approver`` asks the person; with ``None``, what would be asked is refused.
    Never more than one question is open. ``mode`` may be changed at any time.
    ``allowed_keys`` are actions that were allowed beforehand, as by "always".
    """

    def __init__(
        self, mode: Mode, approver: Approver | None, allowed_keys: Iterable[str] = ()
    ) -> None:
        self.mode = mode
        self._approver = approver
        self._allowed_keys = set(allowed_keys)
        self._asking = asyncio.Lock()

    async def decide(self, action: Action) -> Decision:
        """Whether an action may be done; a no has its reason for the model."""
        return await self._decide(action, self.mode)

    async def ask(self, action: Action) -> Decision:
        """What a person says of an action that no mode allows, ``yolo`` neither."""
        return await self._decide(action, "read-only" if self.mode == "read-only" else "ask")

    async def _decide(self, action: Action, mode: Mode) -> Decision:
        verdict = judge(mode, action, self._allowed_keys)
        if verdict != "ask":
            return self._by_rule(verdict)
        if self._approver is None:
            return Decision(
                allowed=False,
                reason="Not run: nobody can be asked in this mode; only what needs no approval "
                "is run. Go on without it, or say what should be done by hand.",
            )
        async with self._asking:
            # The answer to the question before may have settled this one.
            verdict = judge(mode, action, self._allowed_keys)
            if verdict != "ask":
                return self._by_rule(verdict)
            decision = await self._approver(action)
        if not decision.allowed:
            reason = decision.reason.strip()
            said = f"The user said no: {reason}" if reason else "The user said no."
            return replace(decision, reason=said)
        if decision.always:
            self._allowed_keys.add(action.key)
        return decision

    def _by_rule(self, verdict: Verdict) -> Decision:
        if verdict == "allow":
            return Decision(allowed=True)
        return Decision(
            allowed=False,
            reason="Not run: in read-only mode nothing is written and no command is run.",
        )
