"""How good are the estimates? Against what a provider reported, and other tokenizers.

``python -m bench.tokens`` replays a real session of another agent (pi, Claude Opus 4.5)
record by record, with the meter that sessions use. The constants and weights of
:mod:`agent.context.tokens` come from other files; on this one only the session's own
learning is at work, from each answer to the next request.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import tiktoken

from agent.context.tokens import ENCODING, Count, Meter, count_block, count_message, count_text
from agent.messages import Block, TextBlock, ToolResultBlock, ToolUseBlock, Usage, user_text
from agent.transcript.records import (
    START_FACTOR,
    AssistantEndRecord,
    BlockRecord,
    CompactionRecord,
    DiscardedRecord,
    InterruptedRecord,
    Record,
    SessionRecord,
    ToolResultRecord,
    UserRecord,
)
from agent.transcript.view import View, apply
from agent.wire import compact_json
from bench.common import Target, percent, print_table, print_targets, quantile
from tests.real_sessions import ABSENT, DATA, Boundary, RealSession, real_sessions

SESSION = "pi_sessions/before-compaction.jsonl"

LEAST_DELTA = 200
"""Smaller steps are mostly fixed costs."""

KEPT = (1, 2, 5)
"""Turns kept at the simulated folds."""


@dataclass(frozen=True)
class Sized:
    """A whole prompt: estimated before it was sent, and as the provider counted it."""

    line: int
    estimate: int
    real: int

    @property
    def error(self) -> float:
        """The relative error; negative when the estimate was too small."""
        return self.estimate / self.real - 1


@dataclass
class Replay:
    """What a replay has seen. Sizes are in tokens.

    ``factors`` holds, by the line of an answer, the factor learnt up to its prompt;
    ``anchored`` the prompts after another prompt, ``rewritten`` those right after a
    compaction of the recording product or a change of model, ``simulated_folds`` those
    after a fold that would have kept the last few turns.
    """

    factors: dict[int, float] = field(default_factory=dict)
    anchored: list[Sized] = field(default_factory=list)
    rewritten: list[Sized] = field(default_factory=list)
    simulated_folds: list[Sized] = field(default_factory=list)


@dataclass(frozen=True)
class Step:
    """One step of the truth file and its estimates, in tokens."""

    source: str
    kind: str
    real: int
    estimates: tuple[float, ...]


METHODS = ("characters / 4", "tiktoken cl100k, raw", "agent chat")


def replay(session: RealSession) -> Replay:
    """Go through a session as the loop would: estimate, send, learn."""
    usages = _usages()
    boundaries = {boundary.records: boundary for boundary in session.boundaries}
    found, meter = Replay(), Meter()
    frame = _frame(session, usages)
    view = apply(View(), frame)
    starts: dict[int, int] = {}
    for index, (line, record) in enumerate(zip(session.lines, session.records, strict=True)):
        if index in boundaries:
            view = _folded(session, boundaries[index], view, meter)
            starts.clear()
        match record:
            case AssistantEndRecord() if usages.get(line, Usage()).prompt_tokens:
                usage = usages[line]
                _compare(found, meter, view, line, usage.prompt_tokens, starts)
                factor = meter.learnt(view, usage.prompt_tokens)
                found.factors[line] = factor
                view = apply(view, _end(record, usage, factor))
            case InterruptedRecord():
                # That product sends no broken-off answer back.
                view = apply(view, DiscardedRecord(record.reason))
            case SessionRecord():
                pass
            case _:
                view = apply(view, record)
    return found


def _end(record: AssistantEndRecord, usage: Usage, factor: float) -> AssistantEndRecord:
    return replace(record, usage=usage, factor=factor, prompt_tokens=usage.prompt_tokens)


def _usages() -> dict[int, Usage]:
    """What the provider reported, by the answer's line."""
    usages = {}
    for number, line in enumerate((DATA / SESSION).read_text("utf-8").splitlines(), 1):
        used = json.loads(line).get("message", {}).get("usage")
        if used:
            usages[number] = Usage(
                used["input"], used["output"], used["cacheRead"], used["cacheWrite"]
            )
    return usages


