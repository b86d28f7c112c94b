"""Builds the sandbox's room out of Linux namespaces and becomes a program inside it.

Run as a script, where ``bwrap`` is not installed::

    python -I -S confine.py ROOM FOLDER PROGRAM ARGUMENT...

``ROOM`` is JSON, a list of ``[kind, target, source]`` as in :mod:`agent.tools.sandbox`.
What is not in the list is not in the room. There is no network but an own loopback, no
other process to be seen, and no capability left. Whatever fails, the program is not run.

System calls: unshare(2), user_namespaces(7), pivot_root(2), mount_setattr(2) (Linux 5.12).
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import signal
import socket
import struct
import sys
from pathlib import Path

SETUP_FAILED = 125
_NAMESPACES = (
    0x00020000  # CLONE_NEWNS
    | 0x04000000  # CLONE_NEWUTS
    | 0x08000000  # CLONE_NEWIPC
    | 0x10000000  # CLONE_NEWUSER
    | 0x20000000  # CLONE_NEWPID
    | 0x40000000  # CLONE_NEWNET
)
_MS_NOSUID, _MS_NODEV, _MS_BIND, _MS_REC, _MS_PRIVATE = 2, 4, 4096, 16384, 1 << 18
_MNT_DETACH = 2
_SYS_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE = 442, -100, 0x8000
_ATTR_RDONLY, _ATTR_NOSUID, _ATTR_NODEV = 1, 2, 4
_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 24, 38
_CAPABILITY_VERSION = 0x20080522
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
PROC_OF_THE_MACHINE = ("sys", "sysrq-trigger", "irq", "bus")
"""Parts of /proc that a process with root's user id may write to, without any capability."""

_libc = ctypes.CDLL(None, use_errno=True)
# As a variadic function: a pointer that is not declared would be cut to 32 bits.
_libc.mount.argtypes = [ctypes.c_char_p] * 3 + [ctypes.c_ulong, ctypes.c_char_p]


def _check(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    arguments = [os.fsencode(text) or None for text in (source, target, kind)]
    _check(_libc.mount(*arguments, flags, data.encode() or None), f"mount {target}")


def _restrict(target: str, attributes: int, flags: int = 0) -> None:
    """Set attributes of a mount; with ``_AT_RECURSIVE`` also of those below it."""
    wanted = struct.pack("=4Q", attributes, 0, 0, 0)
    path = ctypes.c_char_p(os.fsencode(target))
    _check(
        _libc.syscall(_SYS_MOUNT_SETATTR, _AT_FDCWD, path, flags, wanted, len(wanted)),
        f"mount_setattr {target}",
    )


def _enter_namespaces() -> None:
    user, group = os.getuid(), os.getgid()
    _check(_libc.unshare(_NAMESPACES), "unshare")
    Path("/proc/self/setgroups").write_text("deny", "ascii")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1", "ascii")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1", "ascii")


def _raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        # SIOCSIFFLAGS with IFF_UP.
        fcntl.ioctl(control, 0x8914, struct.pack("16sh14x", b"lo", 1))


def _bind(source: str, target: str, attributes: int) -> None:
    if Path(source).is_dir():
        Path(target).mkdir(parents=True, exist_ok=True)
    else:
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        Path(target).touch(exist_ok=True)
    _mount(source, target, flags=_MS_BIND | _MS_REC)
    _restrict(target, attributes, _AT_RECURSIVE)


def _add_devices(root: str, old: str) -> None:
    Path(f"{root}/dev").mkdir()
    _mount("tmpfs", f"{root}/dev", "tmpfs", _MS_NOSUID, "mode=755")
    for name in _DEVICES:
        Path(f"{root}/dev/{name}").touch()
        _mount(f"{old}/dev/{name}", f"{root}/dev/{name}", flags=_MS_BIND)
    for name in ("shm", "pts"):
        Path(f"{root}/dev/{name}").mkdir()
    _mount("devpts", f"{root}/dev/pts", "devpts", _MS_NOSUID, "newinstance,ptmxmode=0666,mode=620")
    for link, target in (
        ("ptmx", "pts/ptmx"),
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ):
        Path(f"{root}/dev/{link}").symlink_to(target)


def _build(room: list[list[str]]) -> None:
    """Make the room the root folder; the machine's own is gone afterwards."""
    _mount("", "/", flags=_MS_REC | _MS_PRIVATE)
    # Any folder will do; it is covered in this mount namespace alone.
    base = "/etc"
    _mount("tmpfs", base, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=755")
    for name in ("old", "room"):
        Path(f"{base}/{name}").mkdir()
    pivot = f"{base}/old".encode()
    _check(_libc.pivot_root(base.encode(), pivot), "pivot_root")
    os.chdir("/")
    root, old = "/room", "/old"
    _mount("tmpfs", root, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=755")
    Path(f"{root}/proc").mkdir()
    _mount("proc", f"{root}/proc", "proc", _MS_NOSUID | _MS_NODEV)
    for name in PROC_OF_THE_MACHINE:
        if Path(f"{root}/proc/{name}").exists():
            _bind(f"{root}/proc/{name}", f"{root}/proc/{name}", _ATTR_RDONLY)
    _add_devices(root, old)
    safe = _ATTR_NOSUID | _ATTR_NODEV
    for kind, target, source in room:
        if kind == "empty":
            Path(root + target).mkdir(parents=True, exist_ok=True)
            _mount("tmpfs", root + target, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=700")
        elif kind == "blank":
            _mount(f"{root}/dev/null", root + target, flags=_MS_BIND)
        else:
            read_only = _ATTR_RDONLY if kind == "read" else 0
            _bind(old + source, root + target, safe | read_only)
    _restrict(root, _ATTR_RDONLY)
    os.chdir(root)
    _check(_libc.pivot_root(b".", b"."), "pivot_root")
    # The old root now lies above the new one, at the same place.
    _check(_libc.umount2(b".", _MNT_DETACH), "umount2")
    os.chdir("/")


def _drop_privileges() -> None:
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    last = int(Path("/proc/sys/kernel/cap_last_cap").read_text("ascii"))
    for capability in range(last + 1):
        _check(_libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0), "capability")
    header = struct.pack("=Ii", _CAPABILITY_VERSION, 0)
    _check(_libc.capset(header, struct.pack("=6I", *[0] * 6)), "capset")


def _wait_for(child: int) -> int:
    """The exit code of a child as a shell gives it; others that end meanwhile are collected."""
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _inside(room: list[list[str]], folder: str, program: list[str]) -> int:
    """The first process of the room: when it ends, the kernel ends all others."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, 9, 0, 0, 0), "parent's death")
    _raise_loopback()
    _build(room)
    _drop_privileges()
    os.chdir(folder)
    # Python ignores some signals, and what is ignored stays so in a program that is started.
    os.environ.pop("TMPDIR", None)
    usual = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM)
    return _wait_for(os.posix_spawn(program[0], program, os.environ, setsigdef=usual))


def main(arguments: list[str]) -> int:
    """Build the room and run the program in it; its exit code."""
    room, folder, program = json.loads(arguments[0]), arguments[1], arguments[2:]
    # The program is asked to end, and given time; what waits for it must not go first.
    signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        _enter_namespaces()
        child = os.fork()
        if child:
            return _wait_for(child)
        code = _inside(room, folder, program)
    except OSError as error:
        sys.stderr.write(f"the sandbox cannot be set up: {error}\n")
        code = SETUP_FAILED
    # A child must not run what its parent has registered for its end.
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
