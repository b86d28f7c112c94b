"""Figures and short texts, as every screen of this program writes them."""

from __future__ import annotations

from agent.events import ContextSize
from agent.ui.sanitize import sanitize

CONTEXT_WARNING = 0.7
"""From this part of the budget on, the figure is coloured."""
CONTEXT_ALARM = 0.9


def count(number: int, noun: str) -> str:
    """``1 turn``, ``2 turns``; the plural is the noun with an ``s``."""
    return f"{number} {noun}" if number == 1 else f"{number:,} {noun}s"


def tokens(number: int) -> str:
    """Tokens in at most five characters: ``512``, ``12.3k``, ``140k``, ``1.2M``."""
    if number < 1000:
        return str(number)
    if number < 99_950:
        return f"{number / 1000:.1f}k"
    if number < 999_500:
        return f"{number / 1000:.0f}k"
    return f"{number / 1_000_000:.1f}M"


def seconds(duration: float) -> str:
    """A duration in seconds: ``0.3 s``, ``42 s``, ``2 min 5 s``."""
    return f"{duration:.1f} s" if duration < 9.95 else whole_seconds(duration)


def whole_seconds(duration: float) -> str:
    """A duration that is still going on, which changes once a second."""
    whole = round(duration)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60} s"


def size(number: int) -> str:
    """A size in bytes: ``120 B``, ``1.2 kB``, ``3.4 MB``."""
    if number < 1000:
        return f"{number} B"
    if number < 999_950:
        return f"{number / 1000:.1f} kB"
    return f"{number / 1_000_000:.1f} MB"


def dollars(amount: float) -> str:
    """US dollars: ``$0.0123``, ``$4.20``."""
    return f"${amount:.4f}" if amount < 1 else f"${amount:.2f}"


def age(duration: float) -> str:
    """How long ago, in the largest fitting unit: ``just now``, ``5 min``, ``3 h``, ``12 d``."""
    if duration < 60:
        return "just now"
    if duration < 3600:
        return f"{duration // 60:.0f} min"
    if duration < 86_400:
        return f"{duration // 3600:.0f} h"
    return f"{duration // 86_400:.0f} d"


def share(context: ContextSize) -> str:
    """The used part of the budget: ``27%``, or ``~27%`` when it is an estimate."""
    about = "" if context.exact else "~"
    return f"{about}{context.share:.0%}"


def share_style(context: ContextSize) -> str:
    """The Rich style that the figure deserves."""
    if context.share >= CONTEXT_ALARM:
        return "red"
    return "yellow" if context.share >= CONTEXT_WARNING else ""


def one_line(text: str, limit: int = 200) -> str:
    """Foreign text as one harmless line of at most ``limit`` characters."""
    line = " ".join(sanitize(text[: 4 * limit]).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
