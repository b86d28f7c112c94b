"""The sandbox that commands run in: what of the machine they see, and who builds it.

The room holds what is named and nothing else: the system's programs, read-only; the
folders of tools in the home, read-only; the working folder; a ``/tmp`` of the session's
own. There is no network. ``bwrap`` builds it where it is installed, else
:mod:`agent.tools.confine`; both build the same room. No argument of a tool reaches it.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from agent.tools import confine
from agent.tools.process import child_environment, outside_program

_SYSTEM = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc", "opt", "nix", "gnu")
_SYSTEM_SECRETS = ("shadow", "shadow-", "gshadow", "gshadow-", "sudoers", "ssh", "ssl/private")
# Programs and libraries that people keep in their home; no folder that may hold a key.
_HOME_TOOLS = (
    *(".asdf", ".bun/bin", ".cargo/bin", ".cargo/registry", ".deno/bin", ".fnm", ".nvm", ".pyenv"),
    *(".rbenv", ".rustup", ".sdkman/candidates", ".volta", ".local/bin", ".local/lib", "bin"),
    *(f".local/share/{name}" for name in ("fnm", "mise", "pipx", "pnpm", "uv")),
    *("anaconda3", "miniconda3", "miniforge3", "go/bin", "go/pkg", "go/sdk"),
)
_TMP = Path("/", "tmp")
_PROBE_SECONDS = 10.0
MISSED = (
    "read-only file system",
    "network is unreachable",
    "name or service not known",
    "name resolution",
    "could not resolve",
    "eai_again",
    "getaddrinfo",
    "cannot connect to",
    "not a git repository",
)
"""What programs print (in any case) that miss the network or may not write.

It leads to a question, never to more.
"""

Kind: TypeAlias = Literal["read", "write", "empty", "blank"]


@dataclass(frozen=True)
class Mount:
    """One part of the room: a folder or file of the machine, or an empty one.

    ``read`` and ``write`` show ``source`` at ``target``; ``empty`` is a folder that
    vanishes with the command, ``blank`` hides a file.
    """

    kind: Kind
    target: Path
    source: Path


def room(cwd: Path, transcripts: Path, tmp: Path, environment: Mapping[str, str]) -> list[Mount]:
    """The parts of the room for a working folder, in the order in which they are laid.

    ``cwd`` and ``transcripts`` are resolved; ``tmp`` becomes ``/tmp``.
    """
    system = [Path("/", name) for name in _SYSTEM if Path("/", name).is_dir()]
    mounts = [_read(path) for path in system]
    secret = [path for name in _SYSTEM_SECRETS if os.access(path := Path("/etc", name), os.R_OK)]
    mounts += [Mount("empty" if path.is_dir() else "blank", path, path) for path in secret]
    mounts += [Mount("write", _TMP, tmp), Mount("empty", Path("/var") / "tmp", tmp)]
    mounts += [Mount("empty", home, home) for home in _homes()]
    tools = [home / name for home in _homes() for name in _HOME_TOOLS]
    for path in (*tools, *_program_folders(environment), *_repository_around(cwd)):
        known = any(path.is_relative_to(folder) for folder in system)
        if path.is_dir() and not known and not _too_wide(path.resolve()):
            mounts.append(_read(path))
    mounts.append(Mount("write", cwd, cwd))
    # Git runs what its folder names, later and outside. A link must not show what it leads to.
    protected = [path.resolve() for path in (cwd / ".git", transcripts) if path.exists()]
    return mounts + [_read(path) for path in protected if cwd in path.parents]


def _read(path: Path) -> Mount:
    return Mount("read", path, path.resolve())


def _homes() -> list[Path]:
    """The user's home folders: the one of the environment and the one of the user database."""
    homes = set()
    # A user that only a number stands for has none of its own.
    with suppress(KeyError):
        homes.add(Path(pwd.getpwuid(os.getuid()).pw_dir).resolve())
    with suppress(RuntimeError):
        homes.add(Path.home().resolve())
    return sorted(home for home in homes if home.is_dir() and home != Path("/"))


def _too_wide(path: Path) -> bool:
    """Whether a folder holds a home or everybody's temporary files."""
    return any(inner.is_relative_to(path) for inner in (*_homes(), _TMP))


def _program_folders(environment: Mapping[str, str]) -> Iterator[Path]:
    """The folders of ``PATH``; of a Python environment, all of it."""
    for entry in map(Path, environment.get("PATH", "").split(os.pathsep)):
        if entry.is_absolute():
            yield entry.parent if (entry.parent / "pyvenv.cfg").is_file() else entry


