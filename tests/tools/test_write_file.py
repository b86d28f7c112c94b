from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path

import pytest

from agent.errors import ToolError
from agent.tools.approval import judge
from agent.tools.write_file import WriteFile
from tests.tools.support import context_in, run_tool


async def test_a_new_file_in_new_folders(tmp_path: Path) -> None:
    tool, context = WriteFile(), context_in(tmp_path)
    action = tool.plan({"path": "src/new/a.py", "content": "x = 1\ny = 2\n"}, context)
    assert not (tmp_path / "src").exists()
    assert action.title == "Create src/new/a.py"
    assert action.detail == "--- /dev/null\n+++ b/src/new/a.py\n@@ -0,0 +1,2 @@\n+x = 1\n+y = 2\n"
    outcome = await run_tool(tool, context, path="src/new/a.py", content="x = 1\ny = 2\n")
    assert outcome.content == "Wrote 12 bytes, 2 lines to src/new/a.py (created)."
    assert outcome.diff == action.detail == action.diff
    assert (tmp_path / "src" / "new" / "a.py").read_bytes() == b"x = 1\ny = 2\n"


async def test_overwriting_keeps_the_mode_and_writes_exactly_the_content(tmp_path: Path) -> None:
    path = tmp_path / "a.sh"
    path.write_text("old\n")
    path.chmod(0o755)
    outcome = await run_tool(WriteFile(), context_in(tmp_path), path="a.sh", content="é\r\nb\ud800")
    assert path.read_bytes() == "é\r\nb\ufffd".encode()
    assert stat.S_IMODE(path.stat().st_mode) == 0o755
    assert outcome.content == "Wrote 8 bytes, 2 lines to a.sh (overwritten)."
    assert "-old\n" in outcome.diff


async def test_the_same_content_is_not_written_again(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("same\n")
    before = path.stat().st_ino
    outcome = await run_tool(WriteFile(), context_in(tmp_path), path="a.txt", content="same\n")
    assert outcome.content == "a.txt has exactly this content already."
    assert path.stat().st_ino == before


def test_the_whole_content_stands_in_what_is_approved(tmp_path: Path) -> None:
    content = "".join(f"line {number}\n" for number in range(5_000))
    action = WriteFile().plan({"path": "a.txt", "content": content}, context_in(tmp_path))
    assert all(f"+line {number}\n" in action.detail for number in range(5_000))


def test_overwriting_what_is_no_text_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"\xff" * 1_234)
    action = WriteFile().plan({"path": "a.bin", "content": "x\n"}, context_in(tmp_path))
    assert action.detail.startswith("(replaces 1,234 bytes that are not shown")
    assert action.detail.endswith("+x\n")


async def test_a_link_is_written_through_to_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("old\n")
    (tmp_path / "link.txt").symlink_to("real.txt")
    await run_tool(WriteFile(), context_in(tmp_path), path="link.txt", content="new\n")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "new\n"


@pytest.mark.parametrize(
    ("path", "inside", "verdict"),
    [
        ("a.txt", True, "allow"),
        ("../work-other/a.txt", False, "ask"),
        ("out.txt", False, "ask"),
        ("outside/a.txt", False, "ask"),
        (".git/hooks/pre-commit", True, "ask"),
        (".transcripts/x.md", True, "ask"),
    ],
)
def test_what_auto_edit_writes_unasked(
    tmp_path: Path, path: str, inside: bool, verdict: str
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "work-other").mkdir()
    (work / "out.txt").symlink_to(tmp_path / "elsewhere.txt")
    (work / "outside").symlink_to(tmp_path)
    action = WriteFile().plan({"path": path, "content": "x"}, context_in(work))
    assert action.kind == "write"
    assert action.inside is inside
    assert judge("auto-edit", action, set()) == verdict


async def test_a_file_changed_after_the_approval_is_not_overwritten(tmp_path: Path) -> None:
    tool, context = WriteFile(), context_in(tmp_path)
    path = tmp_path / "a.txt"
    path.write_text("old\n")
    arguments = {"path": "a.txt", "content": "new\n"}
    approved = replace(context, approved=tool.plan(arguments, context))
    path.write_text("the user's own work\n")
    with pytest.raises(ToolError, match="has changed since this call was allowed"):
        await tool.run(arguments, approved)
    assert path.read_text() == "the user's own work\n"


async def test_a_folder_swapped_for_a_link_after_the_approval_is_not_followed(
    tmp_path: Path,
) -> None:
    work, elsewhere = tmp_path / "work", tmp_path / "elsewhere"
    (work / "src").mkdir(parents=True)
    elsewhere.mkdir()
    tool, context = WriteFile(), context_in(work)
    arguments = {"path": "src/a.txt", "content": "new\n"}
    approved = replace(context, approved=tool.plan(arguments, context))
    (work / "src").rmdir()
    (work / "src").symlink_to(elsewhere)
    with pytest.raises(ToolError, match="has changed"):
        await tool.run(arguments, approved)
    assert not list(elsewhere.iterdir())


@pytest.mark.parametrize("path", ["folder", "file/below"])
def test_what_cannot_be_written(tmp_path: Path, path: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(ToolError, match=f"Cannot read {path}"):
        WriteFile().plan({"path": path, "content": "x"}, context_in(tmp_path))


def test_the_key_is_the_path_and_the_content(tmp_path: Path) -> None:
    tool, context = WriteFile(), context_in(tmp_path)
    one = tool.plan({"path": "a.txt", "content": "x"}, context).key
    assert tool.plan({"path": "./a.txt", "content": "x"}, context).key == one
    assert tool.plan({"path": "a.txt", "content": "y"}, context).key != one
    assert tool.plan({"path": "b.txt", "content": "x"}, context).key != one
