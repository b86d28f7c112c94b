"""Sizes: bounded in time whatever the text, learnt within bounds, measured once."""

from __future__ import annotations

import base64
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import accumulate, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.context.tokens import (
    FACTOR_BOUNDS,
    Count,
    Meter,
    count_block,
    count_characters,
    count_message,
    count_text,
    learnt_factor,
)
from agent.messages import (
    Block,
    Message,
    OpaqueBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    Usage,
    assistant_text,
    user_text,
)
from agent.transcript.records import (
    START_FACTOR,
    AssistantEndRecord,
    BlockRecord,
    Record,
    SessionRecord,
    UserRecord,
)
from agent.transcript.view import View, apply, build
from bench import tokens as bench
from tests.real_sessions import ABSENT, DATA, real_sessions
from tests.strategies import any_text, stories

CPU_SECONDS = 0.2
PATIENCE = 2.5
"""For a busy or slow machine."""

_RANDOM = random.Random(11)

HARD_TEXTS = {
    "special tokens": "<|endoftext|><|fim_prefix|>" * 40_000,
    "lone surrogates": "\ud800x\udfff" * 300_000,
    "2 MB of one character": "a" * 2_000_000,
    "2 MB of one wide character": "漢" * 700_000,
    "5 MB of base64": base64.b64encode(_RANDOM.randbytes(3_750_000)).decode(),
    "a million spaces": " " * 1_000_000,
    "a million line ends": "\r\n" * 500_000,
    "no space anywhere": "ab" * 1_000_000,
    "Chinese without an end": "".join(map(chr, _RANDOM.choices(range(0x4E00, 0x9FFF), k=600_000))),
    "Devanagari": "".join(map(chr, _RANDOM.choices(range(0x900, 0x97F), k=600_000))),
    "emoji": "".join(map(chr, _RANDOM.choices(range(0x1F300, 0x1F6FF), k=500_000))),
    "wide and spaces in turn": "漢 " * 500_000,
    "wide, then only spaces": ("漢" + " " * 3_998 + "a") * 300,
    "all kinds": ("<|endoftext|>\ud83d漢字 " + " " * 90 + "x" * 500 + "\0\u2028") * 3_000,
}


def cpu_seconds(block: Block) -> float:
    start = time.process_time()
    assert count_block(block).content > 0
    return time.process_time() - start


@pytest.mark.parametrize("text", HARD_TEXTS.values(), ids=HARD_TEXTS)
def test_hard_texts_take_no_time(text: str) -> None:
    count_text("the vocabulary is loaded now, 漢")
    blocks: Sequence[Block] = (
        TextBlock(text),
        ToolResultBlock("toolu_1", text),
        ToolUseBlock("toolu_1", "write_file", {"content": text}),
        OpaqueBlock({"type": "mystery", "data": [text]}),
    )
    for block in blocks:
        best = min(cpu_seconds(block) for _ in range(2))
        assert best < CPU_SECONDS * PATIENCE, type(block).__name__


@given(st.text(max_size=300))
def test_any_text_has_a_size(text: str) -> None:
    assert (count_text(text) == 0) == (text == "")


@given(st.text(st.characters(codec=None), min_size=1, max_size=200))
def test_any_code_point_has_a_size(text: str) -> None:
    assert count_text(text) > 0


def test_long_texts_are_sampled_close_to_their_size() -> None:
    paragraph = "The quick brown fox reads files/main.py: def f(x): return x + 1\n"
    short, long = count_text(paragraph * 1_000), count_text(paragraph * 50_000)
    assert long == pytest.approx(50 * short, rel=0.02)


@pytest.mark.parametrize("character", ["a", "═", "漢", "\0", "🙂"])
def test_long_runs_cost_at_least_what_the_same_characters_cost_in_short_ones(
    character: str,
) -> None:
    assert count_text(character * 3_000) >= 0.85 * 60 * count_text(character * 50)


