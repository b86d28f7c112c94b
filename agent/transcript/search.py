"""Finding words in the sessions of a transcripts folder, folded turns included."""

from __future__ import annotations

import json
import math
import re
import sqlite3
import time
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from agent.errors import SessionError
from agent.transcript import search_index
from agent.transcript.masking import mask
from agent.transcript.search_index import INDEX, Kind, Said
from agent.transcript.search_words import Term, terms
from agent.transcript.sessions import session_ids

BEST = 10
EVERY = 1_000
"""How many places are enough, and how many are all that anybody reads."""

EXCERPT_CHARS = 200
_BEFORE_CHARS = 60
"""How much of an excerpt stands before what was found."""

_MASK_CONTEXT = 1_000
"""How much around an excerpt is looked at to tell what looks like a credential."""

_PART_CHARS = 100_000
"""An excerpt is taken from the first part of a text that holds any of the words."""

_MOST_MATCHES = 80

_PAGE_LINES = 60
"""An address names at most so many lines: what is found stands in the middle of them."""

_MOST_PER_TURN = 3
_NEAR_LINES = 100
"""Of one turn, places that are closer than this are one."""

_CANDIDATES = 12
"""How many places are looked at for each one that is wanted."""

_RECENCY = 0.3
"""What being said just now is worth, relative to how well the words fit."""

_NOT_NOW = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_READONLY,
    }
)
"""Errors that say nothing against the index itself."""


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
class _Place:
    """A row of the index; ``fit`` is better when it is larger."""

    session: str
    turn: int
    kind: Kind
    first: int
    last: int
    body: int
    when: float
    at: int
    size: int
    fit: float


@dataclass(frozen=True, slots=True)
class _Search:
    """What is looked for, and where."""

    folder: Path
    label: str
    terms: tuple[Term, ...]
    sessions: tuple[str, ...]
    running: str
    limit: int
    check: Callable[[], None]


class _UntrueError(Exception):
    """The index says something else than the log."""


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

    :raises SessionError: the folder is a symbolic link, or this Python's SQLite cannot
        search.
    """
    if folder.is_symlink():
        raise SessionError(f"{folder} is a symbolic link; transcripts are only kept in a folder")
    here = session_ids(folder)
    wanted = tuple(name for name in here if sessions is None or name in sessions)
    task = _Search(folder, label, terms(words), wanted, running, limit, check)
    if not task.terms or not wanted:
        return ()
    for _ in range(2):
        try:
            with search_index.opened(folder / INDEX) as connection:
                search_index.forget_others(connection, here)
                return _run(connection, task)
        except (sqlite3.Error, _UntrueError) as error:
            if not _is_useless(error) or not _removed(folder / INDEX):
                break
    try:
        with search_index.opened(None) as connection:
            return _run(connection, task)
    except (sqlite3.Error, _UntrueError) as error:
        raise SessionError(f"cannot search {folder}: {error}") from error


def _is_useless(error: Exception) -> bool:
    """Whether an error says that the index must be made anew."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return not isinstance(error, sqlite3.OperationalError)
    # The low byte is the primary code.
    return code & 0xFF not in _NOT_NOW


def _removed(path: Path) -> bool:
    try:
        search_index.remove(path)
    except OSError:
        # The index in memory takes its place.
        return False
    return True


def _run(connection: sqlite3.Connection, task: _Search) -> tuple[Hit, ...]:
    search_index.update(connection, task.folder, task.sessions, task.check)
    hits: list[Hit] = []
    for place in _chosen(_ranked(connection, task)):
        hits.append(_hit(connection, task, place))
        if len(hits) == task.limit:
            break
    return tuple(hits)


def _ranked(connection: sqlite3.Connection, task: _Search) -> Iterator[_Place]:
    """Places from the best on; the same one may come again."""
    seen: set[str] = set()
    exact = [term.exact for term in task.terms]
    begins = [term.begins for term in task.terms]
    parts = [term.parts for term in task.terms]
    for expression in (" AND ".join(exact), " AND ".join(begins), " OR ".join(parts)):
        if expression in seen:
            continue
        seen.add(expression)
        task.check()
        yield from _matching(connection, task, expression)


_MATCHING = """
    SELECT b.session, b.turn, b.kind, b.first, b.last, b.body, b.ts, b.at, b.size,
           -bm25(words) AS fit
    FROM words JOIN blocks AS b ON b.number = words.rowid
    WHERE words MATCH :expression
      AND b.session IN (SELECT value FROM json_each(:sessions))
      AND NOT (b.session = :running AND b.turn = :newest AND b.kind <> 'result')
    ORDER BY fit DESC LIMIT :limit"""


def _matching(connection: sqlite3.Connection, task: _Search, expression: str) -> Sequence[_Place]:
    newest = connection.execute(
        "SELECT max(turn) FROM blocks WHERE session = ?", (task.running,)
    ).fetchone()[0]
    rows = connection.execute(
        _MATCHING,
        {
            "expression": expression,
            "sessions": json.dumps(task.sessions),
            "running": task.running,
            "newest": newest,
            "limit": task.limit * _CANDIDATES,
        },
    )
    now = time.time()
    found = [_place(row) for row in rows]
    return sorted(found, key=lambda place: place.fit * _freshness(now - place.when), reverse=True)


