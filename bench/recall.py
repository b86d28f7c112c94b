"""What survives a fold: strings that real assistants needed after real compactions.

Run as ``python -m bench.recall``. Each real session is folded where the product that
recorded it folded it, within the size of that product's own summary and kept tail, and
the strings its assistant needed afterwards are looked up. Two rules: "found" is the one
by which the products' own summaries were scored when the probes were made (a path
counts when its file's name is there); "literal" wants the whole string.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields

from agent.context.ledger import LEAST_TOKENS, SHARE, render_ledger
from agent.context.tokens import count_text
from agent.messages import Message
from agent.transcript.facts import TurnFacts, facts_of
from agent.transcript.readable import Renderer
from agent.transcript.records import Entry, Record
from agent.transcript.view import build, close_turn
from agent.wire import compact_json, message_to_wire
from bench.common import Target, print_table, print_targets
from bench.needed import Needed, controls, needed_after, strings_before
from tests.real_sessions import ABSENT, DATA, Boundary, RealSession, real_sessions

CONTROLS_EACH = 5
_SEED = 7


@dataclass(frozen=True)
class Score:
    """How many strings were looked up and how many are in a text, by both rules.

    ``controls`` are strings of the same kinds that were not needed. ``grep`` counts the
    needed strings that are in the text or in the readable file; ``tokens`` is the
    text's size.
    """

    needed: int = 0
    found: int = 0
    literal: int = 0
    strong: int = 0
    strong_found: int = 0
    strong_literal: int = 0
    controls: int = 0
    controls_found: int = 0
    grep: int = 0
    tokens: int = 0

    def __add__(self, other: Score) -> Score:
        names = [field.name for field in fields(Score)]
        return Score(*(getattr(self, name) + getattr(other, name) for name in names))


@dataclass(frozen=True)
class Piece:
    """A turn: what the program keeps of it once it is folded, and its whole text."""

    facts: TurnFacts
    text: str


@dataclass(frozen=True)
class Past:
    """Turns before a cut, and how they are found in the session's readable file."""

    turns: tuple[Piece, ...]
    readable: str
    address: Callable[[int, int], str]


@dataclass(frozen=True)
class Probe:
    """The strings that were needed after one real compaction."""

    session: RealSession
    boundary: Boundary
    needed: tuple[Needed, ...]


def folded(records: Sequence[Record]) -> Past:
    """What the program has after some records."""
    renderer = Renderer()
    readable = "".join(
        renderer.feed(Entry(number, 0.0, record)) for number, record in enumerate(records, 1)
    )

    def address(first: int, last: int) -> str:
        start, end = renderer.turn_span(first), renderer.turn_span(last)
        if start is None or end is None:
            return ""
        turns = f"turn {first}" if first == last else f"turns {first}-{last}"
        return f".transcripts/20261130-120455-3f9a.md:{start.first}-{end.last}, {turns}"

    view = close_turn(build(records))
    turns = tuple(
        Piece(facts_of(turn.number, turn.messages), "\n".join(map(_plain, turn.messages)))
        for turn in view.turns
    )
    return Past(turns, readable, address)


def _plain(message: Message) -> str:
    return compact_json(message_to_wire(message)["content"])


def view_text(past: Past, body: str, ledger: int, total: int) -> str:
    """Summary, ledger and the newest turns that fit, within ``total`` tokens."""
    room = total - count_text(body) - ledger
    keep = len(past.turns)
    for turn in reversed(past.turns):
        room -= count_text(turn.text)
        if room < 0:
            break
        keep -= 1
    tail = "\n".join(turn.text for turn in past.turns[keep:])
    facts = [turn.facts for turn in past.turns[:keep]]
    written = render_ledger(facts, past.address, ledger, f"{body}\n{tail}", summarised=bool(body))
    return "\n\n".join(part for part in (body, written, tail) if part)


def score(
    text: str, needed: Sequence[Needed], others: Sequence[Needed], readable: str = ""
) -> Score:
    """Look every string up."""
    strong = [item for item in needed if item.strong]
    return Score(
        needed=len(needed),
        found=sum(item.name in text for item in needed),
        literal=sum(item.text in text for item in needed),
        strong=len(strong),
        strong_found=sum(item.name in text for item in strong),
        strong_literal=sum(item.text in text for item in strong),
        controls=len(others),
        controls_found=sum(item.name in text for item in others),
        grep=sum(item.text in text or item.text in readable for item in needed),
        tokens=count_text(text),
    )


_DRAFT = re.compile(r"\nAnalysis:\n.*?\nSummary:\n", re.DOTALL)
"""Some products' summaries begin with a draft of thoughts, which does not count here."""


def score_probe(probe: Probe) -> dict[str, Score]:
    """One real compaction: the product's own view, and ours in three ways."""
    boundary, records = probe.boundary, probe.session.records
    past = folded(records[: boundary.records])
    before = strings_before(records[: boundary.records])
    others = controls(before, probe.needed, CONTROLS_EACH, random.Random(_SEED))
    kept = close_turn(build(records[boundary.kept_from : boundary.records])).messages
    tail = "\n".join(map(_plain, kept))
    own, total = count_text(boundary.summary), count_text(f"{boundary.summary}\n{tail}")
    ledger = max(round(total * SHARE), LEAST_TOKENS)
    summary = _DRAFT.sub("\n", boundary.summary)
    spare = ledger if tail else total - count_text(summary)
    texts = {
        "the product's own summary and tail": f"{boundary.summary}\n{tail}",
        "ours, digest": view_text(past, "", min(ledger + own, total), total),
        "ours, with its summary": view_text(past, summary, spare, total),
        "ours, with its summary, 30% larger": view_text(
            past, boundary.summary, round(own * 0.3), round(total * 1.3)
        ),
    }
    return {name: score(text, probe.needed, others, past.readable) for name, text in texts.items()}