def _frame(session: RealSession, usages: dict[int, Usage]) -> SessionRecord:
    """The session's first record.

    System prompt and tools are not in the file; words of their size stand for them,
    which the first prompt tells.
    """
    first, asked = session.records[:2]
    assert isinstance(first, SessionRecord)
    assert isinstance(asked, UserRecord)
    size = min(usages.items())[1].prompt_tokens
    tokens = size - count_message(user_text(asked.text)).corrected(START_FACTOR)
    return replace(first, system="word " * round(tokens / START_FACTOR))


def _folded(session: RealSession, boundary: Boundary, view: View, meter: Meter) -> View:
    """The view after the compaction that the recording product made."""
    kept = next(
        record.turn
        for record in session.records[boundary.kept_from :]
        if isinstance(record, UserRecord)
    )
    return apply(
        view,
        CompactionRecord(
            boundary.trigger,
            "summary",
            kept,
            boundary.summary,
            boundary.summary,
            factor=meter.calibrated(view, boundary.tokens_before),
        ),
    )


def _compare(
    found: Replay, meter: Meter, view: View, line: int, real: int, starts: dict[int, int]
) -> None:
    """Note the whole prompt's estimates. ``starts`` has each turn's first prompt size."""
    sized = Sized(line, meter.size(view), real)
    if view.anchor is not None:
        found.anchored.append(sized)
    elif view.compactions:
        found.rewritten.append(sized)
    turn = view.turns[-1]
    if turn.number in starts:
        return
    starts[turn.number] = real
    factor = meter.calibrated(view, meter.size(view))
    for keep in KEPT:
        before = turn.number - keep - 1
        if before in starts:
            kept = [m for t in view.turns if before <= t.number for m in t.messages][1:]
            system = meter.system(view)
            estimate = round(system / view.factor * factor) + meter.count(kept).corrected(factor)
            # What the kept turns are in truth is what the prompt has grown by since then.
            truth = system + real - starts[before]
            found.simulated_folds.append(Sized(line, estimate, truth))


