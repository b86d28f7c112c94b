"""The tool that searches what was said before, folded turns included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from agent.errors import SessionError, ToolError
from agent.messages import ToolSpec
from agent.tools.arguments import object_schema, one_line, text
from agent.tools.base import Action, ToolContext, ToolOutcome
from agent.tools.paths import shown_path
from agent.tools.threads import Stop, in_thread

if TYPE_CHECKING:
    from agent.transcript.search import Hit

_MOST_HITS = 6
_MOST_CHARS = 2_000
_HEADING = "Best places first; read_file opens an address whole:"


class Recall:
    """Answers with short excerpts and their addresses, never with more than fits."""

    spec = ToolSpec(
        "recall",
        "Search earlier turns of this session, those that left this conversation too, for "
        "words; gives excerpts with addresses for read_file.",
        object_schema(
            "query",
            query={"type": "string", "description": "plain words"},
            all_sessions={"type": "boolean", "description": "all sessions of this folder"},
        ),
    )

    def summary(self, arguments: Mapping[str, object]) -> str:
        """The words."""
        everywhere = " in all sessions" if arguments.get("all_sessions") is True else ""
        return f"{one_line(arguments.get('query', ''))}{everywhere}"

    def plan(self, arguments: Mapping[str, object], context: ToolContext) -> Action:
        """A read of this folder's own transcripts."""
        query = text(arguments, "query")
        if not query.strip():
            raise ToolError("The query is empty. Give some words that were said.")
        return Action(
            kind="read",
            title=f"Recall {one_line(query)}",
            detail=query,
            key=f"recall:{context.transcripts}",
            inside=True,
        )

    async def run(self, arguments: Mapping[str, object], context: ToolContext) -> ToolOutcome:
        """Search."""
        query = text(arguments, "query")
        everywhere = arguments.get("all_sessions") is True or not context.session_id
        # Loaded here: most sessions never search.
        from agent.transcript.search import search

        def work(stop: Stop) -> Sequence[Hit]:
            return search(
                context.transcripts,
                shown_path(context.transcripts, context.cwd),
                query,
                sessions=None if everywhere else (context.session_id,),
                running=context.session_id,
                limit=_MOST_HITS,
                check=stop.check,
            )

        try:
            hits = await in_thread(work)
        except SessionError as error:
            raise ToolError(f"{error}; use grep on {one_line(context.transcripts)}.") from error
        room = min(_MOST_CHARS, context.max_chars)
        answer = told(hits, room) if hits else _nothing(query, everywhere=everywhere)
        return ToolOutcome(answer[:room], capped=True)


def told(hits: Sequence[Hit], room: int) -> str:
    """As many places, best first, as fit whole into ``room`` characters."""
    lines = [_HEADING]
    free = room - len(_HEADING)
    for hit in hits:
        place = f"{hit.address} · {hit.kind} · {_when(hit.when)}\n  {hit.excerpt}"
        free -= len(place) + 1
        if free < 0:
            break
        lines.append(place)
    return "\n".join(lines)


def _nothing(query: str, *, everywhere: bool) -> str:
    where = "any session of this folder" if everywhere else "this session"
    more = "" if everywhere else ", or all_sessions=true"
    return f"Nothing found in {where} for {one_line(query)!r}. Try other or fewer words{more}."


def _when(ts: float) -> str:
    return datetime.fromtimestamp(ts, UTC).strftime("%Y-%m-%d %H:%M")
