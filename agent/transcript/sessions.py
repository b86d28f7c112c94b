"""The sessions of a transcripts folder: name, list, find."""

from __future__ import annotations

import re
import secrets
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from agent.errors import SessionError
from agent.events import SessionEntry
from agent.transcript.records import (
    AssistantEndRecord,
    BadLineError,
    CompactionRecord,
    Record,
    RewindRecord,
    UncompactRecord,
    UserRecord,
    decode,
)
from agent.transcript.tail import lines_from_the_end

_TELLING = re.compile(
    rb'\{"v":\d+,"seq":\d+,"ts":[^,]+,"type":"(?:user|assistant_end|compaction|uncompact|rewind)"'
)
_FIRST_WORDS_CHARS = 80
_MOST_NAMED = 5


def new_id(now: datetime | None = None) -> str:
    """An id that sorts by time: ``20261130-120455-3f9a``."""
    moment = now or datetime.now().astimezone()
    return f"{moment:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def find_session(folder: Path, wanted: str | None) -> str:
    """The id of a session: the newest for ``None``, else an id or its unique beginning.

    :raises SessionError: there is none, or more than one, or the folder cannot be read.
    """
    ids = session_ids(folder)
    if wanted is None:
        if not ids:
            raise SessionError(f"there is no session in {folder} yet; agent chat begins one")
        return ids[0]
    matches = [wanted] if wanted in ids else [name for name in ids if name.startswith(wanted)]
    if wanted and len(matches) == 1:
        return matches[0]
    if not matches or not wanted:
        raise SessionError(
            f"no session {wanted!r} in {folder}; agent sessions lists them, /sessions in the chat"
        )
    named = ", ".join(sorted(matches)[:_MOST_NAMED]) + ", ..." * (len(matches) > _MOST_NAMED)
    raise SessionError(f"{wanted!r} is ambiguous in {folder}, type more of the id: {named}")


def list_sessions(folder: Path, current: str = "") -> tuple[SessionEntry, ...]:
    """All sessions, newest first. A damaged or unreadable file hides no other.

    A log is read from its beginning up to the first typed message, and from its end back
    to the last one and to the last record that tells a size; the records between are
    neither read nor decoded. ``current`` is the id of the session that is open.
    """
    return tuple(_entry(path, current) for path in _logs(folder))


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


def _entry(path: Path, current: str) -> SessionEntry:
    status = path.stat()
    words, turns, tokens = "", 0, None
    try:
        with path.open("rb") as log:
            users = (record for line in log if isinstance(record := _read(line), UserRecord))
            words = next((record.text for record in users if record.text), "")
            turns, tokens = _last_known(log)
    except OSError as error:
        words = f"(cannot be read: {error.strerror})"
    return SessionEntry(
        id=path.stem,
        modified=status.st_mtime,
        turns=turns,
        first_words=" ".join(words.split())[:_FIRST_WORDS_CHARS],
        size=status.st_size,
        tokens=tokens,
        folder=str(path.parent),
        current=path.stem == current,
    )


def last_known_tokens(path: Path) -> int | None:
    """The size of what the next request of a session would carry; ``None``: not known.

    :raises OSError: the log cannot be read.
    """
    with path.open("rb") as log:
        return _last_known(log)[1]


def _last_known(log: BinaryIO) -> tuple[int, int | None]:
    """The number of the newest turn, and the view's size in tokens as last recorded.

    What a rewind went back over tells no size; after a compaction was taken back, the
    view is as large as it was before it.
    """
    turns, tokens, rewound, undone = 0, 0, 0, False
    for record in map(_read, lines_from_the_end(log)):
        match record:
            case UserRecord(turn):
                turns = turns or turn
                rewound = 0 if turn == rewound else rewound
            case RewindRecord(turn) if not rewound:
                rewound = turn
            case UncompactRecord() if not rewound:
                undone = True
            case CompactionRecord() if not rewound:
                tokens = tokens or (record.tokens_before if undone else record.tokens_after)
                undone = False
            case AssistantEndRecord() if record.prompt_tokens and not (rewound or undone):
                tokens = tokens or record.prompt_tokens + record.usage.output_tokens
            case _:
                continue
        if turns and tokens:
            break
    return turns, tokens or None


def _read(line: bytes) -> Record | None:
    """The record of a line if it is of a kind that the list needs."""
    if not _TELLING.match(line):
        return None
    try:
        return decode(line.rstrip(b"\n")).record
    except BadLineError:
        # Damage is reported when the session is opened.
        return None
