from __future__ import annotations

import os
import re
import stat
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.tools.changes import read_existing, replace_file, unified_diff
from agent.tools.paths import resolve
from tests.tools.support import context_in

HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
TEXTS = st.lists(st.sampled_from(["", "a", "b", "c\r", "d\u2028", "@@ -1 +1 @@"]), max_size=30).map(
    "\n".join
)


def patched(old: str, diff: str) -> str:
    """The old text with a unified diff applied, as ``patch`` does it."""
    lines = old.split("\n")
    result: list[str] = []
    position = 0
    for line in diff.removesuffix("\n").split("\n")[2:]:
        found = HUNK.fullmatch(line)
        if found:
            # An empty range names the line before it.
            start = int(found[1]) - (found[2] != "0")
            result += lines[position:start]
            position = start
        elif line.startswith("+"):
            result.append(line[1:])
        elif line[0] in " -":
            assert lines[position] == line[1:]
            if line[0] == " ":
                result.append(line[1:])
            position += 1
    return "\n".join(result + lines[position:])


def ended(text: str) -> str:
    return text + "\n" if text else ""


@settings(deadline=None)
@given(TEXTS, TEXTS)
def test_a_diff_turns_the_old_text_into_the_new(old: str, new: str) -> None:
    old, new = ended(old), ended(new)
    diff = unified_diff(old, new, "a.txt")
    assert bool(diff) == (old != new)
    if diff:
        assert patched(old, diff) == new


def test_a_diff_of_a_change_far_down_names_its_lines() -> None:
    old = [f"line {number}" for number in range(1, 2_001)]
    new = [*old[:1_499], "changed", *old[1_500:]]
    diff = unified_diff("\n".join(old) + "\n", "\n".join(new) + "\n", "a.txt")
    assert diff == (
        "--- a/a.txt\n+++ b/a.txt\n@@ -1497,7 +1497,7 @@\n"
        " line 1497\n line 1498\n line 1499\n-line 1500\n+changed\n"
        " line 1501\n line 1502\n line 1503\n"
    )


def test_a_missing_line_end_is_shown() -> None:
    assert unified_diff(None, "a\nb", "n") == (
        "--- /dev/null\n+++ b/n\n@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file\n"
    )
    assert "\\ No newline" in unified_diff("a\n", "a", "n")


def test_a_diff_of_large_different_texts_is_quick_and_right() -> None:
    old = "".join(f"{number % 7} old {number % 11}\n" for number in range(20_000))
    new = "".join(f"{number % 5} old {number % 11}\n" for number in range(20_000))
    started = time.monotonic()
    diff = unified_diff(old, new, "a.txt")
    assert time.monotonic() - started < 2
    assert patched(old, diff) == new


def test_replacing_keeps_the_mode_and_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "script.sh"
    path.write_text("old")
    path.chmod(0o751)
    replace_file(path, b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o751
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_has_the_mode_that_the_user_s_mask_gives(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        replace_file(tmp_path.resolve() / "new" / "deep" / "a.txt", b"x")
    finally:
        os.umask(mask)
    made = tmp_path / "new" / "deep" / "a.txt"
    assert stat.S_IMODE(made.stat().st_mode) == 0o640
    assert stat.S_IMODE(made.parent.stat().st_mode) == 0o750


def test_a_failed_replacement_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="no regular file"):
        replace_file(tmp_path / "folder", b"x")
    assert list(tmp_path.iterdir()) == [tmp_path / "folder"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write to read-only files")
def test_a_read_only_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    path.chmod(0o444)
    with pytest.raises(PermissionError, match="read-only"):
        replace_file(path, b"new")
    assert path.read_text() == "old"


def test_existing_files_and_their_absence(tmp_path: Path) -> None:
    context = context_in(tmp_path)
    (tmp_path / "a.txt").write_text("é\r\n", newline="")
    (tmp_path / "b.bin").write_bytes(b"\xff\xfe")
    existing = read_existing(resolve("a.txt", context))
    assert existing is not None
    assert (existing.size, existing.text) == (4, "é\r\n")
    binary = read_existing(resolve("b.bin", context))
    assert binary is not None
    assert (binary.size, binary.text) == (2, None)
    assert read_existing(resolve("none/deep.txt", context)) is None
