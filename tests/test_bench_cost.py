"""The cost bench: its arithmetic, and that its policies play by the rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.context.budget import WINDOW_SHARE
from agent.messages import assistant_text, user_text
from agent.wire import message_to_wire
from bench.cost import RIVALS, replay_here, requests_of, steps
from bench.policies import Bill, Prompts
from tests.real_sessions import ABSENT, DATA, RealSession, real_sessions
from tests.server.rules import check_history

needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=ABSENT)

BUDGET = 40_000
WINDOW = round(BUDGET / WINDOW_SHARE)


@pytest.fixture(scope="module")
def session() -> RealSession:
    """A real session of 47 requests and about 120,000 tokens."""
    sessions = real_sessions("claude_code")
    return next(found for found in sessions if found.name.endswith("session-196820da.jsonl"))


def test_a_prompt_is_written_to_the_cache_once_and_read_from_then_on() -> None:
    prompts = Prompts()
    bill = Bill(prompts, window=10_000)
    first = [user_text("word " * 2_000)]
    size = bill.charge(first)
    assert bill.cost == pytest.approx(1.25 * size)
    longer = [*first, assistant_text("fine " * 100), user_text("go on")]
    grown = bill.charge(longer)
    assert grown == prompts.size(longer)
    assert bill.cost == pytest.approx(1.25 * size + 0.1 * size + 1.25 * (grown - size))
    assert bill.survived
    bill.charge_summary(longer)
    assert (bill.requests, bill.summaries) == (3, 1)
    bill.charge([user_text("word " * 10_000)])
    assert not bill.survived


@needs_data
def test_every_answer_of_a_session_is_one_request(session: RealSession) -> None:
    requests = requests_of(session)
    assert len(requests) == len(steps(session)) - 1 == 47
    for turns in requests:
        wire = [message_to_wire(message) for turn in turns for message in turn.messages]
        assert check_history(None, None, wire) is None


@needs_data
@pytest.mark.parametrize("name", [name for name in RIVALS if name != "last 20 messages"])
def test_other_policies_send_valid_requests(session: RealSession, name: str) -> None:
    policy, bill = RIVALS[name](BUDGET, WINDOW), Bill(Prompts(), WINDOW)
    for turns in requests_of(session)[::3]:
        wire = list(map(message_to_wire, policy.messages(turns, bill)))
        assert check_history(None, None, wire) is None


@needs_data
def test_cutting_at_any_message_is_caught(session: RealSession) -> None:
    policy, bill = RIVALS["last 20 messages"](BUDGET, WINDOW), Bill(Prompts(), WINDOW)
    for turns in requests_of(session):
        policy.messages(turns, bill)
    assert bill.invalid > 0


@needs_data
async def test_no_own_request_is_over_the_window_or_invalid(
    session: RealSession, tmp_path: Path
) -> None:
    bill = await replay_here(session, BUDGET, Bill(Prompts(), WINDOW), tmp_path)
    assert bill.survived
    assert bill.requests == 47 + bill.summaries
    assert bill.summaries > 0
