"""The search index of a transcripts folder: an SQLite file derived from the logs.

It holds where things were said, never what: a text is read from the log itself, so
that an excerpt is true whatever the index says. The index is made again when it is
missing, damaged, or of another version, and is brought up to date before each search.
Several processes may use it; each writes in short transactions.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

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
from agent.transcript.search_words import TOKENIZER, indexed
from agent.wire import compact_json

INDEX = "index.sqlite"

RECALL = "recall"
"""The tool that searches. Its own calls and answers are not found by a search."""

Kind: TypeAlias = Literal["user", "assistant", "call", "result"]

_VERSION = 1
_BATCH_BYTES = 4_000_000
"""How much of a log is indexed in one transaction."""

_LOCK_SECONDS = 3.0
_MARK_BYTES = 64

_SCHEMA = (
    """CREATE TABLE sessions (
        id TEXT PRIMARY KEY, seen INTEGER, bytes INTEGER, seq INTEGER, mark BLOB, written INTEGER,
        turn_at INTEGER, turn_seq INTEGER, turn_lines INTEGER, turn_written INTEGER)""",
    """CREATE TABLE blocks (
        number INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT, turn INTEGER, kind TEXT,
        first INTEGER, last INTEGER, body INTEGER, ts REAL, at INTEGER, size INTEGER)""",
    "CREATE INDEX blocks_of_a_session ON blocks (session)",
    f'CREATE VIRTUAL TABLE words USING fts5(words, content=\'\', tokenize="{TOKENIZER}")',
)


@dataclass(frozen=True, slots=True)
class _State:
    """How far a session is indexed.

    ``bytes`` of its log and all numbers up to ``seq`` are; the log had ``seen`` bytes
    and ``mark`` stood before that place. ``written`` is the size of what was rendered.
    The ``turn_...`` fields tell the same of the beginning of the newest turn, from where
    rendering goes on.
    """

    id: str
    seen: int = 0
    bytes: int = 0
    seq: int = 0
    mark: bytes = b""
    written: int = 0
    turn_at: int = 0
    turn_seq: int = 0
    turn_lines: int = 0
    turn_written: int = 0


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
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _check_schema(connection: sqlite3.Connection) -> None:
    """Make the tables in an empty file; anything but these tables is not trusted."""
    stored = "SELECT sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite%' AND name NOT LIKE 'words_%'"
    found = {str(sql) for (sql,) in connection.execute(stored)}
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
    for session in sessions:
        while _index_batch(connection, folder, session, check):
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


def _index_batch(
    connection: sqlite3.Connection, folder: Path, session: str, check: Callable[[], None]
) -> bool:
    """Index the next part of a log; whether there is more."""
    path = folder / f"{session}.jsonl"
    try:
        size = path.stat().st_size
    except OSError:
        # Removed in the meantime.
        return False
    if _state(connection, session).seen == size:
        return False
    with _transaction(connection), path.open("rb") as log:
        # Another process may have gone on in between.
        state = _state(connection, session)
        if not _continues(log.read, log.seek, state, size):
            _forget(connection, session)
            state = _State(session)
        after = _Indexer(connection, state).run(log, check)
        done = after.bytes == state.bytes or after.bytes >= size
        after = replace(after, seen=size if done else after.bytes)
        marks = ", ".join("?" * 10)
        values = tuple(getattr(after, name) for name in _State.__slots__)
        connection.execute(f"INSERT OR REPLACE INTO sessions VALUES ({marks})", values)
    return not done
