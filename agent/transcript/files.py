"""Private files: 0600 in 0700 folders under any umask, no link followed, whole writes."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from agent.errors import TranscriptError


def private_folder(path: Path) -> Path:
    """The folder, made 0700 when it is missing, and synced into its parent.

    :raises TranscriptError: it is a symbolic link, no folder, or cannot be made.
    """
    if path.is_symlink():
        raise TranscriptError(f"{path} is a symbolic link; transcripts are only kept in a folder")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700)
    except FileExistsError:
        if not path.is_dir():
            raise TranscriptError(f"{path} is in the way: it is not a folder") from None
    except OSError as error:
        raise TranscriptError(f"cannot make the folder {path}: {error.strerror}") from error
    else:
        path.chmod(0o700)
        sync_folder(path.parent)
    return path


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
    os.fchmod(descriptor, 0o600)
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
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = open_private(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        for piece in pieces:
            write_all(descriptor, piece)
        os.fsync(descriptor)
        temporary.replace(path)
    except BaseException:
        # Whatever it was, an interrupt included: nothing half-written stays.
        temporary.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)
