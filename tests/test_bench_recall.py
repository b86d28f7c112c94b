"""The claims of ``bench/recall.py``, with thresholds a little below what was measured."""

from __future__ import annotations

import random

import pytest

from agent.messages import TextBlock
from agent.transcript.records import BlockRecord, Record, ToolResultRecord, UserRecord
from bench.needed import controls, needed_after, strings_before
from bench.recall import Score, read_probes, score, score_dialogues, score_probe, total_of
from tests.real_sessions import ABSENT, DATA

needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=ABSENT)


def test_needed_is_what_the_assistant_wrote_before_it_was_shown_again() -> None:
    before = strings_before(
        [UserRecord(1, "see src/app/main.py"), ToolResultRecord("a", "parse_it, show_it", False)]
    )
    later: list[Record] = [
        ToolResultRecord("b", "show_it", False),
        BlockRecord(TextBlock("main is src/app/main.py, then show_it and new_name, parse_it")),
        BlockRecord(TextBlock("parse_it")),
    ]
    needed = needed_after(before, later)
    assert [(item.text, item.strong) for item in needed] == [
        ("src/app/main.py", True),
        ("parse_it", False),
    ]
    assert [item.text for item in controls(before, needed, 5, random.Random(1))] == ["show_it"]


def test_the_two_rules_of_looking_up() -> None:
    needed = needed_after(
        {"/srv/app/main.py": "path"}, [BlockRecord(TextBlock("/srv/app/main.py"))]
    )
    assert score("only main.py", needed, (), "in /srv/app/main.py") == Score(
        needed=1, found=1, strong=1, strong_found=1, grep=1, tokens=3
    )


@needs_data
def test_what_real_assistants_needed_survives() -> None:
    totals = total_of(score_probe(probe) for probe in read_probes())
    product = totals["the product's own summary and tail"]
    digest, summary = totals["ours, digest"], totals["ours, with its summary"]
    assert (product.needed, product.strong) == (104, 32)
    for ours in (digest, summary):
        assert ours.tokens <= product.tokens
        assert ours.strong_found == ours.strong
        assert ours.grep == ours.needed
    # Measured: 96% and 91%; the product's own 73%.
    assert digest.found >= 0.94 * digest.needed
    assert digest.literal >= 0.94 * digest.needed
    assert summary.found >= 0.90 * summary.needed


@needs_data
@pytest.mark.parametrize(
    ("kind", "share"),
    # Measured: 86% and 96%.
    [("crosswoz_zh", 0.8), ("tau_bench_airline", 0.9)],
)
def test_annotated_facts_survive(kind: str, share: float) -> None:
    facts = score_dialogues(kind, 800)
    assert facts.found >= share * facts.needed
    assert facts.grep == facts.needed
