"""The pure parts of the recall bench for real models."""

from __future__ import annotations

from bench.recall_live import make_facts, newest, typed_turns


def test_every_fact_is_planted_once_and_spread_over_the_turns() -> None:
    facts = make_facts(20)
    turns = typed_turns(facts, 40)
    assert len(turns) == 40
    places = [[n for n, text in enumerate(turns) if fact.said in text] for fact in facts]
    assert places == [[number * 2] for number in range(20)]
    assert len({fact.value for fact in facts}) == 20
    assert facts[0].known(f"It is {facts[0].value.lower()}.")
    assert not facts[0].known(facts[1].value)


def test_the_newest_turns_stay_within_the_budget() -> None:
    turns = [(f"question {number} " + "word " * 50, "Yes.") for number in range(10)]
    kept = newest(turns, 200)
    assert [message.role for message in kept] == ["user", "assistant"] * 3
    assert kept[-2].text == turns[-1][0]
    assert newest(turns, 10) == ()
