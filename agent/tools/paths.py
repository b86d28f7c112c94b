"""Where a path argument really leads, and opening it without being led astray.

A path is resolved once, symbolic links followed and ``..`` removed. It is then
opened component by component with no link followed, so that a link put in its
way after the check makes the call fail instead of leaving the working folder.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agent.errors import ToolError
from agent.messages import scrub
from agent.tools.arguments import one_line
from agent.tools.base import ToolContext

PROTECTED_NAMES = frozenset({".git", ".transcripts"})

START_FILES = frozenset(
    f".{name}"
    for name in (
        *("bashrc", "bash_profile", "bash_login", "bash_logout", "bash_aliases", "profile"),
        *("zshrc", "zshenv", "zprofile", "zlogin", "zlogout", "kshrc", "cshrc", "tcshrc", "login"),
        *("envrc", "inputrc", "gitconfig", "ssh", "netrc", "vimrc", "exrc", "xprofile", "config"),
    )
)
"""Names of files and folders that shells and other programs obey on their own."""

# O_PATH, which only Linux has, asks for no permission to list the folders on the way.
_FOLDER_FLAGS = (
    os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | int(getattr(os, "O_PATH", os.O_RDONLY))
)


@dataclass(frozen=True)
class Target:
    """A path argument, resolved.

    ``path`` is absolute and free of symbolic links at the time of the check;
    ``shown`` is the path for people and models: relative to the working folder
    when inside it. ``protected`` marks what is never written unasked, ``linked`` a file
    that has other names (hard links), which may lie outside.
    """

    path: Path
    shown: str
    in_workspace: bool
    in_transcripts: bool
    protected: bool
    linked: bool = False

    @property
    def free_to_read(self) -> bool:
        """Whether reading it needs no approval."""
        return (self.in_workspace and not self.linked) or self.in_transcripts


def resolve(argument: str, context: ToolContext) -> Target:
    """Resolve a path argument against the working folder; ``~`` is expanded.

    The path need not exist.

    Raises:
        ToolError: the path is empty, has a NUL character, names an unknown home
            folder, or leads round in a circle.
    """
    if not argument.strip():
        raise ToolError("The path is empty. Give a path such as src/main.py, or . for this folder.")
    if "\0" in argument:
        raise ToolError(f"The path {one_line(argument)!r} has a NUL character in it.")
    try:
        real_cwd = context.cwd.resolve()
        path = (real_cwd / Path(argument).expanduser()).resolve()
        transcripts = context.transcripts.resolve()
    except (OSError, RuntimeError) as error:
        raise ToolError(f"Cannot follow the path {one_line(argument)}: {error}") from error
    in_transcripts = path.is_relative_to(transcripts)
    # Some file systems do not tell upper from lower case.
    protected = any(part.casefold() in PROTECTED_NAMES for part in path.parts)
    return Target(
        path=path,
        shown=shown_path(path, real_cwd),
        in_workspace=path.is_relative_to(real_cwd),
        in_transcripts=in_transcripts,
        protected=protected or in_transcripts or _is_start_file(path, real_cwd),
        linked=has_other_names(path),
    )


def _is_start_file(path: Path, cwd: Path) -> bool:
    below = path.relative_to(cwd).parts if path.is_relative_to(cwd) else ()
    return any(part.casefold() in START_FILES for part in below)


def has_other_names(path: Path) -> bool:
    """Whether a path is a file with several hard links, so that it is also elsewhere."""
    try:
        status = path.stat(follow_symlinks=False)
    except OSError:
        # What is not there, or not to be seen, has none.
        return False
    return stat.S_ISREG(status.st_mode) and status.st_nlink > 1


def shown_path(path: Path, cwd: Path) -> str:
    """A path for people and models: relative to ``cwd`` when inside it.

    Control characters are escaped, so that a name takes one line.
    """
    shown = path.relative_to(cwd) if path.is_relative_to(cwd) else path
    return printable(str(shown))


def printable(name: str) -> str:
    """A file's name with control characters escaped and lone surrogates replaced."""
    return "".join(
        repr(character)[1:-1] if ord(character) < 32 or ord(character) == 127 else character
        for character in scrub(name)
    )


@contextlib.contextmanager
def open_folder(path: Path, *, create: bool = False) -> Iterator[int]:
    """A descriptor of the folder at a resolved path, following no symbolic link.

    With ``create``, missing folders are made. The descriptor is closed at the end.

    Raises:
        OSError: there is no such folder, or a component is a link or no folder.
    """
    descriptor = os.open(path.anchor, _FOLDER_FLAGS)
    try:
        for name in path.parts[1:]:
            following = _open_step(name, descriptor, create=create)
            os.close(descriptor)
            descriptor = following
        yield descriptor
    finally:
        os.close(descriptor)


def _open_step(name: str, parent: int, *, create: bool) -> int:
    """A descriptor of the folder ``name`` in the folder ``parent``."""
    try:
        return os.open(name, _FOLDER_FLAGS, dir_fd=parent)
    except FileNotFoundError:
        if not create:
            raise
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, dir_fd=parent)
    return os.open(name, _FOLDER_FLAGS, dir_fd=parent)


def open_regular(path: Path) -> int:
    """A descriptor, for reading, of the regular file at a resolved path.

    Raises:
        OSError: it is missing, a folder, or neither a file nor a folder (a FIFO
            or device, which could block for ever), or cannot be opened.
    """
    name = path.name or "."
    with open_folder(path.parent) as folder:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is no regular file but a FIFO, device, socket or link")
        # Without O_NONBLOCK, a FIFO that took the file's place in between would block.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        return os.open(name, flags, dir_fd=folder)


@contextlib.contextmanager
def explained(verb: str, target: Target) -> Iterator[None]:
    """Turn the operating system's errors into a :class:`ToolError` that names the path."""
    try:
        yield
    except FileNotFoundError as error:
        raise ToolError(f"Cannot {verb} {target.shown}: no such file or folder.") from error
    except IsADirectoryError as error:
        raise ToolError(f"Cannot {verb} {target.shown}: it is a folder; use list_dir.") from error
    except NotADirectoryError as error:
        raise ToolError(f"Cannot {verb} {target.shown}: a part of it is no folder.") from error
    except OSError as error:
        raise ToolError(f"Cannot {verb} {target.shown}: {error.strerror or error}.") from error
