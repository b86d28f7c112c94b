"""The ledger: what code keeps of folded turns, beside any summary (pure).

It is written anew from the facts of all folded turns at every fold, so nothing is
lost by folding again, and it never outgrows its budget: what does not fit is left
to the addresses, which always do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from agent.context.tokens import count_text
from agent.transcript.facts import TurnFacts
from agent.transcript.identifiers import Identifier

SHARE = 0.15
"""The ledger's part of the budget."""

LEAST_TOKENS = 400

Address: TypeAlias = Callable[[int, int], str]

_WORDS_CHARS = 600
_INDEX_CHARS = 110
_COMMAND_CHARS = 160
_MOST_RANGES = 5
_RANGE_TOKENS = 40
_MOST_IDENTIFIER_TOKENS = 3_000
"""More identifiers than this have hardly ever been needed."""

_LEAST_WEIGHT = 0.002
"""In real sessions, one in a hundred of the identifiers below this was needed again."""

# How much of the room is taken when a part is full, in the order of writing. What a
# part leaves goes to the next ones.
_REMEMBER, _TURNS, _FILES, _COMMANDS, _ERRORS = 0.25, 0.36, 0.56, 0.63, 0.67


def ledger_tokens(budget: int) -> int:
    """The ledger's own budget, in tokens."""
    return max(round(budget * SHARE), LEAST_TOKENS)


def render_ledger(
    past: Sequence[TurnFacts],
    address: Address,
    tokens: int,
    known: str = "",
    *,
    summarised: bool = False,
) -> str:
    """The ledger as text, within about ``tokens`` tokens of the installed vocabulary.

    ``address`` names where turns stand, first and last included. ``known`` is text that
    will stand beside the ledger (the summary, the kept turns): what it has is told last
    or not at all. With ``summarised`` a model has told how the turns ended.
    """
    if not past:
        return ""
    mentioned = _identifiers(past)
    page = _written(past, address, tokens, known, mentioned, summarised, 0)
    if (spare := page.room(1)) > tokens // 20:
        page = _written(past, address, tokens, known, mentioned, summarised, spare)
    return page.text


def _written(
    past: Sequence[TurnFacts],
    address: Address,
    tokens: int,
    known: str,
    mentioned: Sequence[Identifier],
    summarised: bool,
    spare: int,
) -> _Page:
    """The ledger's page. ``spare`` tokens, which no other part can use, go to the turns."""
    page = _Page(tokens, _where(past, address))
    page.write("To be remembered, in the user's words:", _instructions(past), page.room(_REMEMBER))
    room = page.room(_TURNS) + spare
    heading = "Turns, newest first (lines of that file: the user's words"
    heading += "):" if summarised else " -> the end of the answer):"
    page.write(heading, _turns(past, address, room, answers=not summarised), room)
    page.write("Files, newest first:", _files(past, known), page.room(_FILES, spare))
    page.write("Commands, newest first:", _commands(past), page.room(_COMMANDS, spare))
    page.write("Errors met, newest first:", _errors(past), page.room(_ERRORS, spare))
    page.list("Also mentioned:", mentioned, known)
    return page


class _Page:
    """A text that grows by parts, within so many tokens."""

    def __init__(self, tokens: int, text: str) -> None:
        self.text = text
        self._room = max(tokens - count_text(text), 0)
        self._used = 0

    def room(self, share: float, spent: int = 0) -> int:
        """What is left, in tokens, until ``share`` of the page is full, but for ``spent``."""
        left = self._room - self._used
        return max(min(round(self._room * share) - self._used + spent, left), 0)

    def write(self, heading: str, lines: Iterable[str], tokens: int) -> None:
        """A part of as many lines as fit into so many tokens."""
        room = tokens - count_text(heading) - 1
        kept: list[str] = []
        for line in lines:
            fitted = line if kept else _fitted(line, room)
            room -= count_text(fitted) + 1
            if room < 0 or not fitted:
                break
            kept.append(fitted)
        if kept:
            self._add("\n".join((heading, *kept)))

    def list(self, heading: str, identifiers: Iterable[Identifier], known: str) -> None:
        """A list of the identifiers that neither the page nor ``known`` has, to its end."""
        room = min(self.room(1), _MOST_IDENTIFIER_TOKENS) - count_text(heading) - 1
        kept: list[str] = []
        there = f"{known}\n{self.text}\n"
        for identifier in identifiers:
            if identifier.weight < _LEAST_WEIGHT:
                break
            if identifier.text in there:
                continue
            room -= count_text(f", {identifier.text}")
            if room < 0:
                break
            kept.append(identifier.text)
            there += f"{identifier.text}\n"
        if kept:
            self._add(f"{heading} {', '.join(kept)}")

    def _add(self, part: str) -> None:
        self.text = f"{self.text}\n\n{part}"
        self._used += count_text(part) + 1


def _where(past: Sequence[TurnFacts], address: Address) -> str:
    first, last = past[0].number, past[-1].number
    turns = f"Turn {first}" if first == last else f"Turns {first}-{last}"
    return (
        f"{turns} of this conversation were folded into this message. Every word of them is in "
        f"{address(first, last)}: open it with read_file (offset, limit) or grep it "
        "before you say that something is not known."
    )


