"""Images and documents that leave the view so that a request fits in bytes.

Tokens are the ladder's matter. An image costs few of them and many bytes, and servers
bound the bytes of a request and the number of its images, too. The oldest leave first,
each for a line with the address that keeps it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

from agent.context.engine import ContextEngine
from agent.events import CompactionFinished, CompactionStarted, Event, Trigger
from agent.messages import MediaBlock
from agent.transcript.records import CompactionRecord
from agent.transcript.turns import Turn

MOST_MEDIA = 100
"""Images and documents in a request; the Messages API takes this many with every model."""

MOST_MEDIA_BYTES = 20_000_000
"""Of base64 in a request. The Messages API takes bodies of 32 MB, other places less."""


def shed_over_limits(engine: ContextEngine) -> Iterator[Event]:
    """Bring images and documents to half of what a request may have, if there are more.

    :raises TranscriptError: it could not be saved; nothing has changed.
    """
    media = _media(engine.view.turns)
    if len(media) > MOST_MEDIA or _bytes(media) > MOST_MEDIA_BYTES:
        yield from _shed(engine, "auto", MOST_MEDIA // 2, MOST_MEDIA_BYTES // 2)


def shed_half(engine: ContextEngine) -> Iterator[Event]:
    """After a server refused the request's bytes: leave the older half of them out.

    Nothing happens if there is nothing to shed.

    :raises TranscriptError: it could not be saved; nothing has changed.
    """
    media = _media(engine.view.turns)
    yield from _shed(engine, "overflow", len(media), _bytes(media) // 2)


def shed_all(engine: ContextEngine) -> Iterator[Event]:
    """After a server refused an image: leave all of them out, the request's own too.

    :raises TranscriptError: it could not be saved; nothing has changed.
    """
    if count := len(_media(engine.view.turns)):
        yield from _adopted(engine, "overflow", _draft(engine, "overflow", count, {}))


def _shed(engine: ContextEngine, trigger: Trigger, most: int, most_bytes: int) -> Iterator[Event]:
    """Leave out the oldest until at most ``most`` and ``most_bytes`` are left.

    The present request keeps its own; of the calls that answer it, all results give up
    theirs together, if those of earlier turns were not enough.
    """
    view = engine.view
    earlier = view.turns[:-1] if view.running else view.turns
    media, all_media = _media(earlier), _media(view.turns)
    total = _bytes(all_media)
    left = accumulate(media, lambda size, item: size - len(item.data), initial=total)
    count = next(
        (
            shed
            for shed, size in enumerate(left)
            if size <= most_bytes and len(all_media) - shed <= most
        ),
        len(media),
    )
    results = view.turns[-1].messages[1:] if view.running and not count else ()
    replaced = {
        result.tool_use_id: result.told
        for message in results
        for result in message.tool_results
        if result.media
    }
    if count or replaced:
        yield from _adopted(engine, trigger, _draft(engine, trigger, count, replaced))


def _draft(
    engine: ContextEngine, trigger: Trigger, shed: int, replaced: Mapping[str, str]
) -> CompactionRecord:
    view = engine.view
    return CompactionRecord(
        trigger=trigger,
        method="shed",
        kept_from=view.turns[0].number,
        summary=view.summary,
        body=view.summary_body,
        replaced=replaced,
        shed=shed,
        factor=view.factor,
    )


def _adopted(engine: ContextEngine, trigger: Trigger, draft: CompactionRecord) -> Iterator[Event]:
    before, started = engine.meter.whole(engine.view), engine.clock()
    yield CompactionStarted(trigger, before)
    outcome = engine.adopt(draft, before, started)
    if not isinstance(outcome, str):
        yield CompactionFinished(outcome)


def _media(turns: Sequence[Turn]) -> tuple[MediaBlock, ...]:
    return tuple(item for turn in turns for message in turn.messages for item in message.media)


def _bytes(media: Sequence[MediaBlock]) -> int:
    return sum(len(item.data) for item in media)
