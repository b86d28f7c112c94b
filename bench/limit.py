"""A conversation that outgrows its window: 22 turns with answers of 4,000 tokens.

``python -m bench.limit`` runs sessions with the default settings over the real SDK
against the strict server of the tests, by whose count all figures are. Either the
client is told the window of 65,000 tokens, or it is told 200,000 while the true window
is 40,000 or 12,000 above the system prompt and the tools.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.tools.registry import ToolBox, default_tools
from agent.wire import tool_to_wire
from bench.common import Target, print_table, print_targets, thousands
from tests.e2e.support import is_summary_request, open_session, send
from tests.server.replies import Reply
from tests.server.server import MessagesServer
from tests.server.tokens import BLOCK_TOKENS, BYTES_PER_TOKEN, count_prompt

TURNS = 22
ANSWER_TOKENS = 4_000
SUMMARY_TOKENS = 900

SENTENCE = (
    "the service reads its settings once and keeps a copy of each record until the next "
    "request asks for it again so that a slow disk is met only when a new key arrives"
)


@dataclass(frozen=True)
class Scenario:
    """A server's window, in tokens, and what the client is told of it.

    ``above_frame``: the window is counted above the system prompt and the tools.
    """

    name: str
    window: int
    advertised: int
    above_frame: bool = False


@dataclass(frozen=True)
class Outcome:
    """What a scenario led to. ``tokens`` are of all prompts, refused ones included.

    ``answered`` turns have an answer, ``in_full`` ones all of it. ``window`` is the true
    one, ``learnt`` the one that the session believes in at the end.
    """

    turns: int
    answered: int
    in_full: int
    requests: int
    tokens: int
    cached: int
    refused: int
    compactions: int
    window: int
    learnt: int


TOLD = Scenario("told 65k", 65_000, 65_000)
HIDDEN_40K = Scenario("true window 40k above the frame", 40_000, 200_000, above_frame=True)
HIDDEN_12K = Scenario("true window 12k above the frame", 12_000, 200_000, above_frame=True)
SCENARIOS = (TOLD, HIDDEN_40K, HIDDEN_12K)

PEERS_TOLD = (
    ("codex", 24, 754_000),
    ("pi", 26, 658_000),
    ("opencode", 27, 896_000),
    ("kimi-cli, folding every turn", 43, 449_000),
)
"""Requests and input tokens, measured in 2026 on the same scenario."""

PEERS_HIDDEN = (
    ("Claude Code, opencode", "recovered", "recovered"),
    ("pi", "recovered", "stuck"),
    ("codex, kimi-cli, vibe, gptme, aider, llm", "never answered again", "never answered again"),
)
"""At 40k and at 12k, measured in 2026 on the same scenario."""


def text_of(tokens: int, seed: int) -> str:
    """Some prose that the server counts as ``tokens`` tokens."""
    length, known = round(tokens * BYTES_PER_TOKEN), SENTENCE.split()
    words: list[str] = []
    used = 0
    while used < length:
        number = seed * 31 + len(words)
        word = known[number * 7 % len(known)] + (f" {number}" if number % 11 == 0 else "")
        words.append(word)
        used += len(word) + 1
    return " ".join(words)[: length - 1] + "."


def frame_tokens(system: str) -> int:
    """The system prompt and the tools, as the server counts them."""
    tools = [tool_to_wire(spec) for spec in ToolBox(default_tools()).specs]
    return count_prompt({"system": system, "tools": tools, "messages": []})


async def run(scenario: Scenario, folder: Path, turns: int = TURNS) -> Outcome:
    """Hold a conversation of so many turns in a folder of its own."""

    def answer(body: Mapping[str, Any], number: int) -> Reply:
        summary = is_summary_request(body)
        tokens = SUMMARY_TOKENS if summary else ANSWER_TOKENS
        return Reply(text_of(tokens - BLOCK_TOKENS, number), chunk_size=4_000)

    with MessagesServer(
        script=answer, window=scenario.window, advertised_window=scenario.advertised
    ) as server:
        async with open_session(server, folder) as session:
            if scenario.above_frame:
                server.window += frame_tokens(session.system)
            ends = [
                await send(session, f"Question {number}: explain part {number} of the design.")
                for number in range(1, turns + 1)
            ]
            learnt = session.context().size.window
        requests = server.messages_requests
        return Outcome(
            turns=turns,
            answered=sum(end.error is None and bool(end.text) for end in ends),
            in_full=sum(end.stop_reason == "end_turn" for end in ends),
            requests=len(requests),
            tokens=sum(request.prompt_tokens for request in requests),
            cached=sum(request.usage.get("cache_read_input_tokens", 0) for request in requests),
            refused=sum(request.status != 200 for request in requests),
            compactions=sum(len(end.compactions) for end in ends),
            window=server.window,
            learnt=learnt,
        )


def run_alone(scenario: Scenario, turns: int = TURNS) -> Outcome:
    """Hold a conversation in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(run(scenario, Path(folder), turns))


def targets(outcomes: Mapping[Scenario, Outcome]) -> list[Target]:
    """The figures that were to be reached."""
    told = outcomes[TOLD]
    found = [
        Target("told 65k: requests", told.requests, 25),
        Target("told 65k: input tokens, as pi or fewer", told.tokens, 658_000),
    ]
    for scenario, outcome in outcomes.items():
        unanswered = outcome.turns - outcome.answered
        found.append(Target(f"{scenario.name}: turns without an answer", unanswered, 0))
        if scenario.above_frame:
            off = abs(outcome.learnt - outcome.window)
            found.append(Target(f"{scenario.name}: refused requests", outcome.refused, 1))
            found.append(Target(f"{scenario.name}: learnt window is off by", off, 0))
    return found


def main() -> int:
    """Print the tables; 1 when a target was missed."""
    outcomes = {scenario: run_alone(scenario) for scenario in SCENARIOS}
    rows = [
        (
            scenario.name,
            f"{outcome.answered}/{outcome.turns}",
            f"{outcome.in_full}/{outcome.turns}",
            outcome.requests,
            thousands(outcome.tokens),
            thousands(outcome.cached),
            outcome.refused,
            outcome.compactions,
            outcome.learnt,
        )
        for scenario, outcome in outcomes.items()
    ]
    headings = ("agent chat", "answered", "in full", "requests", "input", "of it cached")
    print_table("22 turns of 4,000 tokens", (*headings, "refused", "folds", "window learnt"), rows)
    peers = [(name, requests, thousands(tokens)) for name, requests, tokens in PEERS_TOLD]
    title = "others, told 65k (measured in 2026 on the same scenario)"
    print_table(title, ("", "requests", "input"), peers)
    title = "others, true window hidden (measured in 2026 on the same scenario)"
    print_table(title, ("", "40k", "12k"), PEERS_HIDDEN)
    return 0 if print_targets(targets(outcomes)) else 1


if __name__ == "__main__":
    sys.exit(main())
