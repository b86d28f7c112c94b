"""Ways of a path out of the working folder: each stays inside, is refused, or asks."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from agent.errors import ToolError
from agent.tools.approval import judge
from agent.tools.changes import undo_last
from agent.tools.edit_file import EditFile
from agent.tools.grep import Grep
from agent.tools.history import FileHistory
from agent.tools.list_dir import ListDir
from agent.tools.paths import START_FILES
from agent.tools.read_file import ReadFile
from agent.tools.write_file import WriteFile
from tests.tools.support import context_in, run_tool

SECRET = "canary-4711"
RACES = 10_000 if os.environ.get("TEST_PROFILE") == "faults" else 600


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "srv" / "app"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "main.py").write_text("x\n")
    for name in ("app-secrets", "app.bak", "APP"):
        (folder.parent / name).mkdir()
        (folder.parent / name / "key").write_text(SECRET)
    (folder / ".git").mkdir()
    os.link(folder.parent / "app-secrets" / "key", folder / "hard")
    os.mkfifo(folder / "fifo")
    for link, target in {
        "link": "../app-secrets/key",
        "up": "..",
        "folder": "../app-secrets",
        "absolute": str(folder.parent / "app-secrets" / "key"),
        "chain": "link",
        "chain2": "src/../chain",
        "proc": "/proc/self/root",
        "cwd": "/proc/self/cwd/../app-secrets/key",
        "null": "/dev/null",
        "loop": "loop",
        "new": "../app-secrets/new",
    }.items():
        (folder / link).symlink_to(target)
    with socket.socket(socket.AF_UNIX) as local:
        here = Path.cwd()
        os.chdir(folder)
        local.bind("socket")
        os.chdir(here)
        yield folder


PATHS = (
    "../app-secrets/key",
    "./../app-secrets/key",
    "src/../../app-secrets/key",
    "src/../src/../../app-secrets/key",
    "..//app-secrets//key",
    ".././app-secrets/./key",
    "src/./.././../app-secrets/key",
    "../app-secrets/../app-secrets/key",
    "../app.bak/key",
    "../APP/key",
    "../app-secrets",
    "..",
    "../",
    "../..",
    "../../../../../../../../etc/passwd",
    "/etc/passwd",
    "//etc/passwd",
    "/./etc/passwd",
    "/",
    "{parent}/app-secrets/key",
    "{cwd}-secrets/key",
    "{cwd}.bak/key",
    "{cwd}/../app-secrets/key",
    "{cwd}/src/../../app-secrets/key",
    "link",
    "./link",
    "src/../link",
    "up/app-secrets/key",
    "up/app/../app-secrets/key",
    "folder/key",
    "folder/../app-secrets/key",
    "folder/",
    "folder",
    "absolute",
    "chain",
    "chain2",
    "proc/etc/passwd",
    "proc",
    "cwd",
    "new",
    "new/deeper",
    "loop",
    "loop/x",
    "null",
    "hard",
    "./hard",
    "src/../hard",
    "fifo",
    "socket",
    "/dev/zero",
    "/dev/tty",
    "/dev/stdin",
    "/dev/fd/0",
    "/proc/self/environ",
    "/proc/self/root/etc/passwd",
    "/proc/self/cwd/../app-secrets/key",
    "/proc/1/environ",
    "/proc/self/fd/0",
    "/proc/thread-self/environ",
    "/sys/kernel/notes",
    "~/key",
    "~root/key",
    "~nobody-there/key",
    "file:///etc/passwd",
    "src/main.py/../../../app-secrets/key",
    "a\0/../../app-secrets/key",
    "..\\app-secrets\\key",
    "%2e%2e/app-secrets/key",
    "\u2025/app-secrets/key",
    ".\u200b./app-secrets/key",
)
HARMLESS = {
    # A name like any other: there is no such file, and it would be inside.
    *("file:///etc/passwd", "..\\app-secrets\\key", "%2e%2e/app-secrets/key"),
    *("\u2025/app-secrets/key", ".\u200b./app-secrets/key"),
}


def test_there_are_enough() -> None:
    assert len(set(PATHS)) >= 60


@pytest.mark.parametrize("path", PATHS)
async def test_none_is_read_or_listed_or_searched_unasked(work: Path, path: str) -> None:
    given = path.replace("{cwd}", str(work)).replace("{parent}", str(work.parent))
    for tool, arguments in (
        (ReadFile(), {"path": given}),
        (ListDir(), {"path": given}),
        (Grep(), {"path": given, "pattern": "canary"}),
    ):
        context = context_in(work)
        try:
            action = tool.plan(arguments, context)
        except ToolError:
            continue
        if judge("ask", action, set()) == "ask":
            continue
        with contextlib.suppress(ToolError):
            said = (await tool.run(arguments, replace(context, approved=action))).content
            assert SECRET not in said
            assert path in HARMLESS or "No matches" in said


@pytest.mark.parametrize("path", PATHS)
async def test_none_is_written_in_auto_edit(work: Path, path: str) -> None:
    given = path.replace("{cwd}", str(work)).replace("{parent}", str(work.parent))
    context = context_in(work)
    with contextlib.suppress(ToolError):
        action = WriteFile().plan({"path": given, "content": "bad"}, context)
        if judge("auto-edit", action, set()) == "allow":
            arguments = {"path": given, "content": "bad"}
            await WriteFile().run(arguments, replace(context, approved=action))
    for name in ("app-secrets", "app.bak", "APP"):
        assert (work.parent / name / "key").read_text() == SECRET
        assert [entry.name for entry in (work.parent / name).iterdir()] == ["key"]


@pytest.mark.parametrize(
    "name", ["sub/.bashrc", ".zshenv", ".ssh/rc", ".git/config", *sorted(START_FILES)]
)
def test_places_that_programs_obey_are_asked_about(work: Path, name: str) -> None:
    action = WriteFile().plan({"path": name, "content": "x"}, context_in(work))
    assert judge("auto-edit", action, set()) == "ask"
    assert judge("read-only", action, set()) == "refuse"


async def test_a_search_leaves_out_what_is_also_elsewhere(work: Path) -> None:
    said = (await run_tool(Grep(), context_in(work), pattern="canary")).content
    assert SECRET not in said
    assert "hard links" in said


def _swap(there: Path, outside: Path, stop: threading.Event) -> None:
    """Put a link to ``outside`` in the place of a folder and back, without end."""
    aside = there.with_name("aside")
    link = there.with_name("link-to-be")
    while not stop.is_set():
        # A write may make the folder anew while it is away, so that each step may fail.
        for step in (
            partial(link.symlink_to, outside),
            partial(there.rename, aside),
            partial(link.rename, there),
            there.unlink,
            partial(shutil.rmtree, there, ignore_errors=True),
            partial(aside.rename, there),
        ):
            with contextlib.suppress(OSError):
                step()


@contextlib.contextmanager
def swapping(there: Path, outside: Path) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=_swap, args=(there, outside, stop))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


async def test_no_race_of_links_is_won_by_a_read_or_a_write(work: Path) -> None:
    outside = work.parent / "app-secrets"
    (outside / "main.py").write_text(SECRET)
    done = {"read": 0, "write": 0}
    with swapping(work / "src", outside):
        for number in range(RACES):
            context = context_in(work)
            with contextlib.suppress(ToolError):
                action = ReadFile().plan({"path": "src/main.py"}, context)
                if judge("ask", action, set()) == "allow":
                    context = replace(context, approved=action)
                    said = await ReadFile().run({"path": "src/main.py"}, context)
                    assert SECRET not in said.content
                    done["read"] += 1
            arguments = {"path": "src/main.py", "content": f"{number}\n"}
            context = context_in(work)
            with contextlib.suppress(ToolError):
                action = WriteFile().plan(arguments, context)
                assert SECRET not in action.diff or not action.inside
                if judge("auto-edit", action, set()) == "allow":
                    await WriteFile().run(arguments, replace(context, approved=action))
                    done["write"] += 1
            assert (outside / "main.py").read_text() == SECRET
    assert min(done.values()) > 0


Change = Callable[[Path], object]
CHANGES: dict[str, Change] = {
    "content": lambda path: path.write_text("other\n"),
    "same size": lambda path: path.write_text("b\n"),
    "replaced": lambda path: (
        path.with_name("n").write_text("a\n") and path.with_name("n").replace(path)
    ),
    "removed": lambda path: path.unlink(),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_a_file_that_changed_since_it_was_read_is_not_written(
    tmp_path: Path, change: str
) -> None:
    history = FileHistory(tmp_path / ".transcripts" / "s" / "undo")
    context = replace(context_in(tmp_path), files=history)
    file = tmp_path / "a.txt"
    file.write_text("a\n")
    await run_tool(ReadFile(), context, path="a.txt")
    CHANGES[change](file)
    with pytest.raises(ToolError, match="has changed since it was last read"):
        await run_tool(WriteFile(), context, path="a.txt", content="mine\n")
    if file.exists():
        await run_tool(ReadFile(), context, path="a.txt")
        await run_tool(WriteFile(), context, path="a.txt", content="mine\n")
        # What was written here is known as well.
        await run_tool(EditFile(), context, path="a.txt", old_text="mine", new_text="ours")
        assert file.read_text() == "ours\n"


async def test_edits_are_undone_newest_first(tmp_path: Path) -> None:
    folder = tmp_path / ".transcripts" / "s" / "undo"
    context = replace(context_in(tmp_path), files=FileHistory(folder))
    file = tmp_path / "sub" / "a.txt"
    await run_tool(WriteFile(), context, path="sub/a.txt", content="one\r\n")
    file.chmod(0o640)
    await run_tool(EditFile(), context, path="sub/a.txt", old_text="one", new_text="two")
    (tmp_path / "b.bin").write_bytes(b"\xff\0")
    await run_tool(WriteFile(), context, path="b.bin", content="text")
    again = FileHistory(folder)
    assert undo_last(again, tmp_path) == "b.bin is as it was before the last edit"
    assert (tmp_path / "b.bin").read_bytes() == b"\xff\0"
    assert undo_last(again, tmp_path) == "sub/a.txt is as it was before the last edit"
    assert file.read_bytes() == b"one\r\n"
    assert file.stat().st_mode & 0o777 == 0o640
    assert undo_last(again, tmp_path) == "sub/a.txt, which the last edit created, is removed"
    assert not file.exists()
    assert undo_last(again, tmp_path) == "there is no edit to undo"
    for kept in folder.iterdir():
        assert kept.stat().st_mode & 0o777 == 0o600


async def test_what_was_changed_after_the_edit_is_not_undone(tmp_path: Path) -> None:
    history = FileHistory(tmp_path / ".transcripts" / "s" / "undo")
    context = replace(context_in(tmp_path), files=history)
    await run_tool(WriteFile(), context, path="a.txt", content="one")
    (tmp_path / "a.txt").write_text("the user's")
    with pytest.raises(ToolError, match="has changed since the last edit"):
        undo_last(history, tmp_path)
    assert (tmp_path / "a.txt").read_text() == "the user's"
