"""The search index of a transcripts folder: an SQLite file derived from the logs.

It holds where words stand, not the texts: those are read from the log itself, so that
an excerpt is true whatever the index says. The index is made again when it is
missing, damaged, or of another version, and is brought up to date before each search.
Several processes may use it; each writes in short transactions.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import BinaryIO, Literal, TypeAlias

from agent.messages import TextBlock, ToolUseBlock
from agent.transcript.files import open_private
from agent.transcript.readable import Renderer
from agent.transcript.records import (
    BadLineError,
    BlockRecord,
    Entry,
    Record,
    ToolResultRecord,
    UserRecord,
    decode,
)
from agent.transcript.search_words import TOKENIZER, spaced
from agent.wire import compact_json

INDEX = "index.sqlite"

RECALL = "recall"
"""The tool that searches. Its own calls and answers are not found by a search."""

Kind: TypeAlias = Literal["user", "assistant", "call", "result"]

_VERSION = 1
_BATCH_BYTES = 4_000_000
"""How much of a log is indexed in one transaction."""

_LOCK_SECONDS = 2.0
_CHUNK_BYTES = 1 << 20

_SCHEMA = (
    """CREATE TABLE sessions (
        id TEXT PRIMARY KEY, size INTEGER, changed INTEGER, indexed INTEGER, crc INTEGER,
        seq INTEGER, written INTEGER,
        turn_at INTEGER, turn_seq INTEGER, turn_lines INTEGER, turn_written INTEGER)""",
    """CREATE TABLE blocks (
        number INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT, turn INTEGER, kind TEXT,
        first INTEGER, last INTEGER, body INTEGER, ts REAL, at INTEGER, size INTEGER)""",
    "CREATE INDEX blocks_of_a_session ON blocks (session)",
    f"CREATE VIRTUAL TABLE words USING fts5(text, content='', tokenize=\"{TOKENIZER}\")",
)

_MADE_BY_SQLITE = {
    ("table", name)
    for name in ("sqlite_sequence", "words_config", "words_data", "words_docsize", "words_idx")
}


@dataclass(slots=True)
class _State:
    """How far a session is indexed.

    The log had ``size`` bytes when it was last looked at and had ``changed`` then, in
    nanoseconds since the epoch. Its first ``indexed`` bytes, whose CRC-32 is ``crc``, and
    all numbers up to ``seq`` are in the index. ``written`` is the size of what was
    rendered. The ``turn_...`` fields tell the same of the beginning of the newest turn,
    from where rendering goes on.
    """

    id: str
    size: int = -1
    changed: int = 0
    indexed: int = 0
    crc: int = 0
    seq: int = 0
    written: int = 0
    turn_at: int = 0
    turn_seq: int = 0
    turn_lines: int = 0
    turn_written: int = 0


@dataclass(frozen=True, slots=True)
class Said:
    """What a record says: its words, and how they stand in the readable file."""

    kind: Kind
    words: str
    shown: str


def said(record: Record) -> Said | None:
    """What a record says that can be searched for, if anything."""
    match record:
        case UserRecord(text=text, attached=attached):
            return Said("user", "\n".join((text, *attached)), text)
        case BlockRecord(TextBlock(text)):
            return Said("assistant", text, text)
        case BlockRecord(ToolUseBlock(name=name, input=arguments)):
            words = "\n".join((name, *_values(arguments)))
            return Said("call", words, compact_json(dict(arguments)))
        case ToolResultRecord(content=content):
            return Said("result", content, content)
        case _:
            return None


def _values(value: object) -> Iterator[str]:
    match value:
        case Mapping():
            for item in value.values():
                yield from _values(item)
        case list():
            for item in value:
                yield from _values(item)
        case _:
            yield str(value)


def entry_of(line: bytes) -> Entry | None:
    """The entry on a line of a log; ``None`` if it is damaged."""
    try:
        return decode(line.removesuffix(b"\n"))
    except BadLineError:
        # Damage is reported when the session is opened.
        return None


@contextmanager
def opened(path: Path | None) -> Iterator[sqlite3.Connection]:
    """The index in a file, made when it is missing; ``None``: one in memory.

    :raises sqlite3.DatabaseError: the file is no index of this version, or damaged.
    :raises sqlite3.OperationalError: it cannot be used now; a base of the above.
    """
    if path is not None:
        _make_private(path)
    connection = sqlite3.connect(path or ":memory:", timeout=_LOCK_SECONDS, isolation_level=None)
    with closing(connection):
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        with _transaction(connection):
            _check_schema(connection)
        yield connection


def remove(path: Path) -> None:
    """Take a useless index away.

    :raises OSError: it cannot be removed.
    """
    for name in (path.name, f"{path.name}-journal", f"{path.name}-wal", f"{path.name}-shm"):
        path.with_name(name).unlink(missing_ok=True)


def _make_private(path: Path) -> None:
    """Make sure of a regular file of our own, readable by nobody else."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            path.unlink()
    except FileNotFoundError:
        pass
    except OSError as error:
        raise sqlite3.OperationalError(f"{path} is in the way: {error.strerror}") from error
    try:
        os.close(open_private(path, os.O_RDWR | os.O_CREAT))
    except OSError as error:
        raise sqlite3.OperationalError(f"cannot open {path}: {error.strerror}") from error


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        # Some errors have ended it already.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _check_schema(connection: sqlite3.Connection) -> None:
    """Make the tables in an empty file; anything but these tables is not trusted."""
    stored = connection.execute("SELECT type, name, sql FROM sqlite_schema WHERE sql NOT NULL")
    found = {str(sql) for kind, name, sql in stored if (kind, name) not in _MADE_BY_SQLITE}
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if not found and not version:
        for statement in _SCHEMA:
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {_VERSION}")
    elif version != _VERSION or found != set(_SCHEMA):
        raise sqlite3.DatabaseError("the search index is of another version")