CHINESE = "在对话变得太长之前,程序会把较早的轮次折叠成摘要,并保留每一个字的地址。"
RUSSIAN = "Прежде чем разговор станет слишком длинным, программа сворачивает его начало."
ENGLISH = "Before a conversation grows too long, the program folds its beginning away."


def test_scripts_have_their_own_weight() -> None:
    # Claude takes 1.3 to 2.2 Chinese characters a token; too many tokens are the safe side.
    chars_per_token = len(CHINESE) / (count_text(CHINESE) * START_FACTOR)
    assert 1.0 <= chars_per_token <= 2.2
    mixed = count_text(f"{ENGLISH} {CHINESE} {ENGLISH} {RUSSIAN}")
    alone = 2 * count_text(ENGLISH) + count_text(CHINESE) + count_text(RUSSIAN)
    assert mixed == pytest.approx(alone, rel=0.1)


def test_characters_alone_give_a_coarser_size() -> None:
    assert count_characters("x" * 400) == 100
    assert count_characters("漢" * 120) == 100
    assert count_characters("я" * 200) == 100
    assert count_characters("x" * 400 + "漢" * 120) == 200
    assert count_characters("") == 0


def test_without_the_vocabulary_characters_are_counted() -> None:
    script = (
        "import sys; sys.modules['tiktoken'] = None\n"
        "from agent.context.tokens import count_characters, count_text\n"
        "for text in ('word ' * 500, '漢字' * 500, '<|endoftext|>\\ud800', ' ' * 90_000):\n"
        "    print(count_text(text), count_characters(text))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    counted = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    assert len(counted) == 4
    for count, characters in counted:
        assert count == pytest.approx(characters, rel=0.51)
        assert count > 0


# Learning


@given(
    factor=st.floats(*FACTOR_BOUNDS),
    content=st.integers(0, 10**6),
    overhead=st.integers(0, 10**4),
    real=st.integers(-(10**9), 10**9),
)
def test_a_learnt_factor_stays_within_bounds_and_moves_by_little(
    factor: float, content: int, overhead: int, real: int
) -> None:
    low, high = FACTOR_BOUNDS
    learnt = learnt_factor(factor, Count(content, overhead), real, 0.1)
    assert low <= learnt <= high
    assert abs(learnt / factor - 1) <= 0.026
    if content < 100:
        assert learnt == factor


@given(true=st.floats(0.7, 2.2), sizes=st.lists(st.integers(200, 20_000), min_size=60, max_size=80))
def test_learning_finds_the_true_factor_and_one_outlier_does_not_take_it_away(
    true: float, sizes: list[int]
) -> None:
    factor = START_FACTOR
    for size in sizes:
        factor = learnt_factor(factor, Count(size, 78), round(size * true) + 78, 0.1)
    assert factor == pytest.approx(true, rel=0.05)
    for outlier in (0, 40 * sizes[0]):
        assert learnt_factor(factor, Count(sizes[0], 78), outlier, 0.1) == pytest.approx(
            factor, rel=0.026
        )


@given(stories(), st.integers(-(10**9), 10**9))
def test_calibrated_and_learnt_factors_are_within_bounds_for_any_report(
    records: list[Record], real: int
) -> None:
    low, high = FACTOR_BOUNDS
    view, meter = build(records), Meter()
    assert low <= meter.calibrated(view, real) <= high
    assert low <= meter.learnt(view, real) <= high


def talk(turns: int, words: str = "some words to be measured ") -> View:
    view = apply(View(), SessionRecord("s-1", "/", "m", "Be brief. " * 30, ()))
    for number in range(1, turns + 1):
        view = apply(view, UserRecord(number, words * 20))
        view = apply(view, BlockRecord(TextBlock(words * 30)))
        view = apply(view, AssistantEndRecord("end_turn", "m", Usage()))
    return view


def test_calibration_makes_the_estimate_the_real_size() -> None:
    view, meter = talk(8), Meter()
    real = round(meter.whole(view) * 1.37)
    factor = meter.calibrated(view, real)
    end = AssistantEndRecord("end_turn", "m", Usage(), factor)
    calibrated = apply(apply(apply(view, UserRecord(9, "x")), BlockRecord(TextBlock("y"))), end)
    assert calibrated.factor == factor
    assert meter.whole(calibrated) == pytest.approx(real, rel=0.02)


# Anchors


def anchored(prompt: int, output: int, text: str) -> View:
    view = apply(apply(talk(3), UserRecord(4, "go on")), BlockRecord(TextBlock(text)))
    return apply(view, AssistantEndRecord("end_turn", "m", Usage(prompt, output), 1.2, prompt))


def test_a_reported_size_is_taken_as_it_is() -> None:
    meter, text = Meter(), "an answer of some length " * 10
    view = anchored(5_000, 52, text)
    assert meter.size(view) == 5_052
    asked = apply(view, UserRecord(5, "and now?"))
    assert meter.size(asked) == 5_052 + meter.messages(asked, asked.turns[-1].messages)


def test_hidden_reasoning_is_not_part_of_the_next_prompt() -> None:
    meter, text = Meter(), "a short answer"
    view = anchored(5_000, 9_000, text)
    assert meter.size(view) == 5_000 + meter.messages(view, (assistant_text(text),))


@pytest.mark.parametrize(
    ("share", "believed"), [(0.01, False), (0.2, False), (0.5, True), (2, True), (4, False)]
)
def test_a_report_far_off_is_not_believed(share: float, believed: bool) -> None:
    view, meter = talk(4), Meter()
    assert meter.believable(view, round(meter.whole(view) * share)) is believed


# Sums


@given(stories())
def test_sizes_add_up(records: list[Record]) -> None:
    view, meter = build(records), Meter()
    parts = [count_message(message) for message in view.messages]
    assert meter.count(view.messages) == sum(parts, Count())
    frame = meter.system(view) + meter.tools(view)
    assert abs(meter.whole(view) - frame - meter.messages(view, view.messages)) <= 2


@given(st.lists(st.tuples(st.booleans(), any_text), max_size=12))
def test_a_message_more_never_makes_it_smaller(said: list[tuple[bool, str]]) -> None:
    messages = [user_text(text) if user else assistant_text(text) for user, text in said]
    meter, view = Meter(), View()
    sizes = [
        meter.messages(view, some) for some in accumulate(([m] for m in messages), list.__add__)
    ]
    assert all(before < after for before, after in pairwise(sizes))


@settings(max_examples=30)
@given(st.integers(2, 25))
def test_each_message_is_measured_once(turns: int) -> None:
    measured: list[Message] = []

    def measure(message: Message) -> Count:
        measured.append(message)
        return count_message(message)

    meter, view = Meter(measure), talk(0)
    for number in range(1, turns + 1):
        view = apply(view, UserRecord(number, f"question {number}"))
        meter.size(view)
        meter.whole(view)
        meter.learnt(view, 900 * number)
        view = apply(view, BlockRecord(TextBlock(f"answer {number}")))
        view = apply(view, AssistantEndRecord("end_turn", "m", Usage(900 * number, 9)))
        meter.size(view)
    assert len(measured) == len(view.messages) == 2 * turns
    meter.forget()
    meter.whole(view)
    assert len(measured) == 4 * turns


# Real sessions


@pytest.mark.skipif(not DATA.is_dir(), reason=ABSENT)
def test_the_figures_on_a_real_session() -> None:
    (session,) = real_sessions("pi_sessions")
    prompts = bench.replay(session)
    found = bench.steps(session, prompts.factors)
    assert len(found) > 400
    for target in bench.targets(found, prompts):
        assert target.reached, f"{target.words}: {target.value}, not {target.bound}"
