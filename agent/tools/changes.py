"""Changing a text file: what it holds now, the diff to show, the atomic replacement."""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import os
import re
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path

from agent.errors import ToolError
from agent.tools.arguments import one_line
from agent.tools.base import Action
from agent.tools.history import FileHistory
from agent.tools.paths import Target, explained, open_folder, open_regular, shown_path

MAX_FILE_BYTES = 20_000_000
_CONTEXT_LINES = 3
# difflib's time grows with the square of the lines it compares.
_MAX_COMPARED_LINES = 1_500
_HUNK = re.compile(r"^@@ -(\d+)(,\d+)? \+(\d+)(,\d+)? @@")


@dataclass(frozen=True)
class Existing:
    """A file before a change.

    ``text`` is ``None`` when it is no UTF-8 text or larger than
    ``MAX_FILE_BYTES``; ``size`` is in bytes.
    """

    size: int
    text: str | None


def read_existing(target: Target) -> Existing | None:
    """The file at a target, or ``None`` where there is none.

    Raises:
        ToolError: it is no regular file or cannot be read.
    """
    with explained("read", target):
        try:
            descriptor = open_regular(target.path)
        except FileNotFoundError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
            size = max(len(data), os.fstat(file.fileno()).st_size)
    if len(data) > MAX_FILE_BYTES:
        return Existing(size, None)
    try:
        return Existing(size, data.decode("utf-8"))
    except UnicodeDecodeError:
        return Existing(size, None)


@dataclass(frozen=True)
class Change:
    """A file's new text, and the action that a person is asked about."""

    target: Target
    old: Existing | None
    new: str
    action: Action

    def apply(self, history: FileHistory | None = None) -> None:
        """Write the new text; ``history`` keeps what it replaces.

        Raises:
            ToolError: the file cannot be written; it is then as it was.
        """
        data = self.new.encode("utf-8")
        if self.old is None or self.old.text != self.new:
            with explained("write", self.target):
                if history is not None:
                    history.keep(self.target.path, _content(self.target.path), data)
                replace_file(self.target.path, data)
        if history is not None:
            history.note(self.target.path)


def _content(path: Path) -> bytes | None:
    """A file's bytes; ``None`` where there is no file."""
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def undo_last(history: FileHistory, cwd: Path) -> str:
    """Put back what the last change of a session replaced; what was done, in one line.

    Raises:
        ToolError: there is none, the file has changed since, or it cannot be written.
    """
    last = history.last()
    if last is None:
        return "there is no edit to undo"
    shown = shown_path(last.path, cwd.resolve())
    target = Target(last.path, shown, in_workspace=True, in_transcripts=False, protected=False)
    with explained("undo the edit of", target):
        if hashlib.sha256(_content(last.path) or b"").hexdigest() != last.after:
            raise ToolError(f"{shown} has changed since the last edit; it is left as it is")
        if last.before is not None:
            replace_file(last.path, last.before)
        else:
            with open_folder(last.path.parent) as folder:
                os.unlink(last.path.name, dir_fd=folder)
        last.kept.rename(last.kept.with_suffix(".undone"))
    if last.before is None:
        return f"{shown}, which the last edit created, is removed"
    return f"{shown} is as it was before the last edit"


def plan_change(verb: str, target: Target, old: Existing | None, new: str, key: str) -> Change:
    """The change of a target's text to ``new``, with its diff whole in the action."""
    if old is not None and old.text is None:
        diff = (
            f"(replaces {old.size:,} bytes that are not shown: "
            f"no UTF-8 text, or more than {MAX_FILE_BYTES:,} bytes)\n"
        ) + unified_diff(None, new, target.shown)
    else:
        diff = unified_diff(old.text if old is not None else None, new, target.shown)
    action = Action(
        kind="write",
        title=f"{verb} {one_line(target.shown)}",
        detail=diff or "(no change)",
        key=key,
        inside=target.in_workspace,
        diff=diff,
        protected=target.protected,
    )
    return Change(target, old, new, action)


def split_lines(text: str) -> list[str]:
    """The lines of a text, split at line feeds only, without them."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def unified_diff(old: str | None, new: str, name: str) -> str:
    """A unified diff; empty when nothing differs. ``old`` is ``None`` for a new file."""
    if old == new:
        return ""
    before, after = _diff_lines(old or ""), _diff_lines(new)
    start = _common(before, after)
    end = _common(before[start:][::-1], after[start:][::-1])
    # The shared context is left on for the hunks; the rest need not be compared.
    skipped = max(0, start - _CONTEXT_LINES)
    kept = max(0, end - _CONTEXT_LINES)
    body = _hunks(before[skipped : len(before) - kept], after[skipped : len(after) - kept], skipped)
    header = ["--- /dev/null" if old is None else f"--- a/{name}", f"+++ b/{name}"]
    return "\n".join([*header, *body]) + "\n"


def _diff_lines(text: str) -> list[str]:
    lines = split_lines(text)
    if lines and not text.endswith("\n"):
        lines[-1] += "\n\\ No newline at end of file"
    return lines


def _common(first: list[str], second: list[str]) -> int:
    """How many lines two lists start with in common."""
    for number, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return number
    return min(len(first), len(second))


def _hunks(before: list[str], after: list[str], skipped: int) -> list[str]:
    """The hunks between two lists of lines whose first is number ``skipped + 1``."""
    if max(len(before), len(after)) > _MAX_COMPARED_LINES:
        header = f"@@ -{_span(skipped, before)} +{_span(skipped, after)} @@"
        return [header, *(f"-{line}" for line in before), *(f"+{line}" for line in after)]
    # The first two lines are difflib's own header.
    lines = list(difflib.unified_diff(before, after, lineterm="", n=_CONTEXT_LINES))[2:]
    return [_HUNK.sub(lambda found: _shifted(found, skipped), line, count=1) for line in lines]


def _span(skipped: int, lines: list[str]) -> str:
    return f"{skipped + bool(lines)},{len(lines)}"


def _shifted(found: re.Match[str], by: int) -> str:
    """A hunk's header with its line numbers moved."""
    first, first_length, second, second_length = found.groups(default="")
    return f"@@ -{int(first) + by}{first_length} +{int(second) + by}{second_length} @@"


def replace_file(path: Path, data: bytes) -> None:
    """Replace a file, or create it and the folders above, in one step.

    ``path`` is resolved; no symbolic link is followed. An existing file keeps
    its mode and, where permitted, its owner.

    Raises:
        OSError: it cannot be written; it is then as it was.
    """
    with open_folder(path.parent, create=True) as folder:
        kept = _writable_file(path.name, folder)
        temporary = f".{secrets.token_hex(8)}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(temporary, flags, 0o666 if kept is None else 0o600, dir_fd=folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                if kept is not None:
                    _keep_attributes(descriptor, kept)
                file.write(data)
                file.flush()
                os.fsync(descriptor)
            os.replace(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            # After the replacement there is none.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=folder)


def _writable_file(name: str, folder: int) -> os.stat_result | None:
    """The attributes of a file that may be replaced; ``None`` where there is none."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        raise OSError("it is no regular file")
    # Replacing needs only a writable folder; a read-only file is meant to stay.
    if not os.access(name, os.W_OK, dir_fd=folder):
        raise PermissionError("it is read-only")
    return status


def _keep_attributes(descriptor: int, status: os.stat_result) -> None:
    """Give a new file the owner and the mode of the one that it replaces."""
    if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
        # Only root may give a file away; the content matters more than its owner.
        with contextlib.suppress(PermissionError):
            os.fchown(descriptor, status.st_uid, status.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(status.st_mode))
