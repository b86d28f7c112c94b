from __future__ import annotations

from agent.tools.changes import unified_diff
from agent.ui.diff import changed_lines, diff_lines


def test_lines_have_the_number_that_they_have_in_the_file() -> None:
    before = "".join(f"line {number}\n" for number in range(1, 120))
    after = before.replace("line 9\n", "line nine\n").replace("line 100\n", "")
    lines = [line.plain for line in diff_lines(unified_diff(before, after, "a.txt"))]
    assert lines[:3] == ["--- a/a.txt", "+++ b/a.txt", "@@ -6,7 +6,7 @@"]
    assert "  9 -line 9" in lines
    assert "  9 +line nine" in lines
    assert " 10  line 10" in lines
    assert "100 -line 100" in lines
    assert "100  line 101" in lines


def test_a_new_file_begins_at_line_1() -> None:
    lines = [line.plain for line in diff_lines(unified_diff(None, "a\nb\n", "x"))]
    assert lines == ["--- /dev/null", "+++ b/x", "@@ -0,0 +1,2 @@", "1 +a", "2 +b"]


def test_changes_that_look_like_headers_are_changes() -> None:
    diff = unified_diff("-- old\n@@ x\nkept\n", "++ new\n@@ x\nkept\n", "notes.sql")
    lines = diff_lines(diff)
    assert changed_lines(diff) == (1, 1)
    assert [line.plain for line in lines[3:5]] == ["1 --- old", "1 +++ new"]
    assert [str(line.spans[-1].style) for line in lines[3:5]] == ["red", "green"]


def test_what_is_no_diff_is_shown_as_it_is() -> None:
    assert [line.plain for line in diff_lines("+a\n-b\x1b[2J\n")] == ["+a", "-b\\x1b[2J"]
    assert [line.plain for line in diff_lines("")] == [""]