def steps(session: RealSession, factors: dict[int, float]) -> list[Step]:
    """The clean steps of the truth file that are large enough, estimated in each way."""
    encoding = tiktoken.get_encoding(ENCODING)
    found = []
    for line in (DATA / "token_truth/usage_deltas.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        if row["tier"] != "A" or not row["clean"] or row["delta_tokens"] < LEAST_DELTA:
            continue
        last = row["line_from"] + 1 if row["src"] == "pi-output" else row["line_to"]
        blocks = list(_blocks(session, row["line_from"], last))
        count = sum(map(count_block, blocks), Count())
        raw = sum(len(encoding.encode_ordinary(_content(block))) for block in blocks)
        ours = count.corrected(factors[row["line_from"]])
        kind = max(row["kinds"], key=lambda name: row["kinds"][name][1])
        found.append(
            Step(row["src"], kind, row["delta_tokens"], (row["chars"] / 4, float(raw), float(ours)))
        )
    return found


def _blocks(session: RealSession, first: int, end: int) -> Iterator[Block]:
    """What stands on the lines from ``first`` up to, not including, ``end``."""
    for line, record in zip(session.lines, session.records, strict=True):
        if first <= line < end:
            yield from _block(record)


def _block(record: Record) -> Iterator[Block]:
    match record:
        case BlockRecord(block):
            yield block
        case UserRecord(_, text):
            yield TextBlock(text)
        case ToolResultRecord(call, content):
            yield ToolResultBlock(call, content)


def _content(block: Block) -> str:
    match block:
        case TextBlock(text):
            return text
        case ToolUseBlock(name=name, input=arguments):
            return name + compact_json(dict(arguments))
        case ToolResultBlock(content=content):
            return content
        case _:
            return ""


def errors(found: Sequence[Step], method: int) -> list[float]:
    """The relative errors of one method; negative where it is too small."""
    return [step.estimates[method] / step.real - 1 for step in found]


def _summary(values: Sequence[float]) -> tuple[object, ...]:
    absolute = [abs(value) for value in values]
    return (
        percent(statistics.median(values), signed=True),
        percent(quantile(absolute, 0.5)),
        percent(quantile(absolute, 0.9)),
        percent(sum(value < -0.2 for value in values) / len(values)),
        len(values),
    )


def print_steps(found: list[Step]) -> None:
    """The errors per step: in all, by what was counted, by kind of content."""
    groups = {
        "all steps": found,
        "growth of the prompt": [step for step in found if step.source == "pi"],
        "answers alone": [step for step in found if step.source == "pi-output"],
    }
    for kind in sorted({step.kind for step in found}):
        groups[f"mostly {kind}"] = [step for step in found if step.kind == kind]
    rows = [
        (words, method, *_summary(errors(group, number)))
        for words, group in groups.items()
        for number, method in enumerate(METHODS)
    ]
    headings = ("per step", "method", "median", "median |e|", "p90 |e|", "20% under", "steps")
    print_table("one step at a time, against the provider's count", headings, rows)


def print_prompts(found: Replay) -> None:
    """The errors of whole prompts."""
    rows = []
    for words, sizes in (
        ("while anchored", found.anchored),
        ("after 2 real compactions and a model change", found.rewritten),
        ("after folds that keep 1, 2 or 5 turns", found.simulated_folds),
    ):
        absolute = [abs(size.error) for size in sizes]
        shares = (quantile(absolute, share) for share in (0.5, 0.95, 1.0))
        rows.append((words, *map(percent, shares), len(sizes)))
    headings = ("whole prompts", "median |e|", "p95 |e|", "worst", "prompts")
    print_table("the whole prompt, before it was sent", headings, rows)


REFERENCES = ("o200k_base", "deepseek_v3", "qwen3", "gemma3", "llama3_1")


def print_fixtures() -> None:
    """Uncorrected counts against the median of five public tokenizers, by kind of text."""
    encoding = tiktoken.get_encoding(ENCODING)
    groups: dict[str, list[tuple[float, ...]]] = {}
    for line in (DATA / "token_fixtures/fixtures.jsonl").read_text("utf-8").splitlines():
        text = json.loads(line)
        reference = statistics.median(text["tokens"][name] for name in REFERENCES)
        raw = len(encoding.encode_ordinary(text["text"]))
        counts = (len(text["text"]) / 4, raw, count_text(text["text"]))
        found = tuple(count / reference - 1 for count in counts)
        groups.setdefault(_group(text), []).append(found)
    rows = [
        (
            name,
            *(
                percent(statistics.median(column), signed=True)
                for column in zip(*found, strict=True)
            ),
            len(found),
        )
        for name, found in sorted(groups.items())
    ]
    headings = ("kind of text", *METHODS, "texts")
    print_table("median error against five public tokenizers (none is Claude's)", headings, rows)


def _group(text: dict[str, Any]) -> str:
    language = text["lang"].split("-")[0]
    if text["category"] not in {"prose", "chat", "docs_mixed_code"}:
        return str(text["category"])
    used = ", which its weight is from" if text["id"].startswith("udhr") else ""
    if language in {"zh", "ja", "ko"}:
        return f"{text['category']}, CJK{used}"
    if language in {"ru", "uk", "ar", "he", "hi", "bn", "ta", "th", "el", "am", "ka", "my"}:
        return f"{text['category']}, other scripts{used}"
    return f"{text['category']}, Latin"


def targets(found: Sequence[Step], prompts: Replay) -> list[Target]:
    """The figures that were to be reached."""
    ours = errors(found, METHODS.index("agent chat"))
    absolute = [abs(value) for value in ours]
    close = sum(abs(size.error) <= 0.02 for size in prompts.anchored) / len(prompts.anchored)
    folds = [abs(size.error) for size in (*prompts.rewritten, *prompts.simulated_folds)]
    return [
        Target("per step, median |error|", quantile(absolute, 0.5), 0.08),
        Target("per step, p90 |error|", quantile(absolute, 0.9), 0.25),
        Target("per step, under by more than 20%", sum(v < -0.2 for v in ours) / len(ours), 0.05),
        Target("anchored prompts within 2%", close, 0.95, at_least=True),
        Target("right after a fold, p95 |error|", quantile(folds, 0.95), 0.08),
    ]


def main() -> int:
    """Print the tables; 1 when a target was missed."""
    if not DATA.is_dir():
        print(ABSENT)
        return 0
    (session,) = real_sessions("pi_sessions")
    prompts = replay(session)
    found = steps(session, prompts.factors)
    print_steps(found)
    print_prompts(prompts)
    print_fixtures()
    return 0 if print_targets(targets(found, prompts)) else 1


if __name__ == "__main__":
    sys.exit(main())
