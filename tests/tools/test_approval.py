from __future__ import annotations

import asyncio
import itertools

import pytest

from agent.tools.approval import MODES, Approval, Mode, Verdict, judge
from agent.tools.base import Action, ActionKind, Decision


def action(kind: ActionKind, *, inside: bool = True, protected: bool = False) -> Action:
    return Action(kind, "title", "detail", f"{kind}:key", inside, protected=protected)


TABLE: list[tuple[Action, dict[Mode, Verdict]]] = [
    (
        action("read"),
        {"ask": "allow", "read-only": "allow", "auto-edit": "allow", "yolo": "allow"},
    ),
    (
        action("read", protected=True),
        {"ask": "allow", "read-only": "allow", "auto-edit": "allow", "yolo": "allow"},
    ),
    (
        action("read", inside=False),
        {"ask": "ask", "read-only": "ask", "auto-edit": "ask", "yolo": "allow"},
    ),
    (
        action("write"),
        {"ask": "ask", "read-only": "refuse", "auto-edit": "allow", "yolo": "allow"},
    ),
    (
        action("write", protected=True),
        {"ask": "ask", "read-only": "refuse", "auto-edit": "ask", "yolo": "allow"},
    ),
    (
        action("write", inside=False),
        {"ask": "ask", "read-only": "refuse", "auto-edit": "ask", "yolo": "allow"},
    ),
    (
        action("execute", inside=False),
        {"ask": "ask", "read-only": "refuse", "auto-edit": "ask", "yolo": "allow"},
    ),
    (
        action("execute"),
        {"ask": "ask", "read-only": "refuse", "auto-edit": "ask", "yolo": "allow"},
    ),
]


@pytest.mark.parametrize(("mode", "row"), list(itertools.product(MODES, range(len(TABLE)))))
def test_the_rules(mode: Mode, row: int) -> None:
    judged, verdicts = TABLE[row]
    assert judge(mode, judged, set()) == verdicts[mode]
    # What was allowed "always" is asked about no more, and nothing is refused less.
    always = "allow" if verdicts[mode] == "ask" else verdicts[mode]
    assert judge(mode, judged, {judged.key}) == always
    assert judge(mode, judged, {"another key"}) == verdicts[mode]


class Person:
    """Answers questions from a list and remembers them."""

    def __init__(self, *answers: Decision) -> None:
        self.answers = list(answers)
        self.asked: list[Action] = []
        self.open = 0
        self.most_open = 0

    async def __call__(self, asked: Action) -> Decision:
        self.asked.append(asked)
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        await asyncio.sleep(0.01)
        self.open -= 1
        return self.answers.pop(0)


async def test_yes_holds_once() -> None:
    person = Person(Decision(allowed=True), Decision(allowed=False))
    approval = Approval("ask", person)
    assert (await approval.decide(action("write"))).allowed
    assert not (await approval.decide(action("write"))).allowed
    assert person.asked == [action("write"), action("write")]


async def test_always_holds_for_the_very_same_action() -> None:
    person = Person(Decision(allowed=True, always=True), Decision(allowed=False))
    approval = Approval("ask", person)
    for _ in range(3):
        assert (await approval.decide(action("write"))).allowed
    assert not (await approval.decide(action("execute"))).allowed
    assert len(person.asked) == 2


async def test_always_with_a_no_allows_nothing() -> None:
    person = Person(Decision(allowed=False, always=True), Decision(allowed=False))
    approval = Approval("ask", person)
    for _ in range(2):
        assert not (await approval.decide(action("write"))).allowed


@pytest.mark.parametrize(
    ("reason", "said"),
    [("", "The user said no."), ("use git mv", "The user said no: use git mv")],
)
async def test_a_no_is_told_with_its_reason(reason: str, said: str) -> None:
    approval = Approval("ask", Person(Decision(allowed=False, reason=reason)))
    assert (await approval.decide(action("write"))).reason == said


async def test_without_a_person_what_would_be_asked_is_refused() -> None:
    approval = Approval("auto-edit", None)
    assert (await approval.decide(action("write"))).allowed
    decision = await approval.decide(action("execute"))
    assert not decision.allowed
    assert decision.reason.startswith("Not run: nobody can be asked")


async def test_read_only_refuses_without_asking() -> None:
    person = Person()
    decision = await Approval("read-only", person).decide(action("execute"))
    assert not decision.allowed
    assert "read-only mode" in decision.reason
    assert not person.asked


async def test_the_mode_can_change() -> None:
    approval = Approval("read-only", None)
    assert not (await approval.decide(action("execute"))).allowed
    approval.mode = "yolo"
    assert (await approval.decide(action("execute"))).allowed


async def test_one_question_at_a_time_and_none_that_is_settled_meanwhile() -> None:
    person = Person(Decision(allowed=True, always=True), Decision(allowed=True))
    approval = Approval("ask", person)
    decisions = await asyncio.gather(
        approval.decide(action("write")),
        approval.decide(action("write")),
        approval.decide(action("execute")),
    )
    assert all(decision.allowed for decision in decisions)
    assert [asked.kind for asked in person.asked] == ["write", "execute"]
    assert person.most_open == 1


async def test_a_cancelled_question_does_not_block_the_next() -> None:
    person = Person(Decision(allowed=True), Decision(allowed=True))
    approval = Approval("ask", person)
    first = asyncio.create_task(approval.decide(action("write")))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert (await approval.decide(action("execute"))).allowed
