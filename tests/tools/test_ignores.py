from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.tools.ignores import rules_for, walk
from agent.tools.threads import Stop, StoppedError

NAMES = ("a", "b", "c.py", "d.log")
LINES = (
    *("*", "*/", "!*/", "**", "/*", "*.py", "!*.py", "*.log", "a", "a/", "!a/", "/a", "a/b", "!b"),
    *("a/**", "**/b", "a/**/c.py", "!/a/b/", "a/*", "!a/b", "[ab]", "?.py", "# a", "", "\\", "b  "),
)
FILES = tuple(
    f"{folder}{name}"
    for folder in ("", "x/", "a/", "b/", "a/b/", "x/a/", "x/a/b/")
    for name in ("c.py", "d.log", "e")
)


def searched(root: Path) -> set[str]:
    rules = rules_for(root, root)
    return {str(path.relative_to(root)) for path in walk(root, rules, Stop())}


def build(root: Path, ignores: dict[str, str]) -> None:
    for name in FILES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    for folder, text in ignores.items():
        (root / folder / ".gitignore").write_text(text)


def listed_by_git(root: Path) -> set[str]:
    subprocess.run(["git", "init", "-q", root], check=True)
    listed = subprocess.run(
        ["git", "-c", "core.excludesFile=", "ls-files", "-o", "--exclude-per-directory=.gitignore"],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    )
    return set(listed.stdout.split("\n")) - {""}


IGNORES = st.dictionaries(
    st.sampled_from(["", "a", "x", "x/a"]),
    st.lists(st.sampled_from(LINES), max_size=4).map("\n".join),
    max_size=3,
)


@pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")
@settings(max_examples=60, deadline=None)
@given(IGNORES)
def test_what_is_searched_is_what_git_would_add(ignores: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        build(root, ignores)
        assert searched(root) == listed_by_git(root)


def test_lines_that_make_no_sense_are_passed_over(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    (root / ".gitignore").write_text("*.log\r\n!\n\\\n[z-a]\n# note\n\n!keep.log\n.gitignore\n")
    for name in ("a.log", "keep.log", "z"):
        (root / name).touch()
    assert searched(root) == {"keep.log", "z"}


def test_a_folder_without_rules_below_one_that_is_ignored(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    (root / ".gitignore").write_text("out/\n*.log\n")
    assert rules_for(root, root) is not None
    assert rules_for(root / "out", root) is None
    assert rules_for(root / "out" / "deep", root) is None
    assert rules_for(root / "other", root) is not None


def test_the_repository_s_top_may_be_above_the_working_folder(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    (root / ".git").mkdir()
    (root / ".gitignore").write_text("*.log\n")
    (root / "work").mkdir()
    for name in ("a.log", "a.txt"):
        (root / "work" / name).touch()
    rules = rules_for(root / "work", root / "work")
    assert [path.name for path in walk(root / "work", rules, Stop())] == ["a.txt"]


def test_a_stopped_walk_ends(tmp_path: Path) -> None:
    stop = Stop()
    stop.set()
    with pytest.raises(StoppedError):
        list(walk(tmp_path, rules_for(tmp_path, tmp_path), stop))
