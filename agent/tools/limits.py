"""Keeping a tool's output small enough for the model, and whole on disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agent.errors import TranscriptError
from agent.messages import MediaBlock, scrub
from agent.tools.base import ToolContext, ToolOutcome
from agent.tools.paths import shown_path
from agent.transcript.outputs import keep_media, save_output

_MIN_ROOM = 20
_LEAST_CHARS, _MOST_CHARS = 1_200, 30_000


def most_chars(tokens: int) -> int:
    """How many characters one result may have: a quarter of a budget of so many tokens."""
    # Three characters a token.
    return min(max(round(tokens * 0.25 * 3), _LEAST_CHARS), _MOST_CHARS)


@dataclass(frozen=True)
class BoundedOutcome:
    """A tool's result as the model is given it.

    ``output_file`` holds the whole output when ``content`` is only a part of it.
    """

    content: str
    is_error: bool = False
    diff: str = ""
    output_file: Path | None = None
    media: tuple[MediaBlock, ...] = ()


def cap(text: str, max_chars: int, note: str) -> str:
    """The text in at most ``max_chars`` characters: its head and its tail, about 60 to 40.

    A marker in between says how much is left out, which lines, and ``note``: how
    to get at it. Cuts fall between lines where that costs less than half a part.
    Where there is no room for a useful marker, the head alone is kept.
    """
    if len(text) <= max_chars:
        return text
    for said in (note, ""):
        # No marker is longer than the one for the whole text.
        room = max_chars - len(_marker(text, 0, len(text), said)) - len("\n\n")
        if room >= _MIN_ROOM:
            head_end = _line_end(text, room * 6 // 10)
            tail_start = _line_start(text, len(text) - (room - room * 6 // 10))
            head = text[:head_end].removesuffix("\n")
            return f"{head}\n{_marker(text, head_end, tail_start, said)}\n{text[tail_start:]}"
    return text[: max(0, max_chars)]


def _marker(text: str, start: int, end: int, note: str) -> str:
    """The line that stands for ``text[start:end]``; no longer for a smaller part."""
    total = text.count("\n") + (not text.endswith("\n"))
    first = text.count("\n", 0, start) + 1
    last = text.count("\n", 0, end - 1) + 1
    lines = f"lines {first:,}-{last:,} of {total:,}"
    if start == 0 and end == len(text):
        lines = f"lines {total:,}-{total:,} of {total:,}"
    said = f"; {note}" if note else ""
    return f"[... {end - start:,} of {len(text):,} characters left out, {lines}{said} ...]"


def _line_end(text: str, limit: int) -> int:
    """The end of the last whole line within ``limit`` characters, or ``limit``."""
    end = text.rfind("\n", 0, limit) + 1
    return end if end * 2 >= limit else limit


def _line_start(text: str, limit: int) -> int:
    """The start of the first whole line from ``limit`` on, or ``limit``."""
    start = text.find("\n", limit - 1) + 1
    return start if start > 0 and (start - limit) * 2 <= len(text) - limit else limit


def bounded(
    outcome: ToolOutcome, context: ToolContext, tool_name: str, folder: Path
) -> BoundedOutcome:
    """What the model is given of an outcome: never more than ``context.max_chars``.

    What is too long is written whole to a file in ``folder``, the session's own,
    and its address stands in the marker. An outcome that the tool has bounded
    itself is on disk already and is not saved again. A failure to save is told
    in the marker, not raised: the rest of the result is still worth having.
    """
    content = scrub(outcome.content)
    file: Path | None = None
    note = ""
    if len(content) > context.max_chars and not outcome.capped:
        try:
            file = save_output(folder, f"{tool_name}.txt", content.encode("utf-8"))
        except (OSError, TranscriptError) as error:
            note = f"the whole output could not be saved: {error}"
        else:
            shown = shown_path(file.resolve(), context.cwd.resolve())
            note = f'the whole output: read_file(path="{shown}", offset=1)'
    media, lost = _kept(outcome.media, context, folder)
    shown = cap(content, context.max_chars, note)
    return BoundedOutcome(
        content=f"{shown}\n{lost}" if lost else shown,
        is_error=outcome.is_error,
        diff=scrub(outcome.diff),
        output_file=file,
        media=media,
    )


def _kept(
    media: tuple[MediaBlock, ...], context: ToolContext, folder: Path
) -> tuple[tuple[MediaBlock, ...], str]:
    """The images and documents with their addresses; what to say where saving failed."""
    try:
        label = shown_path(context.transcripts.resolve(), context.cwd.resolve())
        return tuple(keep_media(item, folder, label) for item in media), ""
    except (OSError, TranscriptError) as error:
        return media, f"[no copy of it could be saved: {error}]"
