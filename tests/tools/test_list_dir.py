from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent.errors import ToolError
from agent.tools.list_dir import MAX_ENTRIES, ListDir
from tests.tools.support import context_in, run_tool


async def listed(cwd: Path, **arguments: object) -> list[str]:
    return (await run_tool(ListDir(), context_in(cwd), **arguments)).content.split("\n")


async def test_entries_in_order_with_their_kinds(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "deep.py").touch()
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").touch()
    (tmp_path / "b.txt").write_text("x" * 1_234)
    (tmp_path / "a.txt").touch()
    (tmp_path / "link").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "two\nlines\x1b").touch()
    assert await listed(tmp_path) == [
        ".git/",
        "a.txt  0",
        "b.txt  1,234",
        "link -> nowhere",
        "pipe  [no regular file]",
        "src/",
        "two\\nlines\\x1b  0",
    ]
    assert await listed(tmp_path, path="src") == ["deep.py  0"]


async def test_a_name_that_is_no_utf8(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9")).touch()
    assert await listed(tmp_path) == ["caf\ufffd  0"]


async def test_an_empty_folder(tmp_path: Path) -> None:
    assert await listed(tmp_path) == ["[empty folder]"]


async def test_a_crowded_folder_is_listed_in_part(tmp_path: Path) -> None:
    for number in range(MAX_ENTRIES + 3):
        (tmp_path / f"{number:05}").touch()
    lines = await listed(tmp_path)
    assert lines[0] == "00000  0"
    assert lines[-2:] == ["04999  0", "[the first 5,000 of 5,003 entries]"]


@pytest.mark.parametrize(("path", "said"), [("none", "no such file"), ("file", "no folder")])
async def test_what_is_no_folder(tmp_path: Path, path: str, said: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ToolError, match=f"Cannot list {path}: .*{said}"):
        await listed(tmp_path, path=path)


async def test_a_folder_outside_is_asked_about(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    tool, context = ListDir(), context_in(tmp_path / "work")
    assert not tool.plan({"path": ".."}, context).inside
    assert tool.plan({}, context).inside
