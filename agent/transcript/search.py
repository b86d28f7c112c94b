"""Finding words in the sessions of a transcripts folder, folded turns included.

The logs are read through at every search, 100 MB in a few seconds: there is no index
that could be behind them, damaged or in use.
"""

from __future__ import annotations

import math
import time
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from pathlib import Path
from typing import Literal, TypeAlias

from agent.errors import SessionError
from agent.messages import TextBlock, ToolUseBlock
from agent.transcript.identifiers import leaves
from agent.transcript.log import read_log
from agent.transcript.readable import Renderer, Span
from agent.transcript.records import BlockRecord, Record, ToolResultRecord, UserRecord
from agent.transcript.search_words import Term, folded, terms
from agent.transcript.sessions import session_ids
from agent.wire import compact_json

BEST = 10
EVERY = 1_000
"""How many places are enough, and how many are all that anybody reads."""

EXCERPT_CHARS = 200
_BEFORE_CHARS = 60
"""How much of an excerpt stands before what was found."""

RECALL = "recall"
"""The tool that searches. Its own calls and answers are not found by a search."""

_MOST_MATCHES = 80
"""So many matches of a term in one text count."""

_PAGE_LINES = 60
"""An address names at most so many lines: what is found stands in the middle of them."""

_MOST_PER_TURN = 3
_NEAR_LINES = 100
"""Of one turn, places that are closer than this are one."""

_RECENCY = 0.3
"""What being said just now is worth, relative to how well the words fit."""

_SATURATION, _LENGTH_SHARE = 1.2, 0.75
"""BM25's usual parameters."""

Kind: TypeAlias = Literal["user", "assistant", "call", "result"]


@dataclass(frozen=True, slots=True)
class Hit:
    """A place where the words were found.

    ``excerpt`` is one line of about 200 characters around them; ``address`` is what
    ``read_file`` opens; ``when`` is in seconds since the epoch.
    """

    session_id: str
    turn: int
    kind: Kind
    excerpt: str
    address: str
    when: float


@dataclass(frozen=True, slots=True)
class _Match:
    """How well a text fits.

    ``level`` is 2 where all terms are in it, 1 where all begin words of it, otherwise 0;
    ``counts`` has for each term how often a part of it occurs; ``at`` is where the most
    terms stand together; ``size`` is the text's, in characters.
    """

    level: int
    counts: tuple[int, ...]
    at: int
    size: int


@dataclass(frozen=True, slots=True)
class _Place:
    """A hit without its address, how well it fits, and all the lines that it was said on."""

    hit: Hit
    match: _Match
    said: Span
    page: Span


def search(
    folder: Path,
    label: str,
    words: str,
    *,
    sessions: Collection[str] | None = None,
    running: str = "",
    limit: int = BEST,
    check: Callable[[], None] = lambda: None,
) -> tuple[Hit, ...]:
    """Where some plain words were said, best places first.

    Places with all the words come before those with words that begin so, and these
    before places with some of them. ``label`` is the folder's name in addresses.
    ``sessions`` are the ids to search, ``None`` for all of the folder; ``running`` is
    the session whose newest turn is going on: of that turn only tool results count.
    ``check`` is called often and may raise to stop the search.

    :raises SessionError: the folder is a symbolic link.
    """
    if folder.is_symlink():
        raise SessionError(f"{folder} is a symbolic link; transcripts are only kept in a folder")
    wanted = terms(words)
    places: list[_Place] = []
    rendered: dict[str, int] = {}
    for session in session_ids(folder) if wanted else ():
        if sessions is None or session in sessions:
            renderer = Renderer()
            found = list(_places(folder, session, wanted, renderer, check))
            rendered[session] = renderer.lines
            going_on = renderer.newest_turn if session == running else 0
            places += [it for it in found if it.hit.turn != going_on or it.hit.kind == "result"]
    hits: list[Hit] = []
    for place in islice(_distinct(_ranked(places)), limit):
        name = f"{place.hit.session_id}.md"
        below = _lines_above(folder / name, rendered[place.hit.session_id])
        lines = f"{place.page.first + below}-{place.page.last + below}"
        hits.append(replace(place.hit, address=f"{label}/{name}:{lines}, turn {place.hit.turn}"))
    return tuple(hits)


def _places(
    folder: Path,
    session: str,
    wanted: Sequence[Term],
    renderer: Renderer,
    check: Callable[[], None],
) -> Iterator[_Place]:
    """Where the words are in a session, besides the model's own searches."""
    try:
        entries = read_log(folder / f"{session}.jsonl").entries
    except SessionError:
        # That a log is gone or cannot be read is told when it is opened.
        return
    turn = 0
    searches: set[str] = set()
    for entry in entries:
        check()
        record = entry.record
        first = renderer.lines + 1
        rendered = renderer.feed(entry)
        match record:
            case UserRecord(turn):
                pass
            case BlockRecord(ToolUseBlock(id=call, name=name)) if name == RECALL:
                searches.add(call)
                continue
            case ToolResultRecord(call) if call in searches:
                continue
        if (told := _told(record)) is None:
            continue
        kind, words, shown = told
        words = unicodedata.normalize("NFC", words)
        if (match := _matched(words, wanted)) is not None:
            hit = Hit(session, turn, kind, _excerpt(words, match.at), "", entry.ts)
            line = first + rendered.count("\n", 0, max(0, rendered.find(shown)))
            # A call stands on one line of the readable file.
            line += words.count("\n", 0, match.at) if kind != "call" else 0
            span = Span(first, renderer.lines)
            yield _Place(hit, match, span, _page(span, line))