def update(
    connection: sqlite3.Connection,
    folder: Path,
    sessions: Collection[str],
    check: Callable[[], None],
) -> None:
    """Index what the logs of some sessions have gained; ``check`` may raise to stop it."""
    known = connection.execute("SELECT id, size, changed FROM sessions")
    seen = {str(name): (size, changed) for name, size, changed in known}
    for session in sessions:
        check()
        indexing = _Indexing(connection, folder, session, check)
        while indexing.look() != seen.get(session) and indexing.step():
            pass


def forget_others(connection: sqlite3.Connection, sessions: Collection[str]) -> None:
    """Drop sessions whose logs are gone."""
    known = [str(name) for (name,) in connection.execute("SELECT id FROM sessions")]
    for gone in set(known) - set(sessions):
        with _transaction(connection):
            _forget(connection, gone)


def _forget(connection: sqlite3.Connection, session: str) -> None:
    # The words stay in the index without a block that they belong to: to take them out,
    # it would have to be given the text again. Numbers of blocks are never used again.
    connection.execute("DELETE FROM blocks WHERE session = ?", (session,))
    connection.execute("DELETE FROM sessions WHERE id = ?", (session,))


class _Indexing:
    """Brings one session up to date, a step at a time."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        folder: Path,
        session: str,
        check: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._path = folder / f"{session}.jsonl"
        self._check = check
        self._state = _State(session)
        self._renderer = Renderer()
        self._begun = False
        self._turn = 0
        self._position = 0
        self._own_calls: set[str] = set()

    def look(self) -> tuple[int, int] | None:
        """The log's size and when it was changed; ``None`` if it was removed."""
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return None
        return status.st_size, status.st_mtime_ns

    def step(self) -> bool:
        """Index the next part of the log; whether there is more."""
        try:
            log = self._path.open("rb")
        except OSError:
            # That a log is gone or cannot be read is told when it is opened.
            return False
        with log, _transaction(self._connection):
            status = os.fstat(log.fileno())
            stored = self._stored()
            # Another process may have gone on in between.
            if not self._begun or stored != self._state:
                self._begin(log, stored)
            start = self._state.indexed
            self._read(log)
            done = self._state.indexed in {start, status.st_size}
            if done:
                self._state.size, self._state.changed = status.st_size, status.st_mtime_ns
            self._store()
        return not done

    def _stored(self) -> _State:
        found = self._connection.execute(
            "SELECT * FROM sessions WHERE id = ?", (self._state.id,)
        ).fetchone()
        if found is None:
            return _State(self._state.id)
        if not all(isinstance(number, int) for number in found[1:]):
            raise sqlite3.DatabaseError("a row of the index has other types")
        return _State(*found)

    def _store(self) -> None:
        self._connection.execute(
            "INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            astuple(self._state),
        )

    def _begin(self, log: BinaryIO, state: _State) -> None:
        """Go on from the beginning of the newest turn; anew if it is another log."""
        if self._checksum(log, state.indexed) != state.crc:
            _forget(self._connection, state.id)
            state = _State(state.id)
        self._begun = True
        self._state = state
        self._renderer = Renderer()
        self._renderer.lines = state.turn_lines
        self._position = state.turn_at
        state.seq, state.written = state.turn_seq, state.turn_written
        self._own_calls = set()

    def _checksum(self, log: BinaryIO, size: int) -> int:
        """The checksum of the first bytes; another one where there are fewer."""
        crc = 0
        while size and (chunk := log.read(min(size, _CHUNK_BYTES))):
            self._check()
            crc = zlib.crc32(chunk, crc)
            size -= len(chunk)
        return crc if not size else -1

    def _read(self, log: BinaryIO) -> None:
        """Index a batch of lines. What was indexed before is only rendered."""
        end = self._state.indexed + _BATCH_BYTES
        log.seek(self._position)
        for line in log:
            if not line.endswith(b"\n") or self._position >= end:
                break
            self._check()
            entry = entry_of(line)
            # As the log is read: what comes again does not count.
            if entry is not None and entry.seq > self._state.seq:
                self._follow(entry, len(line))
            self._position += len(line)
            if self._position > self._state.indexed:
                self._state.indexed = self._position
                self._state.crc = zlib.crc32(line, self._state.crc)

    def _follow(self, entry: Entry, size: int) -> None:
        state, record = self._state, entry.record
        if isinstance(record, UserRecord):
            self._turn = record.turn
            state.turn_at, state.turn_seq = self._position, state.seq
            state.turn_lines, state.turn_written = self._renderer.lines, state.written
        state.seq = entry.seq
        first = self._renderer.lines + 1
        rendered = self._renderer.feed(entry)
        state.written += len(rendered.encode())
        found = None if self._is_own(record) else said(record)
        if found is None or self._position < state.indexed:
            return
        body = first + rendered.count("\n", 0, max(0, rendered.find(found.shown)))
        place = (state.id, self._turn, found.kind, first, self._renderer.lines, body)
        number = self._connection.execute(
            "INSERT INTO blocks VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*place, entry.ts, self._position, size),
        ).lastrowid
        self._connection.execute(
            "INSERT INTO words (rowid, text) VALUES (?, ?)", (number, spaced(found.words))
        )

    def _is_own(self, record: Record) -> bool:
        """Whether a record is part of a search by the model itself."""
        match record:
            case BlockRecord(ToolUseBlock(id=call, name=name)) if name == RECALL:
                self._own_calls.add(call)
                return True
            case ToolResultRecord(call):
                return call in self._own_calls
            case _:
                return False
