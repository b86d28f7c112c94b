"""AGENTS.md: what a user, and the project worked on, want a model to know from the start.

The user's own file stands in the program's configuration folder. A project's are those
of the working folder and, in a git repository, of the folders above it up to its root;
where a folder has no AGENTS.md, its CLAUDE.md counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from os import F_OK, access
from os.path import relpath
from pathlib import Path

from agent.messages import scrub

NAMES = ("AGENTS.md", "CLAUDE.md")

MOST_CHARS = 32_000
"""Of all files together. The user's own has the first claim, then the nearest ones."""

_HEADING = """# Standing instructions

They come from the files below, as these were when the session began. What the user says \
in the conversation goes first; where two files disagree, the later one counts."""


@dataclass(frozen=True)
class Instructions:
    """What the files say: ``sections`` are names, as they are shown, and texts.

    They are in the order of the prompt: the user's own, then from the project's root to
    the working folder. ``notices`` tell what was left out of them, a line each.
    """

    sections: tuple[tuple[str, str], ...] = ()
    notices: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Their part of a system prompt; empty without any."""
        parts = (_HEADING, *(_rendered(*section) for section in self.sections))
        return "\n\n".join(parts) if self.sections else ""

    def differences(self, system: str) -> list[str]:
        """The names of the files that are not what a system prompt says they are."""
        _, heading, told = system.partition(_HEADING)
        if heading + told == self.text:
            return []
        changed = [name for name, text in self.sections if _rendered(name, text) not in told]
        return changed or ["a file of standing instructions"]


def _rendered(name: str, text: str) -> str:
    return f"## {name}\n\n{text}"


def read_instructions(cwd: Path, own: Path) -> Instructions:
    """What the files say that count in a folder. ``own`` is the user's configuration folder.

    A project's links are followed within the project only. What cannot be read is a notice.
    """
    root = _project_root(cwd.resolve())
    mine, project = list(_file_in(own, NAMES[0])), list(_project_files(cwd.resolve(), root))
    room, notices = MOST_CHARS, []
    texts: dict[Path, str] = {}
    for path in (*mine, *project):
        text, problem = _read(path, room, None if path in mine else root)
        if problem:
            notices.append(f"{_shown(path, cwd)} {problem}")
        texts[path] = text
        room -= min(len(text), room)
    ordered = (*mine, *reversed(project))
    sections = tuple((_shown(path, cwd), texts[path]) for path in ordered if texts[path])
    return Instructions(sections, tuple(notices))


def _project_root(cwd: Path) -> Path:
    """The root of the git repository that a folder is in, else the folder."""
    return next((folder for folder in (cwd, *cwd.parents) if access(folder / ".git", F_OK)), cwd)


def _project_files(cwd: Path, root: Path) -> Iterator[Path]:
    """The project's files, the nearest first; one that is there under two names comes once."""
    seen = set()
    for folder in (cwd, *cwd.parents):
        for path in _file_in(folder, *NAMES):
            if path.resolve() not in seen:
                yield path
            seen.add(path.resolve())
        if folder == root:
            return


def _file_in(folder: Path, *names: str) -> Iterator[Path]:
    """The first of some files that is there."""
    found = (path for path in map(folder.joinpath, names) if access(path, F_OK) and path.is_file())
    yield from islice(found, 1)


def _read(path: Path, room: int, root: Path | None) -> tuple[str, str]:
    """A file's text, at most ``room`` characters of it, and what was wrong with it."""
    place = path.resolve()
    if root is not None and not place.is_relative_to(root):
        return "", f"is left out of the system prompt: it leads out of {root}"
    try:
        with place.open(encoding="utf-8-sig") as file:
            text = file.read(room + 1).strip()
    except OSError as error:
        return "", f"is left out of the system prompt: {error.strerror}"
    except UnicodeDecodeError:
        return "", "is left out of the system prompt: it is not UTF-8 text"
    if len(text) <= room:
        return text, ""
    cut = f"{text[:room]}\n[cut here; the file is longer]" if room else ""
    return cut, (
        f"is too long: {room:,} characters of it are in the system prompt, where all such "
        f"files together may have {MOST_CHARS:,}"
    )


def _shown(path: Path, cwd: Path) -> str:
    """A project's file by its way from the working folder, the user's by its whole path."""
    place = cwd.resolve()
    beside = any(path.parent == folder for folder in (place, *place.parents))
    return scrub(relpath(path, place) if beside else str(path))