def _place(row: tuple[object, ...]) -> _Place:
    match row:
        case (
            str(session),
            int(turn),
            "user" | "assistant" | "call" | "result" as kind,
            int(first),
            int(last),
            int(body),
            float(when),
            int(at),
            int(size),
            float(fit),
        ):
            return _Place(session, turn, kind, first, last, body, when, at, size, fit)
        case _:
            raise _UntrueError("a row of the index has other types")


def _freshness(age: float) -> float:
    """1.3 for what was said just now, 1.07 after a day, and slowly down to 1."""
    return 1 + _RECENCY / (1 + math.log1p(max(age, 0) / 3600))


def _chosen(places: Iterable[_Place]) -> Iterator[_Place]:
    """The places without those that show what a better one shows.

    A fork holds its parent's records with their times.
    """
    taken: dict[tuple[str, int], list[_Place]] = {}
    origins: dict[tuple[float, int, Kind], str] = {}
    for place in places:
        origin = origins.setdefault((place.when, place.turn, place.kind), place.session)
        turn = taken.setdefault((place.session, place.turn), [])
        near = any(
            place.first <= other.last + _NEAR_LINES and other.first <= place.last + _NEAR_LINES
            for other in turn
        )
        if near or len(turn) >= _MOST_PER_TURN or origin != place.session:
            continue
        turn.append(place)
        yield place


def _hit(connection: sqlite3.Connection, task: _Search, place: _Place) -> Hit:
    said = _read(task.folder / f"{place.session}.jsonl", place)
    at, excerpt = _excerpt(said.words, task.terms)
    first, last = place.first, place.last
    if last - first >= _PAGE_LINES:
        # A call stands on one line of the readable file.
        line = place.body + (said.words.count("\n", 0, at) if said.words == said.shown else 0)
        first = max(first, min(line - _PAGE_LINES // 2, last - _PAGE_LINES + 1))
        last = min(last, first + _PAGE_LINES - 1)
    below = _lines_above(connection, task.folder, place.session)
    address = f"{task.label}/{place.session}.md:{first + below}-{last + below}, turn {place.turn}"
    return Hit(place.session, place.turn, place.kind, excerpt, address, place.when)


def _read(log: Path, place: _Place) -> Said:
    try:
        with log.open("rb") as file:
            file.seek(place.at)
            entry = search_index.entry_of(file.read(place.size))
    except (OSError, ValueError) as error:
        raise _UntrueError(str(error)) from error
    said = search_index.said(entry.record) if entry else None
    if said is None or said.kind != place.kind:
        raise _UntrueError(f"{log} has changed")
    return said


def _lines_above(connection: sqlite3.Connection, folder: Path, session: str) -> int:
    """How far the session stands below the top of its readable file.

    Where a log was damaged, its rendering stands below what had been rendered before.
    """
    (written,) = connection.execute(
        "SELECT written FROM sessions WHERE id = ?", (session,)
    ).fetchone()
    try:
        with (folder / f"{session}.md").open("rb") as file:
            more = file.seek(0, 2) - written
            if more <= 0:
                return 0
            file.seek(0)
            above = file.read(more)
            # Otherwise it has only grown since.
            return above.count(b"\n") if file.read(10) == b"# Session " else 0
    except OSError:
        # It is derived and made again when the session is opened.
        return 0


def _excerpt(text: str, wanted: Sequence[Term]) -> tuple[int, str]:
    """Where in a text the most terms stand together, and the text around it on one line."""
    at = _densest(text, wanted)
    start = max(0, at - _BEFORE_CHARS)
    # More than is shown: runs of spaces become one.
    first = max(0, start - _MASK_CONTEXT)
    masked = mask(text[first : start + 2 * EXCERPT_CHARS + _MASK_CONTEXT])
    line = " ".join(masked[start - first : start - first + 2 * EXCERPT_CHARS].split())
    more = len(line) > EXCERPT_CHARS or start + 2 * EXCERPT_CHARS < len(text)
    return at, f"{'…' if start else ''}{line[:EXCERPT_CHARS].rstrip()}{'…' if more else ''}"


def _densest(text: str, wanted: Sequence[Term]) -> int:
    for patterns in ([t.pattern for t in wanted], [t.part_pattern for t in wanted]):
        pattern = re.compile("|".join(f"({one})" for one in patterns), re.IGNORECASE)
        for reading in (str, _plain):
            for start in range(0, len(text), _PART_CHARS):
                found = _positions(pattern, reading(text[start : start + _PART_CHARS]))
                if found:
                    return start + max(found, key=lambda at: (_together(found, at), -at))
    return 0


def _positions(pattern: re.Pattern[str], text: str) -> dict[int, int | None]:
    """Where terms stand in a text, and which."""
    matches = islice(pattern.finditer(text), _MOST_MATCHES)
    return {match.start(): match.lastindex for match in matches}


def _together(found: Mapping[int, int | None], at: int) -> int:
    """How many terms an excerpt from one of the places on would show."""
    end = at + EXCERPT_CHARS - _BEFORE_CHARS
    return len({term for place, term in found.items() if at <= place < end})


def _plain(text: str) -> str:
    """The text without accents and wide forms, character for character."""
    if text.isascii():
        return text
    return "".join(unicodedata.normalize("NFKD", character)[0] for character in text)
