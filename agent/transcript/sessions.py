"""The sessions of a transcripts folder: name, list, find."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from agent.errors import SessionError
from agent.transcript.records import BadLineError, UserRecord, decode


@dataclass(frozen=True)
class SessionInfo:
    """A session on disk. ``modified`` is in seconds since the epoch, ``size`` in bytes."""

    id: str
    modified: float
    size: int
    turns: int
    first_words: str


def new_id(now: datetime | None = None) -> str:
    """An id that sorts by time: ``20261130-120455-3f9a``."""
    moment = now or datetime.now().astimezone()
    return f"{moment:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def find_session(folder: Path, wanted: str | None) -> str:
    """The id of a session: the newest for ``None``, else an id or its unique beginning.

    :raises SessionError: there is none, or more than one, or the folder cannot be read.
    """
    paths = _logs(folder)
    if wanted is None:
        if not paths:
            raise SessionError(f"there is no session in {folder} to resume; start one without it")
        return paths[0].stem
    ids = [path.stem for path in paths]
    matches = [wanted] if wanted in ids else [name for name in ids if name.startswith(wanted)]
    if wanted and len(matches) == 1:
        return matches[0]
    if not matches or not wanted:
        raise SessionError(f"no session {wanted!r} in {folder}; /sessions lists them")
    raise SessionError(f"{wanted!r} is ambiguous in {folder}: {', '.join(sorted(matches))}")


def list_sessions(folder: Path) -> tuple[SessionInfo, ...]:
    """All sessions, newest first. A damaged or unreadable file hides no other."""
    return tuple(_info(path) for path in _logs(folder))


def session_ids(folder: Path) -> tuple[str, ...]:
    """The ids of all sessions, newest first."""
    return tuple(path.stem for path in _logs(folder))


def _logs(folder: Path) -> list[Path]:
    try:
        found = [path for path in folder.glob("*.jsonl") if not path.is_symlink()]
        logs = [path for path in found if path.is_file()]
        return sorted(logs, key=lambda path: (path.stat().st_mtime_ns, path.stem), reverse=True)
    except OSError as error:
        raise SessionError(f"cannot look for sessions in {folder}: {error.strerror}") from error


def _info(path: Path) -> SessionInfo:
    status = path.stat()
    turns, words = 0, ""
    try:
        for record in _user_records(path):
            turns = max(turns, record.turn)
            words = words or record.text
    except OSError as error:
        words = f"(cannot be read: {error.strerror})"
    return SessionInfo(
        path.stem, status.st_mtime, status.st_size, turns, " ".join(words.split())[:80]
    )


def _user_records(path: Path) -> Iterator[UserRecord]:
    """The user's records, without decoding the others."""
    with path.open("rb") as lines:
        for line in lines:
            if b'"type":"user"' not in line[:120]:
                continue
            try:
                record = decode(line.rstrip(b"\n")).record
            except BadLineError:
                # Damage is reported when the session is opened.
                continue
            if isinstance(record, UserRecord):
                yield record
