"""What a token of an answer costs on the screen, and whether that grows with the answer.

``python -m bench.stream`` plays answers of 1,000, 10,000 and 100,000 characters through
the printer of the chat in a real terminal, 24 characters and 20 ms at a time by a clock of
its own, so that redraws come as often as they do in use, while everything else is as fast
as it goes. Measured are the CPU time of the process (user and system) and the bytes that
it writes; the floor writes the same pieces as they come.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from contextlib import closing

from rich.console import Console

from agent.events import TextDelta
from agent.ui.render import EventPrinter
from bench.common import Target, print_table, print_targets
from bench.limit import SENTENCE
from bench.terminal import ROOT, Terminal
from tests.e2e.support import environment

SIZES = (1_000, 10_000, 100_000)
PIECE, PIECE_SECONDS = 24, 0.02
GROWTH = 1.5
"""What noise and the start of an answer may make of a cost that is constant."""

TABLE_HEAD = "| name | what it does | figure |\n|---|---|---|\n"
KINDS: Mapping[str, Callable[[int], str]] = {
    "prose": lambda n: f"Part {n}: {SENTENCE}. *{SENTENCE}*, or `code_{n}`.\n\n",
    "one paragraph": lambda n: f"Sentence {n}: {SENTENCE}. ",
    "code": lambda n: f"    value_{n} = compute({n}, 'a string')  # and why\n",
    "list": lambda n: f"- item {n}: {SENTENCE}\n  - and what belongs to it\n",
    "table": lambda n: f"| name {n} | {SENTENCE[:40]} | {n * 7} |\n",
    "one line of code": lambda n: f"{n}, ",
}
OPENINGS = {"code": "```python\n", "one line of code": "```\n", "table": TABLE_HEAD}
FLOOR = "floor: as it comes"


def answer(kind: str, characters: int) -> str:
    """An answer of a kind and about a length."""
    parts, size, number = [OPENINGS.get(kind, "")], 0, 0
    while size < characters:
        number += 1
        parts.append(KINDS[kind](number))
        size += len(parts[-1])
    return "".join(parts)


def play(kind: str, characters: int) -> None:
    """In the terminal: show an answer; its figures go to stderr, a line of two."""
    plain = kind == FLOOR
    text = answer("prose" if plain else kind, characters)
    pieces = [text[start : start + PIECE] for start in range(0, len(text), PIECE)]
    played = 0.0
    console = Console(highlight=False)
    printer = EventPrinter(console, clock=lambda: played + time.process_time())
    # What is imported at the first block is not the answer's cost.
    first = "# first\n\n```python\nx = 1\n```\n\n- a\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    printer.handle(TextDelta(first))
    printer.finish()
    console.file.write("BEGIN")
    console.file.flush()
    sys.stdin.readline()
    cpu = time.process_time()
    for piece in pieces:
        if plain:
            console.file.write(piece)
            console.file.flush()
        else:
            printer.handle(TextDelta(piece))
            printer.tick()
        played += PIECE_SECONDS
    printer.finish()
    spent = (time.process_time() - cpu) * 1e6 / len(pieces)
    console.file.write(f"END {spent:.1f} {len(pieces)};")
    console.file.flush()


def measure(kind: str, characters: int) -> tuple[float, float]:
    """Microseconds of the CPU, and bytes written, for each piece; the best of a few."""
    found = []
    for _ in range(1 if characters == SIZES[-1] else 3):
        arguments = ("bench.stream", "--play", kind, str(characters))
        with closing(Terminal(arguments, environment(None, ROOT), ROOT)) as terminal:
            terminal.wait_for("BEGIN")
            before = terminal.bytes
            terminal.forget()
            terminal.type("\n")
            spent, pieces = terminal.text_between("END ", ";").split()
            found.append((float(spent), (terminal.bytes - before) / int(pieces)))
    return min(found)


def main() -> int:
    """Measure, print, and say whether the figures are reached."""
    kinds = (*KINDS, FLOOR)
    found = {kind: [measure(kind, size) for size in SIZES] for kind in kinds}
    heads = [f"{what} at {size:,}" for what in ("us", "bytes") for size in SIZES]
    rows = [
        (kind, *(f"{pair[which]:.0f}" for which in (0, 1) for pair in pairs))
        for kind, pairs in found.items()
    ]
    print_table(f"each piece of {PIECE} characters", ("", *heads), rows)
    targets = []
    for kind in KINDS:
        (_, middle, longest) = found[kind]
        for which, what in enumerate(("CPU", "bytes")):
            growth = longest[which] / middle[which]
            targets.append(Target(f"{kind}: {what}, 100,000 to 10,000", growth, GROWTH))
    return 0 if print_targets(targets) else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--play"]:
        play(sys.argv[2], int(sys.argv[3]))
    else:
        sys.exit(main())
