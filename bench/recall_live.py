"""What a real model still knows after its conversation was folded.

Run as ``python -m bench.recall_live --base-url URL --model ID`` or with ``--local
FILE.gguf`` (``--local trial`` for the installed one). Facts are planted over turns of
real text (this project's documents), under a budget so small that the conversation is
folded again and again. Then each fact is asked for, in three ways: from the view alone;
by the agent, which may read back from its transcript; and from the newest turns that
fit the same budget, unfolded. An answer counts when the fact's value stands in it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

from agent.config import Settings, load_settings, require_endpoint
from agent.context.tokens import count_text
from agent.errors import AgentError
from agent.events import CompactionFinished, TurnFinished
from agent.messages import Message, TextBlock, assistant_text, user_text
from agent.providers.base import BlockPart, Provider, Request
from agent.providers.choice import make_provider
from agent.providers.local import with_local_model
from agent.session import Session
from agent.tools.grep import Grep
from agent.tools.read_file import ReadFile
from agent.tools.recall import Recall
from agent.tools.registry import ToolBox
from bench.common import percent, print_table

_THINGS = [
    "north gate",
    "boat shed",
    "wine cellar",
    "archive room",
    "old safe",
    "server rack",
    "green house",
    "east tower",
    "post office",
    "coal bunker",
    "tool chest",
    "music room",
    "ice house",
    "clock tower",
    "map cabinet",
    "pump station",
    "guest wing",
    "seed vault",
    "print shop",
    "signal box",
]
_TEXTS = Path(__file__).parents[1]
_ANSWER_TOKENS = 256
_PASSAGE_CHARS = 700


@dataclass(frozen=True)
class Fact:
    """Something that was said once, and how it is asked for."""

    thing: str
    value: str

    @property
    def said(self) -> str:
        """As it is planted."""
        return f"By the way: the code of the {self.thing} is {self.value}."

    @property
    def question(self) -> str:
        """As it is asked for."""
        return f"What is the code of the {self.thing}? Answer with the code alone."

    def known(self, answer: str) -> bool:
        """Whether an answer has it."""
        return self.value.lower() in answer.lower()


def make_facts(count: int) -> list[Fact]:
    """So many facts, always the same ones; at most 20."""
    chance = random.Random(7)
    return [
        Fact(
            thing,
            f"{chance.choice('BDFGHKMRTX')}{chance.randrange(10)}-{chance.randrange(1000, 9999)}",
        )
        for thing in _THINGS[:count]
    ]


def passages() -> Iterator[str]:
    """Pieces of this project's own documents, without end."""
    files = [*sorted((_TEXTS / "docs").rglob("*.md")), _TEXTS / "README.md"]
    pieces = [
        text[start : start + _PASSAGE_CHARS]
        for text in (file.read_text("utf-8") for file in files)
        for start in range(0, len(text), _PASSAGE_CHARS)
    ]
    while True:
        yield from pieces


def typed_turns(facts: Sequence[Fact], turns: int) -> list[str]:
    """What the user says: every turn a passage, the facts spread over all of them."""
    planted = {number * turns // len(facts): fact for number, fact in enumerate(facts)}
    return [
        f"{planted[number].said if number in planted else ''}\n\n{passage}\n\n"
        "In one short sentence: what is this passage about?".strip()
        for number, passage in zip(range(turns), passages(), strict=False)
    ]


def newest(turns: Sequence[tuple[str, str]], budget: int) -> tuple[Message, ...]:
    """The newest turns, word for word, that fit a budget in tokens of the installed vocabulary."""
    kept: list[Message] = []
    for said, answer in reversed(turns):
        budget -= count_text(said) + count_text(answer)
        if budget < 0:
            break
        kept = [user_text(said), assistant_text(answer), *kept]
    return tuple(kept)


async def asked(provider: Provider, request: Request) -> str:
    """The text of one answer; empty where the server refuses."""
    texts: list[str] = []
    try:
        async with aclosing(provider.stream(request)) as parts:
            async for part in parts:
                match part:
                    case BlockPart(TextBlock(text)):
                        texts.append(text)
                    case _:
                        pass
    except AgentError as error:
        print(f"  refused: {error}")
    return "\n".join(texts)


async def talked(session: Session, text: str) -> tuple[str, int]:
    """The text of one turn, and how often the conversation was folded in it."""
    answer, folds = "", 0
    async with aclosing(session.send(text)) as events:
        async for event in events:
            folds += isinstance(event, CompactionFinished)
            if isinstance(event, TurnFinished):
                answer = event.text
                if event.error is not None:
                    print(f"  failed: {event.error}")
    return answer, folds


async def measure(settings: Settings, facts: Sequence[Fact], turns: int, folder: Path) -> None:
    """Talk, ask, print."""
    provider, _ = make_provider(settings)
    box = ToolBox((ReadFile(), Grep(), Recall()))
    session = Session(settings, provider, box, folder, patient=False)
    try:
        started, folds = time.monotonic(), 0
        history: list[tuple[str, str]] = []
        for text in typed_turns(facts, turns):
            answer, folded = await talked(session, text)
            history.append((text, answer))
            folds += folded
            print(f"turn {len(history)}: {session.context().size.tokens} tokens, {folds} folds")
        minutes = (time.monotonic() - started) / 60
        print(f"{turns} turns, {folds} compactions, {minutes:.1f} min")
        await _ask_all(session, provider, facts, newest(history, session.budget.tokens))
    finally:
        await session.close()


async def _ask_all(
    session: Session, provider: Provider, facts: Sequence[Fact], tail: Sequence[Message]
) -> None:
    view = [Message(m.role, (TextBlock(m.text),)) for m in session.messages() if m.text.strip()]
    known = {"from the view alone": 0, "reading back allowed": 0, "newest turns alone": 0}
    for fact in facts:
        for name, before in (("from the view alone", view), ("newest turns alone", tail)):
            messages = (*before, user_text(fact.question))
            request = Request(session.model, session.system, (), messages, _ANSWER_TOKENS)
            known[name] += fact.known(await asked(provider, request))
        answer, _ = await talked(session, fact.question)
        known["reading back allowed"] += fact.known(answer)
        # Taken out again, so that no answer helps with the next question.
        session.rewind(None)
    rows = [(name, count, percent(count / len(facts))) for name, count in known.items()]
    print_table(f"{len(facts)} facts, {session.model}", ("", "known", "share"), rows)


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base-url")
    parser.add_argument("--model")
    parser.add_argument("--local", metavar="FILE.gguf")
    parser.add_argument("--context-window", type=int)
    parser.add_argument("--budget", type=int, default=3_000)
    parser.add_argument("--facts", type=int, default=20)
    parser.add_argument("--turns", type=int, default=40)
    given = parser.parse_args()
    flags = {"base_url": given.base_url, "model": given.model, "approval": "read-only"}
    limits = {"max_input_tokens": given.budget, "context_window": given.context_window}
    settings = load_settings(flags | limits | {"max_output_tokens": _ANSWER_TOKENS}, os.environ)
    try:
        if given.local:
            weights = None if given.local == "trial" else Path(given.local)
            settings = with_local_model(settings, weights)
        else:
            require_endpoint(settings)
    except AgentError as error:
        parser.error(str(error))
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(settings, make_facts(given.facts), given.turns, Path(folder)))


if __name__ == "__main__":
    main()