def _repository_around(cwd: Path) -> Iterator[Path]:
    """The Git repository that a working folder is a part of."""
    if not (cwd / ".git").exists():
        yield from [folder for folder in cwd.parents if (folder / ".git").is_dir()][:1]


def _bubblewrap(mounts: Sequence[Mount], cwd: Path) -> list[str]:
    program = outside_program("bwrap", cwd)
    if program is None:
        raise OSError("bwrap is not installed")
    arguments = [program, "--unshare-all", "--die-with-parent", "--cap-drop", "ALL"]
    arguments += ["--unsetenv", "TMPDIR", "--proc", "/proc", "--dev", "/dev"]
    for path in (f"/proc/{name}" for name in confine.PROC_OF_THE_MACHINE):
        arguments += ["--ro-bind-try", path, path]
    for mount in mounts:
        match mount.kind:
            case "read":
                arguments += ["--ro-bind", str(mount.source), str(mount.target)]
            case "write":
                arguments += ["--bind", str(mount.source), str(mount.target)]
            case "empty":
                arguments += ["--tmpfs", str(mount.target)]
            case "blank":
                arguments += ["--ro-bind", os.devnull, str(mount.target)]
    return [*arguments, "--remount-ro", "/", "--chdir", str(cwd), "--"]


def _namespaces(mounts: Sequence[Mount], cwd: Path) -> list[str]:
    if not sys.platform.startswith("linux"):
        raise OSError("there is none for this system")
    parts = json.dumps([[m.kind, str(m.target), str(m.source)] for m in mounts])
    return [sys.executable, "-I", "-S", confine.__file__, parts, str(cwd)]


Builder: TypeAlias = Callable[[Sequence[Mount], Path], list[str]]
"""The command that builds a room with a working folder and runs what follows in it.

Raises :class:`OSError` where it cannot.
"""

BUILDERS: Mapping[str, Builder] = {"bwrap": _bubblewrap, "namespaces": _namespaces}
"""The builders by name, the preferred one first."""


class Sandbox:
    """The sandbox of one session.

    ``required`` tells that nothing may run without it. Which builder works is tried when
    it is first needed, not before: that starts a process.
    """

    def __init__(
        self,
        cwd: Path,
        transcripts: Path,
        *,
        required: bool = False,
        builders: Mapping[str, Builder] = BUILDERS,
    ) -> None:
        self.required = required
        self._cwd = cwd.resolve()
        self._transcripts = transcripts
        self._builders = builders
        self._tmp: Path | None = None
        self._builder: Builder | None = None
        self.why_not = ""
        """Why commands run without it; empty while they do not."""

    def works(self) -> bool:
        """Whether commands run in it; tries it on the first call."""
        if self._builder is None and not self.why_not:
            self.why_not = self._choose()
        return self._builder is not None

    def expected(self) -> bool:
        """Whether commands will probably run in it; starts no process."""
        if self._builder is not None or self.why_not:
            return self._builder is not None
        return sys.platform.startswith("linux") and not _too_wide(self._cwd)

    def command(self, program: Sequence[str]) -> list[str]:
        """The command that runs a program in the sandbox.

        Raises:
            OSError: the room cannot be described.
        """
        if self._builder is None:
            raise OSError("there is no sandbox")
        return [*self._prefix(self._builder), *program]

    def _prefix(self, builder: Builder) -> list[str]:
        if self._tmp is None:
            self._tmp = Path(tempfile.mkdtemp(prefix="agent-chat-"))
            weakref.finalize(self, shutil.rmtree, self._tmp, ignore_errors=True)
        transcripts = self._transcripts.resolve()
        return builder(room(self._cwd, transcripts, self._tmp, os.environ), self._cwd)

    def _choose(self) -> str:
        """Take the first builder that works; why there is none."""
        if _too_wide(self._cwd):
            return "the working folder holds the home folder or /tmp"
        reasons = []
        for name, builder in self._builders.items():
            reason = self._tried(builder)
            if not reason:
                self._builder = builder
                return ""
            reasons.append(f"{name}: {reason}")
        return "; ".join(reasons)

    def _tried(self, builder: Builder) -> str:
        """Why a builder does not work; empty when it does."""
        true = shutil.which("true", path="/bin:/usr/bin") or "/bin/true"
        try:
            done = subprocess.run(
                [*self._prefix(builder), true],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_PROBE_SECONDS,
                env=child_environment(os.environ),
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        said = done.stderr.decode("utf-8", "replace").strip().split("\n")[-1]
        return (said or f"exit code {done.returncode}") if done.returncode else ""
