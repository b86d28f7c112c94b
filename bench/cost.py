"""What does a long conversation cost? Real sessions replayed under a budget.

``python -m bench.cost`` replays every real session that outgrows the budget, request by
request. Agent chat goes through its own transcript, view and ladder; the other policies
are a few lines each, and are given true sizes for nothing. All have the same system
prompt, tools, cache markers, capped tool results and summaries of the same length; the
window is the one of which the budget is the default share.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path

from agent.context import ladder
from agent.context.budget import WINDOW_SHARE, make_budget
from agent.context.engine import ContextEngine
from agent.context.validity import history_fault
from agent.messages import Message, TextBlock, Usage
from agent.providers.base import BlockPart, EndPart, Limits, Part, Request, SummaryForm
from agent.tools.limits import cap
from agent.transcript.records import (
    AssistantEndRecord,
    BlockRecord,
    ModelRecord,
    Record,
    SessionRecord,
    ToolResultRecord,
    ToolStartRecord,
)
from agent.transcript.store import Transcript
from agent.transcript.turns import Turn
from agent.transcript.view import View, apply
from bench.common import Target, print_table, print_targets, thousands
from bench.policies import (
    SUMMARY,
    SUMMARY_TOKENS,
    SYSTEM,
    TOOLS,
    Bill,
    LastMessages,
    MinimalAgent,
    NoCompaction,
    Policy,
    Prompts,
    SummariseAll,
    flat,
)
from tests.real_sessions import ABSENT, DATA, RealSession, real_sessions

BUDGETS = (40_000, 100_000)
KINDS = ("claude_code", "pi_sessions")
"""The sessions that outgrow a budget are among these."""

MOST_OUTPUT = 32_000
RESULT_CHARS = 30_000

OURS = "agent chat"
LEANEST = "summary at the budget, keeping nothing"

RIVALS: Mapping[str, Callable[[int, int], Policy]] = {
    "no compaction": lambda _budget, _window: NoCompaction(),
    "last 20 messages": lambda _budget, _window: LastMessages(repaired=False),
    "last 20 messages, repaired": lambda _budget, _window: LastMessages(repaired=True),
    "minimal-agent": lambda budget, _window: MinimalAgent(budget),
    "summary on overflow, no cache": lambda _budget, window: SummariseAll(window),
    LEANEST: lambda budget, _window: SummariseAll(budget),
}
"""Makes a policy for a budget and a window in tokens."""


@dataclass
class BilledProvider:
    """Answers summary requests, and counts tokens as the test server does."""

    bill: Bill
    summary_form: SummaryForm = "inline"

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """See :meth:`.base.Provider.stream`."""
        prompt = self.bill.charge(request.messages)
        self.bill.summaries += 1
        yield BlockPart(TextBlock(SUMMARY))
        yield EndPart("end_turn", Usage(prompt, SUMMARY_TOKENS))

    async def count(self, request: Request) -> int | None:
        """See :meth:`.base.Provider.count`."""
        return self.bill.prompts.size(request.messages)

    async def limits(self, model: str) -> Limits | None:
        """See :meth:`.base.Provider.limits`."""
        return None

    async def close(self) -> None:
        """Nothing to release."""


@dataclass
class Step:
    """What came before a request, and its answer; ``end`` is ``None`` after the last one."""

    before: list[Record] = field(default_factory=list)
    answer: list[BlockRecord] = field(default_factory=list)
    end: AssistantEndRecord | None = None


def steps(session: RealSession) -> list[Step]:
    """The session request by request, without records that make no difference here."""
    found = [Step()]
    for record in session.records[1:]:
        step = found[-1]
        match record:
            case BlockRecord():
                step.answer.append(record)
            case AssistantEndRecord():
                step.end = record
                found.append(Step())
            case ModelRecord() | ToolStartRecord():
                pass
            case _:
                # Blocks that something else follows are of an answer that was broken off.
                step.before.extend([*step.answer, _capped(record)])
                step.answer.clear()
    return found


def _capped(record: Record) -> Record:
    if isinstance(record, ToolResultRecord):
        return replace(record, content=cap(record.content, RESULT_CHARS, ""))
    return record


def first_record(session: RealSession) -> SessionRecord:
    """The first record, with this project's system prompt and tools."""
    first = session.records[0]
    assert isinstance(first, SessionRecord)
    return replace(first, id="replay", system=SYSTEM, tools=TOOLS)


