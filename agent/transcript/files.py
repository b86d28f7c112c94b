"""Private files: 0600 in 0700 folders under any umask, no link followed, whole writes."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from agent.errors import TranscriptError


def transcripts_folder(path: Path) -> Path:
    """A transcripts folder: a private folder that git ignores.

    :raises TranscriptError: as :func:`private_folder` does.
    """
    ignore = private_folder(path) / ".gitignore"
    try:
        if not ignore.exists():
            replace_private(ignore, b"*\n")
    except OSError as error:
        raise TranscriptError(f"cannot make the folder {path}: {error.strerror}") from error
    return path


def private_folder(path: Path) -> Path:
    """A folder: 0700 and synced into its parent when it is made.

    :raises TranscriptError: it is a symbolic link, no folder, or cannot be made.
    """
    if path.is_symlink():
        raise TranscriptError(f"{path} is a symbolic link; transcripts are only kept in a folder")
    try:
        _make_folder(path)
    except OSError as error:
        raise TranscriptError(f"cannot make the folder {path}: {error.strerror}") from error
    return path


def _make_folder(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        if not path.is_dir():
            raise TranscriptError(f"{path} is in the way: it is not a folder") from None
    else:
        path.chmod(0o700)
        sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Make a folder's names durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_private(path: Path, flags: int) -> int:
    """A descriptor of a 0600 file, opened without following a link.

    :raises OSError: as :func:`os.open` does; ``ELOOP`` for a symbolic link.
    """
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte; a short write is continued."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def replace_private(path: Path, data: bytes) -> None:
    """Put a whole file in place at once, 0600; a reader sees the old or the new one.

    :raises OSError: the folder cannot be written; nothing has changed then.
    """
    replace_piecewise(path, (data,))


def replace_piecewise(path: Path, pieces: Iterable[bytes]) -> None:
    """As :func:`replace_private`, for a file that need not fit in memory.

    :raises OSError: the folder cannot be written; nothing has changed then.
    """
    with _named_at_the_end(path) as descriptor:
        for piece in pieces:
            write_all(descriptor, piece)
    os.close(descriptor)


def create_locked(path: Path, pieces: Iterable[bytes]) -> int:
    """Make a new 0600 file at once, whole and durable; a descriptor that holds its lock.

    :raises OSError: it exists already or cannot be made; nothing is left of it then.
    """
    if path.exists():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    with _named_at_the_end(path) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for piece in pieces:
            write_all(descriptor, piece)
    try:
        sync_folder(path.parent)
    except OSError:
        os.close(descriptor)
        path.unlink(missing_ok=True)
        raise
    return descriptor


@contextmanager
def _named_at_the_end(path: Path) -> Iterator[int]:
    """A descriptor of a new file that is synced and takes its name when the block ends.

    It stays open. If anything fails, the new file is gone and the old one as it was.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = open_private(temporary, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL)
    try:
        yield descriptor
        os.fsync(descriptor)
        temporary.replace(path)
    except BaseException:
        os.close(descriptor)
        temporary.unlink(missing_ok=True)
        raise
