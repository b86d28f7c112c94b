"""What to fold, and where to cut (pure).

A cut falls between turns only. The turn being answered is never folded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent.messages import Message, ToolResultBlock
from agent.transcript.turns import Turn
from agent.transcript.view import View

STUB_CHARS = 400
"""Tool results up to this many characters are not worth a stub."""


@dataclass(frozen=True)
class FoldPlan:
    """Turns to fold (never none) and turns to keep, oldest first."""

    fold: tuple[Turn, ...]
    keep: tuple[Turn, ...]

    @property
    def kept_from(self) -> int:
        """The number of the first kept turn."""
        return self.fold[-1].number + 1


def plan_fold(view: View, keep: int) -> FoldPlan | None:
    """Fold all but the newest ``keep`` finished turns; ``None`` when there are no more."""
    finished = view.turns[:-1] if view.running else view.turns
    cut = max(len(finished) - keep, 0)
    if cut == 0:
        return None
    return FoldPlan(view.turns[:cut], view.turns[cut:])


def fitting_keep(view: View, keep: int, room: int, measure: Callable[[Turn], int]) -> int:
    """The most finished turns, up to ``keep``, whose sizes together fit into ``room`` tokens."""
    finished = view.turns[:-1] if view.running else view.turns
    used = 0
    for count, turn in enumerate(reversed(finished[-keep:] if keep else ())):
        used += measure(turn)
        if used > room:
            return count
    return min(keep, len(finished))


def stub_results(turns: Sequence[Turn], address: Callable[[str], str]) -> dict[str, str]:
    """Lines with an address for the given turns' results that are long or show an image."""
    return {
        result.tool_use_id: stub(result, address(result.tool_use_id))
        for turn in turns
        for message in turn.messages
        for result in message.tool_results
        if len(result.content) > STUB_CHARS or result.media
    }


def stub(result: ToolResultBlock, address: str) -> str:
    """The line that stands for a result. Its last line is kept: it has a command's exit code."""
    last = result.content.rstrip().rsplit("\n", 1)[-1]
    lines = [f"[{len(result.content)} characters; read them at {address}]"]
    if len(last) <= 80 and last.startswith("["):
        lines.append(last)
    return "\n".join((*lines, *(media.line for media in result.media)))


def call_groups(messages: Sequence[Message]) -> int:
    """How many of a turn's messages, after the user's, are finished call groups.

    A group is an assistant message with tool calls and the message with their results.
    """
    count = 0
    while (
        len(messages) > 2 + count
        and messages[1 + count].role == "assistant"
        and messages[2 + count].tool_results
    ):
        count += 2
    return count


def tell(
    turn: Turn, count: int, whole: str, address: Callable[[str], str], chars: int
) -> tuple[str, ...]:
    """One line for each call among the first ``count`` messages after the user's.

    The first line gives the address ``whole`` of the turn; lines that told earlier
    calls come next. The oldest calls are left out beyond ``chars`` characters.
    """
    results = {
        result.tool_use_id: result for message in turn.messages for result in message.tool_results
    }
    lines = list(turn.told[1:])
    for message in turn.messages[1 : 1 + count]:
        if message.role == "assistant" and message.text.strip():
            lines.append(f"- you said: {_clip(message.text, 300)}")
        for use in message.tool_uses:
            result = results.get(use.id)
            outcome = _outcome(result, address(use.id)) if result else "no result"
            argument = next((str(value) for value in use.input.values()), "")
            lines.append(f"- {use.name} {_clip(argument, 120)}: {outcome}")
    return (f"- every word of it: {whole}", *_newest(lines, chars))


def _outcome(result: ToolResultBlock, address: str) -> str:
    state = "error, " if result.is_error else ""
    shown = "".join(f" {media.line}" for media in result.media)
    size = f"{len(result.content)} characters at {address}"
    return f"{state}{_clip(result.content, 160)} ({size}){shown}"


def _newest(lines: list[str], chars: int) -> list[str]:
    kept: list[str] = []
    used = 0
    for line in reversed(lines):
        used += len(line) + 1
        if used > chars and kept:
            break
        kept.append(line)
    kept.reverse()
    return kept


def clip_results(message: Message, chars: int, address: Callable[[str], str]) -> dict[str, str]:
    """The results of one message cut to ``chars`` characters in all, longest first.

    Each keeps its head and its tail, with the address of the whole in between; of
    images and documents there is a line.
    """
    results = sorted(message.tool_results, key=lambda result: len(result.told))
    clipped: dict[str, str] = {}
    left = chars
    for index, result in enumerate(results):
        share = max(left // (len(results) - index), 0)
        if len(result.told) > share:
            clipped[result.tool_use_id] = _head_and_tail(
                result.told, share, address(result.tool_use_id)
            )
        elif result.media:
            clipped[result.tool_use_id] = result.told
        left -= min(len(result.told), share)
    return clipped


def _head_and_tail(text: str, chars: int, address: str) -> str:
    marker = f"\n[... shortened to fit; all {len(text)} characters are at {address} ...]\n"
    room = max(chars - len(marker), 0)
    head = room * 2 // 3
    tail = room - head
    return text[:head] + marker + (text[-tail:] if tail else "")


def _clip(text: str, chars: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= chars else f"{line[: chars - 1]}…"