def _page(said: Span, line: int) -> Span:
    """The lines around one of those that something was said on."""
    first = max(said.first, min(line - _PAGE_LINES // 2, said.last - _PAGE_LINES + 1))
    return Span(first, min(said.last, first + _PAGE_LINES - 1))


def _told(record: Record) -> tuple[Kind, str, str] | None:
    """What a record says that can be searched for: its words, and how they are shown."""
    match record:
        case UserRecord(_, text):
            return "user", text, text
        case BlockRecord(TextBlock(text)):
            return "assistant", text, text
        case BlockRecord(ToolUseBlock(name=name, input=arguments)):
            words = "\n".join((name, *(text for _, text in leaves(arguments))))
            return "call", words, compact_json(dict(arguments))
        case ToolResultRecord(_, content):
            return "result", content, content
        case _:
            return None


def _matched(words: str, wanted: Sequence[Term]) -> _Match | None:
    """How well some words fit; ``None`` if nothing that is wanted is in them."""
    text = folded(words)
    likely = [any(part in text for part in term.needed) for term in wanted]
    if not any(likely):
        return None
    level = 0
    if all(likely) and all(term.begins.search(text) for term in wanted):
        level = 2 if all(term.exact.search(text) for term in wanted) else 1
    found = sorted(
        (match.start(), number)
        for number, term in enumerate(wanted)
        if likely[number]
        for match in islice((term.begins if level else term.part).finditer(text), _MOST_MATCHES)
    )
    if not found:
        return None
    counts = Counter(number for _, number in found)
    parts = tuple(counts[number] for number in range(len(wanted)))
    return _Match(level, parts, _densest(found), len(words))


def _densest(found: Sequence[tuple[int, int]]) -> int:
    """Of places in their order, each with a term's number, the one that most terms follow soon."""

    def together(index: int) -> int:
        end = found[index][0] + EXCERPT_CHARS - _BEFORE_CHARS
        near = takewhile(lambda place: place[0] < end, islice(found, index, None))
        return len({term for _, term in near})

    return found[max(range(len(found)), key=together)][0]


def _lines_above(readable: Path, rendered: int) -> int:
    """How far a session's lines stand below the top of its readable file.

    Where a log was damaged, its rendering stands below what had been rendered before.
    """
    try:
        text = readable.read_bytes()
    except OSError:
        # It is derived and made again when the session is opened.
        return 0
    above = text.count(b"\n") - rendered
    # Otherwise it has only grown since the log was read.
    is_below = above > 0 and text.split(b"\n", above)[-1].startswith(b"# Session ")
    return above if is_below else 0


def _excerpt(text: str, at: int) -> str:
    """The text around a place in it, on one line."""
    start = max(0, at - _BEFORE_CHARS)
    # More than is shown: runs of spaces become one.
    line = " ".join(text[start : start + 2 * EXCERPT_CHARS].split())
    more = len(line) > EXCERPT_CHARS or start + 2 * EXCERPT_CHARS < len(text)
    return f"{'…' if start else ''}{line[:EXCERPT_CHARS].rstrip()}{'…' if more else ''}"


def _ranked(places: Sequence[_Place]) -> list[_Place]:
    """The places from the best on: by level, then by BM25 and a little by their age."""
    average = sum(place.match.size for place in places) / max(len(places), 1)
    counted = zip(*(place.match.counts for place in places), strict=True)
    seen_in = [sum(map(bool, counts)) for counts in counted]
    rarity = [math.log(1 + (len(places) - n + 0.5) / (n + 0.5)) for n in seen_in]
    now = time.time()

    def rank(place: _Place) -> tuple[int, float]:
        length = _SATURATION * (1 - _LENGTH_SHARE + _LENGTH_SHARE * place.match.size / average)
        fit = sum(
            weight * count / (count + length)
            for weight, count in zip(rarity, place.match.counts, strict=True)
        )
        return place.match.level, fit * _freshness(now - place.hit.when)

    return sorted(places, key=rank, reverse=True)


def _freshness(age: float) -> float:
    """1.3 for what was said just now, 1.07 after a day, and slowly down to 1."""
    return 1 + _RECENCY / (1 + math.log1p(max(age, 0) / 3600))


def _distinct(places: Iterable[_Place]) -> Iterator[_Place]:
    """The places without those that show what a better one shows.

    A fork holds its parent's records with their times.
    """
    taken: dict[tuple[str, int], list[_Place]] = defaultdict(list)
    origins: dict[tuple[float, int, Kind], str] = {}
    for place in places:
        hit = place.hit
        origin = origins.setdefault((hit.when, hit.turn, hit.kind), hit.session_id)
        turn = taken[hit.session_id, hit.turn]
        near = any(
            place.said.first <= other.said.last + _NEAR_LINES
            and other.said.first <= place.said.last + _NEAR_LINES
            for other in turn
        )
        if not near and len(turn) < _MOST_PER_TURN and origin == hit.session_id:
            turn.append(place)
            yield place
