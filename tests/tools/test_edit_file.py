from __future__ import annotations

import stat
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.errors import ToolError
from agent.tools.edit_file import EditFile, replaced
from agent.tools.paths import Target
from tests.tools.support import context_in, run_tool

TARGET = Target(Path("/w/a.txt"), "a.txt", in_workspace=True, in_transcripts=False, protected=False)


async def edit(path: Path, old_text: str, new_text: str) -> str:
    outcome = await run_tool(
        EditFile(), context_in(path.parent), path=path.name, old_text=old_text, new_text=new_text
    )
    return outcome.content


async def test_one_exact_occurrence_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("def f():\n    return 1\n\ndef g():\n    return 2\n")
    path.chmod(0o755)
    outcome = await run_tool(
        EditFile(), context_in(tmp_path), path="a.py", old_text="return 2", new_text="return 3"
    )
    assert path.read_text() == "def f():\n    return 1\n\ndef g():\n    return 3\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o755
    assert "-    return 2\n+    return 3\n" in outcome.diff
    assert outcome.content == "Edited a.py (5 lines now)."


async def test_backslashes_and_group_names_are_plain_text(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("x = OLD\n")
    await edit(path, "OLD", r"\1 \g<0> $1")
    assert path.read_text() == "x = \\1 \\g<0> $1\n"


@pytest.mark.parametrize(
    ("content", "old_text", "new_text", "result"),
    [
        (b"a\r\nb\r\nc\r\n", "a\nb\n", "x\ny\n", b"x\r\ny\r\nc\r\n"),
        (b"a\r\nb\r\n", "b", "x\ny", b"a\r\nx\r\ny\r\n"),
        (b"a\r\nb\r\n", "a\r\nb", "x\r\ny", b"x\r\ny\r\n"),
        (b"a\r\nb\nc\n", "b\nc", "x\ny", b"a\r\nx\ny\n"),
        (b"a\r\nb\r\nc\n", "a\nb", "x\ny", b"x\r\ny\r\nc\n"),
        (b"a\nb\n", "a\n", "", b"b\n"),
        (b"a\xe2\x80\xa8b\x0cc", "b", "x", b"a\xe2\x80\xa8x\x0cc"),
    ],
)
async def test_line_ends_are_kept(
    tmp_path: Path, content: bytes, old_text: str, new_text: str, result: bytes
) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    await edit(path, old_text, new_text)
    assert path.read_bytes() == result


@settings(deadline=None)
@given(st.text(alphabet="ab\n\r", max_size=40), st.text(alphabet="ab\n", min_size=1, max_size=4))
def test_an_edit_changes_one_place_or_is_an_error(content: str, old_text: str) -> None:
    try:
        result = replaced(content, old_text, "NEW", TARGET)
    except ToolError:
        places = sum(content.startswith(old_text, index) for index in range(len(content)))
        assert places != 1 or "\r\n" in content
        return
    before, after = result.split("NEW")
    assert content.startswith(before)
    assert content.endswith(after)
    removed = content[len(before) : len(content) - len(after)]
    assert removed.replace("\r\n", "\n") == old_text or removed == old_text


@pytest.mark.parametrize(
    ("old_text", "said"),
    [
        ("    retrun total", "Nearest lines"),
        ("total = 0", "occurs 2 times in a.py, at lines 2, 6;"),
        ("", "old_text is empty"),
        ("same", "old_text and new_text are the same"),
        ("§§§§", "No line is like its first one"),
    ],
)
async def test_what_is_not_unique_is_explained(tmp_path: Path, old_text: str, said: str) -> None:
    path = tmp_path / "a.py"
    path.write_text("def f():\n    total = 0\n    return total\n\ndef g():\n    total = 0\n")
    with pytest.raises(ToolError) as caught:
        await edit(path, old_text, "same")
    assert said in str(caught.value)


async def test_the_nearest_line_is_shown_with_its_number(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("import os\n\n\tdef compute(total):\n\t\treturn total\n")
    with pytest.raises(ToolError) as caught:
        await edit(path, "    def compute(total):\n        return total\n", "x")
    assert "     3\t\tdef compute(total):" in str(caught.value)
    with pytest.raises(ToolError) as caught:
        await edit(path, "def compute(totals)", "x")
    assert "     3\t\tdef compute(total):" in str(caught.value)


def test_line_ends_alone_are_no_change_in_a_file_with_crlf() -> None:
    with pytest.raises(ToolError, match="are the same"):
        replaced("a\r\nb\r\n", "a\n", "a\r\n", TARGET)


def test_overlapping_occurrences_are_not_unique() -> None:
    with pytest.raises(ToolError, match="occurs 2 times"):
        replaced("aaa", "aa", "b", TARGET)
    with pytest.raises(ToolError, match="over 10 times"):
        replaced("a" * 1_000_000, "a", "b", TARGET)


def test_a_miss_in_a_large_file_is_found_out_quickly() -> None:
    content = "".join(f"some line of code with number {number}\n" for number in range(200_000))
    started = time.monotonic()
    with pytest.raises(ToolError):
        replaced(content, "some line of coda with numbers", "x", TARGET)
    assert time.monotonic() - started < 5


async def test_what_cannot_be_edited(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"\xff\xfe")
    with pytest.raises(ToolError, match=r"a\.bin .2 bytes.: it is no UTF-8 text"):
        await edit(tmp_path / "a.bin", "a", "b")
    with pytest.raises(ToolError, match="no such file; write_file creates it"):
        await edit(tmp_path / "none", "a", "b")


@pytest.mark.parametrize(
    "changed",
    ["one\nOTHER\nthree\n", "zero\none\ntwo\nthree\n", "one\ntwo\ntwo\n"],
)
async def test_a_file_changed_after_the_approval_is_not_edited(
    tmp_path: Path, changed: str
) -> None:
    tool, context = EditFile(), context_in(tmp_path)
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\nthree\n")
    arguments = {"path": "a.txt", "old_text": "two", "new_text": "2"}
    approved = replace(context, approved=tool.plan(arguments, context))
    path.write_text(changed)
    with pytest.raises(ToolError):
        await tool.run(arguments, approved)
    assert path.read_text() == changed


async def test_a_change_elsewhere_that_leaves_the_diff_alone_is_no_obstacle(
    tmp_path: Path,
) -> None:
    tool, context = EditFile(), context_in(tmp_path)
    path = tmp_path / "a.txt"
    lines = [f"line {number}\n" for number in range(30)]
    path.write_text("".join(lines))
    arguments = {"path": "a.txt", "old_text": "line 3\n", "new_text": "x\n"}
    approved = replace(context, approved=tool.plan(arguments, context))
    lines[25] = "elsewhere\n"
    path.write_text("".join(lines))
    await tool.run(arguments, approved)
    lines[3] = "x\n"
    assert path.read_text() == "".join(lines)
