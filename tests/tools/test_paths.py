from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent.errors import ToolError
from agent.tools.paths import open_folder, open_regular, printable, resolve
from tests.tools.support import context_in


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "srv" / "app"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "main.py").write_text("x\n")
    (tmp_path / "srv" / "app-secrets").mkdir()
    (tmp_path / "srv" / "app-secrets" / "key").write_text("secret\n")
    return folder


@pytest.mark.parametrize(
    ("argument", "shown"),
    [
        ("src/main.py", "src/main.py"),
        (".", "."),
        ("src/../src//main.py", "src/main.py"),
        ("not/there.txt", "not/there.txt"),
        ("../app/src", "src"),
    ],
)
def test_paths_inside(work: Path, argument: str, shown: str) -> None:
    target = resolve(argument, context_in(work))
    assert (target.shown, target.in_workspace, target.free_to_read) == (shown, True, True)
    assert not target.protected


@pytest.mark.parametrize(
    "argument", ["..", "../app-secrets/key", "/etc/passwd", "src/../../x", "/"]
)
def test_paths_outside(work: Path, argument: str) -> None:
    target = resolve(argument, context_in(work))
    assert not target.in_workspace
    assert not target.free_to_read
    assert target.shown == str(target.path)


def test_a_path_with_a_common_prefix_is_outside(work: Path) -> None:
    target = resolve(f"{work}-secrets/key", context_in(work))
    assert target.path.is_file()
    assert not target.in_workspace


def test_links_count_for_where_they_lead(work: Path) -> None:
    (work / "out").symlink_to(work.parent / "app-secrets")
    (work / "in").symlink_to(work / "src")
    (work / "dangling").symlink_to(work.parent / "new-file")
    context = context_in(work)
    assert not resolve("out/key", context).in_workspace
    assert not resolve("out/../x", context).in_workspace
    assert resolve("in/main.py", context).shown == "src/main.py"
    assert not resolve("dangling", context).in_workspace


def test_a_linked_working_folder_is_the_folder_it_leads_to(work: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(work)
    target = resolve("src/main.py", context_in(link))
    assert (target.shown, target.in_workspace) == ("src/main.py", True)


@pytest.mark.parametrize(
    "argument",
    [".git/config", ".git", "src/.git/hooks/pre-commit", ".GIT/config", ".transcripts/x.md"],
)
def test_protected_paths(work: Path, argument: str) -> None:
    target = resolve(argument, context_in(work))
    assert target.in_workspace
    assert target.protected


def test_names_that_only_begin_like_a_protected_one_are_free(work: Path) -> None:
    assert not resolve(".gitignore", context_in(work)).protected
    assert not resolve(".github/workflows/x.yml", context_in(work)).protected


def test_a_link_to_a_protected_folder_is_protected(work: Path) -> None:
    (work / ".git").mkdir()
    (work / "innocent").symlink_to(work / ".git")
    assert resolve("innocent/config", context_in(work)).protected


def test_transcripts_elsewhere_are_free_to_read_but_not_in_the_workspace(work: Path) -> None:
    context = context_in(work.parent)
    elsewhere = resolve(str(work.parent / ".transcripts" / "x.md"), context_in(work))
    assert not elsewhere.free_to_read
    there = resolve(".transcripts/x.md", context)
    assert there.free_to_read
    assert there.protected


def test_home_is_expanded(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(work))
    assert resolve("~/src/main.py", context_in(work)).shown == "src/main.py"
    with pytest.raises(ToolError, match="nobody-of-this-name"):
        resolve("~nobody-of-this-name/x", context_in(work))


@pytest.mark.parametrize("argument", ["", "  ", "a\0b"])
def test_paths_that_are_none(work: Path, argument: str) -> None:
    with pytest.raises(ToolError):
        resolve(argument, context_in(work))


def test_links_in_a_circle_are_an_error_at_the_latest_when_opened(work: Path) -> None:
    (work / "a").symlink_to("b")
    (work / "b").symlink_to("a")
    with pytest.raises((ToolError, OSError), match=r"Symlink loop|Not a directory|symbolic link"):
        open_regular(resolve("a/x", context_in(work)).path)


def test_a_link_put_in_the_way_after_the_check_is_not_followed(work: Path) -> None:
    target = resolve("src/main.py", context_in(work))
    secret = work.parent / "app-secrets" / "main.py"
    secret.write_text("secret")
    os.close(open_regular(target.path))
    (work / "src" / "main.py").unlink()
    (work / "src").rmdir()
    (work / "src").symlink_to(secret.parent)
    with pytest.raises(OSError, match=r"Not a directory|symbolic link"):
        open_regular(target.path)
    with (
        pytest.raises(OSError, match=r"Not a directory|symbolic link"),
        open_folder(target.path.parent, create=True),
    ):
        pass


def test_a_final_link_put_in_place_after_the_check_is_not_followed(work: Path) -> None:
    target = resolve("src/main.py", context_in(work))
    target.path.unlink()
    target.path.symlink_to(work.parent / "app-secrets" / "key")
    with pytest.raises(OSError, match="no regular file"):
        open_regular(target.path)


def test_no_descriptor_is_left_open(work: Path) -> None:
    lowest = os.open(work, os.O_RDONLY)
    os.close(lowest)
    for name in ("src/main.py", "src", "none", "src/main.py/x"):
        try:
            os.close(open_regular(work / name))
        except OSError:
            continue
    again = os.open(work, os.O_RDONLY)
    os.close(again)
    assert again == lowest


def test_a_name_takes_one_line() -> None:
    assert printable("a\nb\x1b[31m\x7f\udcff") == "a\\nb\\x1b[31m\\x7f\ufffd"
