"""The window's limit, in the bench's scenarios with fewer turns."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.limit import HIDDEN_12K, HIDDEN_40K, TOLD, Scenario, run


async def test_told_the_window_every_turn_is_answered_and_none_refused(tmp_path: Path) -> None:
    outcome = await run(TOLD, tmp_path, turns=13)
    assert (outcome.answered, outcome.in_full) == (13, 13)
    assert outcome.refused == 0
    assert outcome.compactions >= 1
    assert outcome.requests == 13 + outcome.compactions


@pytest.mark.parametrize(
    ("scenario", "turns"), [(HIDDEN_12K, 6), (HIDDEN_40K, 12)], ids=["12k", "40k"]
)
async def test_a_smaller_window_than_told_is_learnt_from_one_refusal(
    tmp_path: Path, scenario: Scenario, turns: int
) -> None:
    outcome = await run(scenario, tmp_path, turns)
    assert (outcome.answered, outcome.in_full) == (turns, turns)
    assert outcome.refused == 1
    assert outcome.learnt == outcome.window
    assert outcome.compactions >= 1