def read_probes() -> list[Probe]:
    """The probes of the data folder, with their sessions."""
    sessions = {item.name: item for item in real_sessions("claude_code", "pi_sessions")}
    probes = []
    for line in (DATA / "compaction_probes" / "probes.jsonl").read_text("utf-8").splitlines():
        data = json.loads(line)
        session = sessions[data["file"]]
        (boundary,) = (b for b in session.boundaries if b.line == data["boundary_line"])
        needed = tuple(Needed(n["text"], n["kind"], n["strong"]) for n in data["needed"])
        probes.append(Probe(session, boundary, needed))
    return probes


def score_cuts(sizes: Sequence[int]) -> dict[int, Score]:
    """The ledger alone, at other places of the same kinds of sessions, by its size.

    These cuts keep 60 records away from the real compactions, but most are of the same
    sessions. The weights of identifiers were found on them; that addresses, paths and
    references count double was chosen with both tables in view.
    """
    totals = dict.fromkeys(sizes, Score())
    for session, cut in _cuts():
        past = folded(session.records[:cut])
        before = strings_before(session.records[:cut])
        needed = needed_after(before, session.records[cut:])
        others = controls(before, needed, CONTROLS_EACH, random.Random(_SEED))
        for size in sizes:
            text = view_text(past, "", size, size)
            totals[size] += score(text, needed, others, past.readable)
    return totals


def _cuts() -> Iterator[tuple[RealSession, int]]:
    for session in real_sessions("claude_code", "pi_sessions"):
        count = len(session.records)
        for cut in range(80, count - 60, max(60, count // 14)) if count >= 150 else ():
            if all(abs(cut - boundary.records) >= 60 for boundary in session.boundaries):
                yield session, cut


def score_dialogues(kind: str, size: int) -> Score:
    """Annotated facts of dialogues after all but the last two turns are folded.

    The ledger has ``size`` tokens. Only facts that stand in a folded turn and not in a
    kept one are looked up.
    """
    total = Score()
    for session in real_sessions(kind):
        past = folded(session.records)
        old, kept = past.turns[:-2], past.turns[-2:]
        text, tail = ("\n".join(turn.text for turn in turns) for turns in (old, kept))
        facts = [
            Needed(fact, "fact", strong=True)
            for fact in session.facts
            if len(fact) > 2 and fact in text and fact not in tail
        ]
        ledger = view_text(Past(old, past.readable, past.address), "", size, size)
        total += score(ledger, facts, (), past.readable)
    return total


_HEADINGS = ("", "needed", "found", "literal", "strong", "found", "literal", "controls", "found")
_MORE = ("grep", "tokens")


def _row(label: str, item: Score) -> tuple[object, ...]:
    def part(kept: int, of: int) -> str:
        return f"{kept / of:.0%}" if of else "-"

    return (
        label,
        item.needed,
        part(item.found, item.needed),
        part(item.literal, item.needed),
        item.strong,
        part(item.strong_found, item.strong),
        part(item.strong_literal, item.strong),
        item.controls,
        part(item.controls_found, item.controls),
        part(item.grep, item.needed),
        item.tokens,
    )


def _print(title: str, rows: Iterable[tuple[str, Score]]) -> None:
    print_table(title, (*_HEADINGS, *_MORE), [_row(label, item) for label, item in rows])


def total_of(scores: Iterable[dict[str, Score]]) -> dict[str, Score]:
    """The sums by name."""
    totals: dict[str, Score] = {}
    for one in scores:
        for name, item in one.items():
            totals[name] = totals.get(name, Score()) + item
    return totals


def main() -> None:
    """Print all tables, and whether the targets were reached."""
    if not DATA.is_dir():
        print(f"nothing to measure: {ABSENT}")
        return
    probes = read_probes()
    scores = [score_probe(probe) for probe in probes]
    totals = total_of(scores)
    rows = [
        (f"{probe.session.name.split('/')[-1][:18]}: {name}", item)
        for probe, one in zip(probes, scores, strict=True)
        for name, item in one.items()
    ]
    totals_rows = [(f"all: {name}", item) for name, item in totals.items()]
    _print("real compactions, at the size of the product's summary and tail", rows + totals_rows)
    cuts = score_cuts((400, 1_000, 2_000, 3_500, 5_000))
    _print(
        f"{sum(1 for _ in _cuts())} other cuts, ledger alone",
        ((f"{size} tokens each", item) for size, item in cuts.items()),
    )
    dialogues = {
        f"{kind}, {size} tokens each": score_dialogues(kind, size)
        for kind in ("crosswoz_zh", "tau_bench_airline")
        for size in (400, 800)
    }
    _print("annotated facts of dialogues, all but two turns folded", dialogues.items())
    ours = [item for name, item in totals.items() if name.startswith("ours")][:2]
    print_targets(
        [
            *(
                Target(f"{words}, {name}", value, bound, at_least=True)
                for item, name in zip(ours, ("digest", "with its summary"), strict=True)
                for words, value, bound in (
                    ("strong facts found", 100 * item.strong_found / item.strong, 100),
                    ("needed found", 100 * item.found / item.needed, 90),
                    ("view or grep", 100 * item.grep / item.needed, 100),
                )
            ),
        ]
    )


if __name__ == "__main__":
    main()
