"""The ledger: what code keeps of folded turns, beside any summary (pure).

It is written anew from the facts of all folded turns at every fold, so nothing is
lost by folding again, and it never outgrows its budget: what does not fit is left
to the addresses, which always do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from agent.context.tokens import count_text
from agent.transcript.facts import TurnFacts

SHARE = 0.15
"""The ledger's part of the budget."""

LEAST_TOKENS = 400

_WORDS_CHARS = 600
_INDEX_CHARS = 110


def ledger_tokens(budget: int) -> int:
    """The ledger's own budget, in tokens."""
    return max(round(budget * SHARE), LEAST_TOKENS)


def render_ledger(
    past: Sequence[TurnFacts], address: Callable[[int, int], str], tokens: int
) -> str:
    """The ledger as text, within about ``tokens`` tokens of the installed vocabulary.

    ``address`` names where turns stand, first and last included. The parts share
    the room: the users' words first, then files and commands, then the index.
    """
    if not past:
        return ""
    shares = (
        ("The user's words, newest first:", _words(past), 0.4),
        ("Files, newest first:", _files(past), 0.15),
        ("Commands, newest first:", _commands(past), 0.15),
    )
    parts = [_where(past, address)]
    left = tokens - count_text(parts[0])
    for heading, lines, share in shares:
        text, used = _fill(heading, lines, round(tokens * share))
        if text:
            parts.append(text)
            left -= used
    index = _index(past, address, max(left, 0))
    if index:
        parts.append(index)
    return "\n\n".join(parts)


def _where(past: Sequence[TurnFacts], address: Callable[[int, int], str]) -> str:
    first, last = past[0].number, past[-1].number
    turns = f"Turn {first}" if first == last else f"Turns {first}-{last}"
    return (
        f"{turns} of this conversation were folded into this message. Every word of them is in "
        f"{address(first, last)}: open it with read_file (offset, limit) or grep it "
        "before you say that something is not known."
    )


def _words(past: Sequence[TurnFacts]) -> Iterable[str]:
    for facts in reversed(past):
        if facts.asked.strip():
            yield f"- turn {facts.number}: {_clip(facts.asked, _WORDS_CHARS)}"


def _files(past: Sequence[TurnFacts]) -> Iterable[str]:
    seen: dict[str, tuple[list[str], int]] = {}
    for facts in reversed(past):
        for file in reversed(facts.files):
            actions, _ = seen.setdefault(file.path, ([], facts.number))
            if file.action not in actions:
                actions.append(file.action)
    for path, (actions, turn) in seen.items():
        yield f"- {path} ({', '.join(sorted(actions))}; turn {turn})"


def _commands(past: Sequence[TurnFacts]) -> Iterable[str]:
    for facts in reversed(past):
        for command in reversed(facts.commands):
            code = command.exit_code or "unknown"
            yield f"- {_clip(command.command, 160)} (exit code {code}; turn {facts.number})"


def _index(past: Sequence[TurnFacts], address: Callable[[int, int], str], tokens: int) -> str:
    """One line per folded turn with its address; the oldest ones joined when room is short."""
    lines: list[str] = []
    used = 40
    for position in range(len(past) - 1, -1, -1):
        facts = past[position]
        line = f"- {address(facts.number, facts.number)}: {_clip(facts.asked, _INDEX_CHARS)}"
        used += count_text(line) + 1
        if used > tokens:
            first = past[0].number
            lines.append(f"- {address(first, facts.number)}: earlier turns")
            break
        lines.append(line)
    return "\n".join(("Index of the folded turns:", *reversed(lines)))


def _fill(heading: str, lines: Iterable[str], tokens: int) -> tuple[str, int]:
    kept: list[str] = []
    used = count_text(heading)
    for line in lines:
        cost = count_text(line) + 1
        if used + cost > tokens:
            break
        used += cost
        kept.append(line)
    return ("\n".join((heading, *kept)), used) if kept else ("", 0)


def _clip(text: str, chars: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= chars else f"{line[: chars - 1]}…"