def _instructions(past: Sequence[TurnFacts]) -> Iterator[str]:
    """Lasting instructions before other rules, the newest first, each once."""
    seen: set[str] = set()
    for lasting in (True, False):
        for facts in reversed(past):
            for instruction in facts.instructions:
                if instruction.lasting is lasting and instruction.text not in seen:
                    seen.add(instruction.text)
                    yield f"- {instruction.text} (turn {facts.number})"


def _turns(
    past: Sequence[TurnFacts], address: Address, room: int, *, answers: bool
) -> Iterator[str]:
    """A line for each turn, newest first: long, then short; the oldest are joined."""
    whole = address(past[0].number, past[-1].number)
    used = 0
    prefix = whole[: whole.rfind(":") + 1]

    def place(first: int, last: int) -> str:
        found = address(first, last).removeprefix(prefix)
        return found or (f"turn {first}" if first == last else f"turns {first}-{last}")

    for position in range(len(past) - 1, -1, -1):
        facts = past[position]
        words = min(_INDEX_CHARS if used > room // 2 else _WORDS_CHARS, room)
        told = _told(facts, words, words // 3 if answers else 0)
        line = f"- {place(facts.number, facts.number)}: {told}"
        used += count_text(line) + 1
        if used > room * 3 // 4 and 0 < position < len(past) - 1:
            ranges = min(max((room - used) // _RANGE_TOKENS, 1), _MOST_RANGES)
            yield from _joined(past[: position + 1], ranges, place)
            return
        yield line


def _told(facts: TurnFacts, words: int, answer: int) -> str:
    asked, answered = _clip(facts.asked, words), _clip(facts.answer, answer)
    return f"{asked} -> {answered}" if answered else asked


def _joined(past: Sequence[TurnFacts], ranges: int, place: Address) -> Iterator[str]:
    """The oldest turns in a few lines, the newest of them first."""
    size = -(-len(past) // ranges)
    for end in range(len(past), 0, -size):
        turns = past[max(end - size, 0) : end]
        asked = _clip(turns[0].asked, _INDEX_CHARS // 2)
        yield f"- {place(turns[0].number, turns[-1].number)}: {asked} ..."


def _files(past: Sequence[TurnFacts], known: str) -> Iterator[str]:
    """Each file once, with the most that was done to it and when it was last touched.

    Files whose names ``known`` does not have come first.
    """
    actions: dict[str, str] = {}
    turns: dict[str, int] = {}
    for facts in reversed(past):
        for file in reversed(facts.files):
            turns.setdefault(file.path, facts.number)
            most = actions.get(file.path, file.action)
            actions[file.path] = max(most, file.action, key=_ACTIONS.index)
    named: list[str] = []
    for path, turn in turns.items():
        line = f"- {path} ({actions[path]}; turn {turn})"
        if _name(path) in known:
            named.append(line)
        else:
            yield line
    yield from named


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1]


_ACTIONS = ("searched", "read", "attached", "edited", "written")


def _commands(past: Sequence[TurnFacts]) -> Iterator[str]:
    """Each command once; a change to the folder of the line above is left out."""
    seen: set[str] = set()
    folder = ""
    for facts in reversed(past):
        for command in reversed(facts.commands):
            text = _FILTER.sub("", command.command)
            if text in seen:
                continue
            seen.add(text)
            moved = _MOVED.match(text)
            if moved and moved.group(1) == folder:
                text = text[moved.end() :]
            folder = moved.group(1) if moved else ""
            code = f"exit code {command.exit_code}; " if command.exit_code else ""
            yield f"- {_clip(text, _COMMAND_CHARS)} ({code}turn {facts.number})"


_FILTER = re.compile(r"(?:\s*2>&1|\s*2>/dev/null|\s*\|\s*(?:head|tail)(?:\s+-\S+)*)+\s*$")
_MOVED = re.compile(r"cd (\S+) && ")


def _errors(past: Sequence[TurnFacts]) -> Iterator[str]:
    seen: set[str] = set()
    for facts in reversed(past):
        for error in reversed(facts.errors):
            if error not in seen:
                seen.add(error)
                yield f"- {error} (turn {facts.number})"


def _identifiers(past: Sequence[TurnFacts]) -> list[Identifier]:
    """Those of all turns, weightiest first."""
    found: dict[str, Identifier] = {}
    after = 0
    for facts in reversed(past):
        for identifier in facts.identifiers:
            aged = identifier.aged(after)
            known = found.get(aged.text)
            found[aged.text] = known.merged(aged) if known else aged
        after += facts.messages
    return sorted(found.values(), key=lambda identifier: (-identifier.weight, identifier.text))


def _fitted(line: str, tokens: int) -> str:
    """A line, cut until it fits; empty where there is no room at all."""
    if tokens <= 0:
        return ""
    while line and (count := count_text(line)) > tokens:
        line = _clip(line, min(len(line) * max(tokens, 0) // count, len(line) - 1))
    return line


def _clip(text: str, chars: int) -> str:
    line = " ".join(text.split())
    if len(line) <= chars:
        return line
    return f"{line[: chars - 1]}…" if chars > 0 else ""