def requests_of(session: RealSession) -> list[tuple[Turn, ...]]:
    """The turns that stood at each request."""
    view = apply(View(), first_record(session))
    found = []
    for step in steps(session):
        for record in step.before:
            view = apply(view, record)
        if step.end is not None:
            found.append(view.turns)
            answered: list[Record] = [*step.answer, step.end]
            for record in answered:
                view = apply(view, record)
    return found


def replay(requests: Iterable[Sequence[Turn]], policy: Policy, bill: Bill) -> Bill:
    """Send every request by a policy, up to the first that would be refused."""
    for turns in requests:
        bill.charge(policy.messages(turns, bill))
        if not bill.survived:
            break
    return bill


async def replay_here(session: RealSession, budget: int, bill: Bill, folder: Path) -> Bill:
    """Send every request by this project's own view and ladder, as the loop does."""
    transcript = Transcript.start(folder / ".transcripts", ".transcripts", first_record(session))
    engine = ContextEngine(
        provider=BilledProvider(bill),
        transcript=transcript,
        budget=make_budget(Limits(bill.window, MOST_OUTPUT, "the bench"), budget, MOST_OUTPUT),
        keep_recent_turns=5,
    )
    for step in steps(session):
        for record in step.before:
            transcript.append(record)
        if step.end is None:
            break
        async with aclosing(ladder.fit(engine)) as events:
            async for _ in events:
                pass
        prompt = bill.charge(engine.view.messages)
        bill.invalid += history_fault(engine.view.messages) != ""
        factor = engine.meter.learnt(engine.view, prompt)
        for block in step.answer:
            transcript.append(block)
        said = Message("assistant", tuple(block.block for block in step.answer))
        usage = Usage(prompt, bill.prompts.message(said) if step.answer else 1)
        transcript.append(replace(step.end, usage=usage, factor=factor, prompt_tokens=prompt))
    transcript.close()
    return bill


def bills(session: RealSession, budget: int) -> dict[str, Bill] | None:
    """What each policy costs; ``None`` for a session that stays within the budget."""
    window = round(budget / WINDOW_SHARE)
    requests, prompts = requests_of(session), Prompts()
    if not requests or prompts.size(flat(requests[-1])) <= budget:
        return None
    found = {
        name: replay(requests, make(budget, window), Bill(prompts, window))
        for name, make in RIVALS.items()
    }
    with tempfile.TemporaryDirectory() as folder:
        run = replay_here(session, budget, Bill(prompts, window), Path(folder))
        return {OURS: asyncio.run(run), **found}


def print_costs(budget: int, found: Sequence[Mapping[str, Bill]]) -> list[Target]:
    """One table for a budget; the targets."""
    rows, targets = [], []
    for name in (OURS, *RIVALS):
        billed = [session[name] for session in found]
        alive = [session for session in found if session[name].survived]
        cost = sum(session[name].cost for session in alive)
        ratio = sum(session[OURS].cost for session in alive) / cost if alive else 0.0
        requests = sum(bill.requests for bill in billed)
        row = (
            name,
            f"{len(alive)}/{len(billed)}",
            requests,
            sum(bill.over for bill in billed),
            sum(bill.invalid for bill in billed),
            sum(bill.summaries for bill in billed),
            sum(bill.tokens for bill in billed) // requests,
            thousands(cost) if alive else "-",
            f"{ratio:.2f}" if alive else "-",
        )
        rows.append(row)
        if alive and name not in {OURS, LEANEST}:
            targets.append(Target(f"{thousands(budget)}: cost against {name}", ratio, 1.0))
    refused = sum(session[OURS].over + session[OURS].invalid for session in found)
    targets.append(Target(f"{thousands(budget)}: own requests that were refused", refused, 0))
    headings = ("policy", "survived", "requests", "over", "invalid", "summaries", "mean prompt")
    print_table(
        f"budget {budget:,}, window {found[0][OURS].window:,}: {len(found)} sessions; cost in "
        "tokens of plain input, over the sessions that the policy survived",
        (*headings, "cost", "ours/its"),
        rows,
    )
    return targets


def main() -> int:
    """Print the tables; 1 when a target was missed."""
    if not DATA.is_dir():
        print(ABSENT)
        return 0
    sessions = real_sessions(*KINDS)
    targets: list[Target] = []
    for budget in BUDGETS:
        billed = (bills(session, budget) for session in sessions)
        targets += print_costs(budget, [found for found in billed if found is not None])
    return 0 if print_targets(targets) else 1


if __name__ == "__main__":
    sys.exit(main())
