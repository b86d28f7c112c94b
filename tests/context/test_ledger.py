"""The ledger: what it keeps in any room, what comes first, and that it never grows."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.context.ledger import LEAST_TOKENS, ledger_tokens, render_ledger
from agent.context.tokens import count_text
from agent.messages import Message, ToolResultBlock, ToolUseBlock, assistant_text, user_text
from agent.transcript.facts import TurnFacts, facts_of


def address(first: int, last: int) -> str:
    turns = f"turn {first}" if first == last else f"turns {first}-{last}"
    return f".transcripts/20261130-120455-3f9a.md:{first * 10}-{last * 10 + 9}, {turns}"


def chat(number: int, asked: str, answer: str = "Done.") -> TurnFacts:
    return facts_of(number, (user_text(asked), assistant_text(answer)))


def work(number: int, name: str = "read_file", **arguments: object) -> TurnFacts:
    """A turn with one call, whose result is its argument ``result``."""
    result = str(arguments.pop("result", "ok"))
    is_error = bool(arguments.pop("is_error", False))
    messages = (
        user_text(f"step {number}"),
        Message("assistant", (ToolUseBlock(f"call_{number}", name, arguments),)),
        Message("user", (ToolResultBlock(f"call_{number}", result, is_error),)),
        assistant_text("Done."),
    )
    return facts_of(number, messages)


def test_nothing_folded_nothing_written() -> None:
    assert render_ledger([], address, 1_000) == ""


def test_its_budget() -> None:
    assert ledger_tokens(100_000) == 15_000
    assert ledger_tokens(1_000) == LEAST_TOKENS


def test_it_says_where_everything_stands() -> None:
    text = render_ledger([chat(3, "a"), chat(4, "b")], address, 400)
    assert address(3, 4) in text.split("\n\n")[0]


@pytest.mark.parametrize("tokens", [400, 4_000])
def test_what_is_to_be_remembered_is_never_pushed_out(tokens: int) -> None:
    past = [
        chat(1, "Remember: the port is 8123."),
        chat(2, "请记住密码是 hunter2。"),
        *(chat(number, f"small talk number {number} " * 20) for number in range(3, 200)),
    ]
    parts = render_ledger(past, address, tokens).split("\n\n")
    assert parts[1].startswith("To be remembered")
    assert "Remember: the port is 8123. (turn 1)" in parts[1]
    assert "请记住密码是 hunter2。 (turn 2)" in parts[1]


def test_rules_come_after_lasting_instructions_and_each_is_told_once() -> None:
    past = [chat(1, "Don't touch main.py."), chat(2, "Always test."), chat(3, "Always test.")]
    lines = render_ledger(past, address, 1_000).split("\n\n")[1].split("\n")
    assert lines[1:] == ["- Always test. (turn 3)", "- Don't touch main.py. (turn 1)"]


def test_a_small_room_has_a_part_of_everything() -> None:
    past = [
        chat(1, "Never use tabs."),
        *(work(number, "edit_file", path=f"src/file_{number}.py") for number in range(2, 60)),
        chat(60, "the newest words"),
    ]
    text = render_ledger(past, address, LEAST_TOKENS)
    assert count_text(text) <= LEAST_TOKENS
    assert address(1, 60) in text
    assert "Never use tabs." in text
    assert "the newest words" in text
    assert "src/file_59.py (edited; turn 59)" in text


def test_every_turn_has_its_line_where_there_is_room() -> None:
    past = [chat(number, f"question {number}", f"answer {number}") for number in range(1, 31)]
    text = render_ledger(past, address, 4_000)
    for number in range(1, 31):
        lines = f"{number * 10}-{number * 10 + 9}, turn {number}"
        assert f"- {lines}: question {number} -> answer {number}" in text


def test_old_turns_are_joined_where_there_is_none() -> None:
    past = [chat(number, f"question {number} " * 10) for number in range(1, 301)]
    index = render_ledger(past, address, 1_500).split("\n\n")[1]
    places = [line[2:].split(":")[0] for line in index.split("\n")[1:]]
    assert places[0] == "3000-3009, turn 300"
    first, last = places[-1].split(", turns ")
    assert first.startswith("10-")
    assert last.startswith("1-")
    # No turn is left out between the lines.
    spans = [[int(end) for end in place.split(",")[0].split("-")] for place in places]
    assert all(newer[0] == older[1] + 1 for newer, older in pairwise(spans))


def test_long_words_are_cut_not_left_out() -> None:
    text = render_ledger([chat(1, "word " * 5_000)], address, 400)
    assert "turn 1: word word" in text
    assert count_text(text) <= 400


def test_a_model_that_summarised_has_told_the_answers() -> None:
    past = [chat(1, "why?", "because of the moon")]
    assert "because of the moon" in render_ledger(past, address, 1_000)
    assert "because of the moon" not in render_ledger(past, address, 1_000, summarised=True)


def test_a_file_has_one_line_with_the_most_that_was_done() -> None:
    past = [
        work(1, "write_file", path="a.py"),
        work(2, "read_file", path="b.py"),
        work(3, "read_file", path="a.py"),
    ]
    text = render_ledger(past, address, 1_000)
    assert "Files, newest first:\n- a.py (written; turn 3)\n- b.py (read; turn 2)" in text


def test_files_that_the_summary_does_not_name_come_first() -> None:
    past = [work(number, "read_file", path=f"/srv/f{number}.py") for number in range(1, 4)]
    text = render_ledger(past, address, 1_000, "f3.py was read")
    assert text.index("/srv/f1.py") < text.index("/srv/f3.py")


def test_commands_with_their_exit_codes_once_each() -> None:
    past = [
        work(1, "shell", command="cd /srv/app && make test | tail -5", result="[exit code 2]"),
        work(2, "shell", command="cd /srv/app && git push", result="[exit code 0]"),
        work(3, "shell", command="cd /srv/app && make test", result="[exit code 0]"),
    ]
    text = render_ledger(past, address, 1_000)
    assert (
        "Commands, newest first:\n"
        "- cd /srv/app && make test (exit code 0; turn 3)\n"
        "- git push (exit code 0; turn 2)" in text
    )
    assert "exit code 2" not in text


def test_errors_once_each() -> None:
    past = [
        work(number, "shell", command=f"run {number}", result="KeyError: 'a'", is_error=True)
        for number in (1, 2)
    ]
    text = render_ledger(past, address, 1_000)
    assert "Errors met, newest first:\n- KeyError: 'a' (turn 2)" in text
    assert text.count("KeyError") == 1


def test_identifiers_are_exact_and_not_repeated() -> None:
    past = [
        chat(1, "see https://example.org/x and PROJ-17", "that is parse_header in Tool.Kit"),
        *(chat(number, "more", "as said") for number in range(2, 6)),
    ]
    beside = "The issue is PROJ-17."
    # Little room for the words themselves: the clipped lines do not have the identifiers.
    text = render_ledger([facts_without_words(past[0]), *past[1:]], address, 1_000, beside)
    mentioned = text.split("\n\n")[-1]
    assert mentioned == "Also mentioned: https://example.org/x, Tool.Kit, parse_header"


def facts_without_words(facts: TurnFacts) -> TurnFacts:
    return TurnFacts(facts.number, "", "", mentioned=facts.mentioned, messages=2)


def test_what_recurs_outlives_what_was_seen_once() -> None:
    past = [
        *(chat(number, "go on", f"used daily_report, once item_{number}x") for number in range(40)),
        *(chat(number, "go on", "nothing") for number in range(40, 80)),
    ]
    past = [facts_without_words(facts) for facts in past]
    mentioned = render_ledger(past, address, 300).split("Also mentioned: ")[1].split(", ")
    assert mentioned[0] == "daily_report"


def test_folding_again_loses_nothing_and_does_not_grow() -> None:
    past: list[TurnFacts] = []
    for fold in range(20):
        past += [work(fold * 10 + n, "edit_file", path=f"src/m{fold}/f{n}.py") for n in range(10)]
        text = render_ledger(past, address, 2_000)
        assert count_text(text) <= 2_000
    assert render_ledger(past, address, 2_000) == text
    whole = render_ledger(past, address, 50_000)
    assert all(f"src/m{fold}/f{n}.py" in whole for fold in range(20) for n in range(10))


words = st.text(
    st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from("aB_/.-: \n1。记")),
    max_size=80,
)
turns = st.builds(
    lambda asked, answer, path, result, is_error: (
        user_text(asked),
        Message("assistant", (ToolUseBlock("call", "edit_file", {"path": path}),)),
        Message("user", (ToolResultBlock("call", result, is_error),)),
        assistant_text(answer),
    ),
    *(words, words, words, words),
    st.booleans(),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(turns, min_size=1, max_size=30), st.integers(0, 3_000), words, st.booleans())
def test_any_past_fits_any_room(
    past: list[tuple[Message, ...]], tokens: int, known: str, summarised: bool
) -> None:
    facts = [facts_of(number, messages) for number, messages in enumerate(past, 1)]
    text = render_ledger(facts, address, tokens, known, summarised=summarised)
    where = text.split("\n\n")[0]
    assert address(1, len(facts)) in where
    # Joined parts may count a few tokens more than apart.
    assert count_text(text) <= max(tokens, count_text(where)) + 10
    assert text == render_ledger(facts, address, tokens, known, summarised=summarised)
