"""What the benches share: tables, quantiles, and how a target is told."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """A figure that was to be reached. ``value`` and ``bound`` are in the words' unit."""

    words: str
    value: float
    bound: float
    at_least: bool = False

    @property
    def reached(self) -> bool:
        """Whether it was."""
        return self.value >= self.bound if self.at_least else self.value <= self.bound


def print_table(title: str, headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table: the first column to the left, figures to the right."""
    cells = [
        [str(heading) for heading in headings],
        *([_cell(item) for item in row] for row in rows),
    ]
    widths = [max(len(row[column]) for row in cells) for column in range(len(headings))]
    print(f"\n{title}")
    for number, row in enumerate(cells):
        first, *rest = (
            item.ljust(width) if column == 0 else item.rjust(width)
            for column, (item, width) in enumerate(zip(row, widths, strict=True))
        )
        print("  ".join((first, *rest)).rstrip())
        if number == 0:
            print("  ".join("-" * width for width in widths))


def print_targets(targets: Sequence[Target]) -> bool:
    """Each target with its figure; true when all were reached."""
    rows = [
        (
            target.words,
            _figure(target.value),
            f"{'>=' if target.at_least else '<='} {_figure(target.bound)}",
            "reached" if target.reached else "MISSED",
        )
        for target in targets
    ]
    print_table("targets", ("", "measured", "target", ""), rows)
    return all(target.reached for target in targets)


def quantile(values: Iterable[float], share: float) -> float:
    """The value below or at which ``share`` of the values are; NaN without any."""
    ordered = sorted(values)
    if not ordered:
        return math.nan
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def percent(share: float, signed: bool = False) -> str:
    """A share as a percentage with one decimal."""
    return f"{100 * share:{'+' if signed else ''}.1f}%"


def thousands(count: float) -> str:
    """A number of tokens, in thousands."""
    return f"{count / 1_000:,.0f}k"


def _cell(item: object) -> str:
    return f"{item:,}" if isinstance(item, int) else str(item)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"
