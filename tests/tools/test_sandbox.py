"""Twenty attempts to get out of the sandbox, for each way of building it; none may succeed."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from agent.errors import ToolError
from agent.tools.approval import Approval
from agent.tools.base import Action, Decision
from agent.tools.sandbox import BUILDERS, Sandbox
from agent.tools.shell import Shell, shell_action
from tests.tools.support import context_in

SECRET = "canary-4711"
KEY = "canary-key-0815"
TMP = tempfile.gettempdir()
NEEDY = "cat {}/.netrc || {{ echo Network is unreachable; exit 1; }}"


@dataclass(frozen=True)
class Machine:
    """A working folder, a home with secrets beside it, and a server that listens."""

    cwd: Path
    home: Path
    port: int
    pid: int

    def sandbox(self, builder: str) -> Sandbox:
        box = Sandbox(self.cwd, self.cwd / ".transcripts", builders={builder: BUILDERS[builder]})
        if not box.works():
            pytest.skip(f"{builder} does not work here: {box.why_not}")
        return box


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    home, cwd = tmp_path / "home", tmp_path / "home" / "code" / "app"
    for folder in (
        home / ".ssh",
        cwd / ".git" / "hooks",
        cwd / ".transcripts",
        home / ".local/bin",
    ):
        folder.mkdir(parents=True)
    for file in (home / ".ssh/id", home / ".netrc", home / "code/other.txt", tmp_path / "tmp-file"):
        file.write_text(SECRET)
    (cwd / ".git/config").write_text("[core]\n")
    (cwd / ".transcripts/s.jsonl").write_text("{}\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    with socket.create_server(("127.0.0.1", 0)) as server, subprocess.Popen(["sleep", "60"]) as pid:
        threading.Thread(target=_answer, args=(server,), daemon=True).start()
        with socket.socket(socket.AF_UNIX) as local:
            local.bind(str(tmp_path / "s"))
            local.listen()
            yield Machine(cwd, home, server.getsockname()[1], pid.pid)
        pid.kill()
        server.shutdown(socket.SHUT_RDWR)


def _answer(server: socket.socket) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:  # it was closed
            return
        with connection:
            connection.sendall(SECRET.encode())


PYTHON = "python3 -c '{}'"
PROBES = {
    "network": "exec 3<>/dev/tcp/127.0.0.1/{port} && head -c 11 <&3",
    "network elsewhere": "exec 3<>/dev/tcp/192.0.2.1/53; [ $? = 0 ] && echo {secret}",
    "interfaces": "[ $(ls /sys/class/net /proc/sys/net/ipv4/conf 2>/dev/null | "
    "grep -cE '^(eth|en|wl)') -gt 0 ] && echo {secret}",
    "dns": "getent hosts example.com && echo {secret}",
    "key in the home": "cat {home}/.ssh/id",
    "netrc": "cat ~/.netrc",
    "another folder of the home": "cat {home}/code/other.txt",
    "a link to the home": "ln -s {home}/.ssh/id link && cat link",
    "out by dots": "cat ../other.txt ../../.netrc",
    "temporary files of others": "cat {tmp}/tmp-file",
    "the root of a process": "cat /proc/self/root{home}/.ssh/id /proc/1/root{home}/.ssh/id",
    "another process's root": "cat /proc/{pid}/root{home}/.ssh/id || ls /proc/{pid}/cwd/ "
    "&& echo {secret}",
    "another process's environment": "cat /proc/*/environ | tr '\\0' '\\n' | grep {key} "
    "&& echo {secret}",
    "ptrace": "strace -p {pid} -o /dev/null & sleep 0.2; grep -q 'TracerPid:.[1-9]' "
    "/proc/{pid}/status && echo {secret}",
    "signal": "kill -9 {pid} && echo {secret}",
    "unix socket": 'python3 -c "import socket; socket.socket(1).connect(\\"{tmp}/s\\")" '
    "&& echo {secret}",
    "docker socket": "ls /run/docker.sock /var/run/docker.sock && echo {secret}",
    "set user id": 'cp /bin/bash . && chmod u+s bash && [ -n "$(find . -newer .git/config '
    "-perm -4000 -exec ./bash -p -c 'unshare -m true && echo x' \\;)\" ] && echo {secret}",
    "devices": "mknod d b 8 0 && echo {secret}; ls /dev | grep -E '^(sd|vd|nvme|mem|kmsg)' "
    "&& echo {secret}",
    "the kernel's settings": "test -w /proc/sys/kernel/core_pattern && echo {secret}; "
    "test -w /proc/sysrq-trigger && echo {secret}",
    "mounts": "mount -t tmpfs x .git && echo {secret}; umount .git && echo {secret}; "
    "unshare -Urm umount -l .git && echo {secret}",
}
WRITES = {
    "git hook": ".git/hooks/pre-commit",
    "git config": ".git/config",
    "transcript": ".transcripts/s.jsonl",
    "home": "{home}/.bashrc",
    "program in the home": "{home}/.local/bin/ls",
    "system": "/etc/profile.d/x.sh",
    "beside the folder": "../other.txt",
}


async def run(machine: Machine, box: Sandbox, command: str) -> str:
    context = replace(context_in(machine.cwd), sandbox=box)
    filled = command
    for name, value in {
        "port": machine.port,
        "pid": machine.pid,
        "home": machine.home,
        "tmp": machine.home.parent,
        "secret": SECRET,
        "key": KEY,
    }.items():
        filled = filled.replace(f"{{{name}}}", str(value))
    return (await Shell().run({"command": filled}, context)).content


@pytest.mark.parametrize("builder", BUILDERS)
@pytest.mark.parametrize("probe", PROBES)
async def test_no_way_out(machine: Machine, builder: str, probe: str) -> None:
    assert SECRET not in await run(machine, machine.sandbox(builder), PROBES[probe])


@pytest.mark.parametrize("probe", ["network", "key in the home", "signal", "unix socket"])
async def test_the_attempts_succeed_where_there_is_no_sandbox(machine: Machine, probe: str) -> None:
    context = context_in(machine.cwd)
    command = PROBES[probe].replace("{port}", str(machine.port)).replace("{pid}", str(machine.pid))
    command = command.replace("{home}", str(machine.home)).replace("{secret}", SECRET)
    command = command.replace("{tmp}", str(machine.home.parent))
    assert SECRET in (await Shell().run({"command": command}, context)).content


@pytest.mark.parametrize("builder", BUILDERS)
@pytest.mark.parametrize("place", WRITES)
async def test_nothing_is_written_elsewhere(machine: Machine, builder: str, place: str) -> None:
    path = Path(WRITES[place].replace("{home}", str(machine.home)))
    there = machine.cwd / path
    before = there.read_bytes() if there.exists() else None
    box = machine.sandbox(builder)
    await run(machine, box, f"echo bad > {path}; rm -f {path}; mv .git x; mv .git/hooks .git/x")
    assert (there.read_bytes() if there.exists() else None) == before
    assert (machine.cwd / ".git/hooks").is_dir()


@pytest.mark.parametrize("builder", BUILDERS)
async def test_work_goes_on_inside(
    machine: Machine, builder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Path(TMP, "kept")
    box = machine.sandbox(builder)
    monkeypatch.setenv("TMPDIR", str(machine.home))
    assert await run(machine, box, "dirname $(mktemp)") == "/tmp\n[exit code 0]"
    said = await run(machine, box, "echo x > made && echo y > /tmp/kept && yes | head -1; exit 3")
    assert said == "y\n[exit code 3]"
    assert (machine.cwd / "made").read_text() == "x\n"
    # The private /tmp is the session's, not the command's; the machine's own has nothing of it.
    assert await run(machine, box, "cat /tmp/kept; cat .git/config") == "y\n[core]\n[exit code 0]"
    assert not os.access(kept, os.F_OK)


@pytest.mark.parametrize("builder", BUILDERS)
async def test_a_server_and_its_client_can_talk_inside(machine: Machine, builder: str) -> None:
    command = (
        "python3 -m http.server 8765 --bind 127.0.0.1 >/dev/null 2>&1 & "
        "for _ in $(seq 50); do sleep 0.1; (: < /dev/tcp/127.0.0.1/8765) 2>/dev/null "
        "&& echo up && break; done"
    )
    assert (await run(machine, machine.sandbox(builder), command)).startswith("up\n")


@pytest.mark.parametrize("builder", BUILDERS)
async def test_what_leaves_the_group_ends_too(machine: Machine, builder: str) -> None:
    box = machine.sandbox(builder)
    await run(machine, box, "setsid sleep 4712 & sleep 0.2; true")
    listed = await Shell().run({"command": "ps -eo args="}, context_in(machine.cwd))
    assert "sleep 4712" not in listed.content.split("\n")


@pytest.mark.parametrize("builder", BUILDERS)
async def test_a_linked_git_folder_shows_nothing(machine: Machine, builder: str) -> None:
    box = machine.sandbox(builder)
    (machine.cwd / ".git").rename(machine.cwd / "git")
    (machine.cwd / ".git").symlink_to(machine.home / ".ssh")
    assert SECRET not in await run(machine, box, "cat .git/id")


def _no_builder(*_: object) -> list[str]:
    raise OSError("none here")


def _broken(*_: object) -> list[str]:
    return ["/bin/false"]


async def test_without_one_the_person_is_told_or_nothing_runs(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    cwd = tmp_path / "app"
    for builder in (_no_builder, _broken):
        box = Sandbox(cwd, cwd / ".transcripts", builders={"broken": builder})
        action = Shell().plan({"command": "touch x"}, replace(context_in(cwd), sandbox=box))
        assert action.title.startswith("Run a command WITHOUT a sandbox: broken: ")
        required = Sandbox(cwd, cwd / ".t", required=True, builders={"broken": builder})
        context = replace(context_in(cwd), sandbox=required)
        with pytest.raises(ToolError, match="no sandbox works here"):
            await Shell().run({"command": "touch x"}, context)
    assert not (cwd / "x").exists()


def test_one_that_stops_working_fails_closed(machine: Machine) -> None:
    box = machine.sandbox("namespaces")
    shown = box.command(["/bin/true"])
    assert subprocess.run(shown, check=False).returncode == 0
    room = shown.index("-S") + 2
    shown[room] = '[["read", "/usr", "/nowhere"]]'
    touched = machine.cwd / "x"
    done = subprocess.run([*shown[:-1], "/usr/bin/touch", str(touched)], check=False)
    assert done.returncode == 125
    assert not touched.exists()


@pytest.mark.parametrize("folder", ["home", "root"])
def test_a_folder_that_holds_the_home_has_none(machine: Machine, folder: str) -> None:
    cwd = machine.home if folder == "home" else Path("/")
    box = Sandbox(cwd, cwd / ".transcripts")
    assert not box.works()
    assert "home" in box.why_not
    assert not box.expected()


class Person:
    """Says the same to everything, and remembers what was asked."""

    def __init__(self, decision: Decision) -> None:
        self.decision = decision
        self.asked: list[Action] = []

    async def __call__(self, action: Action) -> Decision:
        self.asked.append(action)
        return self.decision


@pytest.mark.parametrize("mode", ["ask", "auto-edit", "yolo"])
async def test_outside_is_a_question_of_its_own(machine: Machine, mode: str) -> None:
    box = machine.sandbox("namespaces")
    command = NEEDY.format(machine.home)
    for allowed in (True, False):
        person = Person(Decision(allowed, reason="" if allowed else "no need"))
        approval = Approval("yolo" if mode == "yolo" else "ask", person)
        context = replace(context_in(machine.cwd), sandbox=box, ask=approval.ask)
        said = (await Shell().run({"command": command}, context)).content
        assert person.asked == [shell_action(command, machine.cwd, again_outside=True)]
        assert "OUTSIDE" in person.asked[0].title
        assert (SECRET in said) is allowed
        assert "no network" in said
        assert allowed or "The user said no: no need" in said


async def test_always_inside_is_not_always_outside(machine: Machine) -> None:
    box = machine.sandbox("namespaces")
    person = Person(Decision(allowed=False))
    command = NEEDY.format(machine.home)
    approval = Approval("ask", person, [shell_action(command, machine.cwd).key])
    context = replace(context_in(machine.cwd), sandbox=box, ask=approval.ask)
    assert (await approval.decide(Shell().plan({"command": command}, context))).allowed
    assert SECRET not in (await Shell().run({"command": command}, context)).content
    assert len(person.asked) == 1


async def test_nobody_to_ask_is_no(machine: Machine) -> None:
    box = machine.sandbox("namespaces")
    approval = Approval("yolo", None)
    context = replace(context_in(machine.cwd), sandbox=box, ask=approval.ask)
    said = (await Shell().run({"command": NEEDY.format(machine.home)}, context)).content
    assert SECRET not in said
    assert "nobody can be asked" in said


def test_the_private_tmp_goes_with_the_session(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    box = machine.sandbox("namespaces")
    (folder,) = tmp_path.glob("agent-chat-*")
    assert folder.stat().st_mode & 0o777 == 0o700
    del box
    assert not folder.exists()
