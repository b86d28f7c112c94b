"""AGENTS.md and CLAUDE.md: which are read, in what order, and what is left out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent.instruction_files import MOST_CHARS, Instructions, read_instructions


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A git repository with a folder in a folder."""
    root = tmp_path / "project"
    (root / "a" / "b").mkdir(parents=True)
    (root / ".git").mkdir()
    return root


def names(instructions: Instructions) -> list[str]:
    return [name for name, _ in instructions.sections]


def test_nothing_is_said_without_files(tmp_path: Path) -> None:
    found = read_instructions(tmp_path, tmp_path / "config")
    assert (found.text, found.notices) == ("", ())
    assert found.differences("Any prompt.") == []


def test_the_users_own_comes_first_then_from_the_root_to_the_folder(
    project: Path, tmp_path: Path
) -> None:
    own = tmp_path / "config"
    own.mkdir()
    (own / "AGENTS.md").write_text("Mine.\n")
    (tmp_path / "AGENTS.md").write_text("Above the repository.")
    (project / "CLAUDE.md").write_text("Root.")
    (project / "a" / "AGENTS.md").write_text("Middle.")
    (project / "a" / "CLAUDE.md").write_text("Not this one.")
    (project / "a" / "b" / "AGENTS.md").write_text("\ufeffNearest: 日本語.\n\n")
    found = read_instructions(project / "a" / "b", own)
    assert found.sections == (
        (str(own / "AGENTS.md"), "Mine."),
        ("../../CLAUDE.md", "Root."),
        ("../AGENTS.md", "Middle."),
        ("AGENTS.md", "Nearest: 日本語."),
    )
    assert found.notices == ()
    assert found.text.endswith("## AGENTS.md\n\nNearest: 日本語.")


def test_outside_a_repository_only_the_folder_itself_counts(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("Above.")
    (tmp_path / "here").mkdir()
    assert read_instructions(tmp_path / "here", tmp_path / "config").text == ""


def test_a_link_out_of_the_project_is_not_followed(project: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    (project / "AGENTS.md").symlink_to(secret)
    (project / "a" / "AGENTS.md").symlink_to(project / "a" / "CLAUDE.md")
    (project / "a" / "CLAUDE.md").write_text("Within.")
    found = read_instructions(project / "a", tmp_path / "config")
    assert found.sections == (("AGENTS.md", "Within."),)
    (notice,) = found.notices
    assert notice.startswith("../AGENTS.md is left out of the system prompt: it leads out of")


def test_a_file_that_is_there_twice_is_told_once(project: Path, tmp_path: Path) -> None:
    (project / "AGENTS.md").write_text("Once.")
    (project / "a" / "AGENTS.md").symlink_to(project / "AGENTS.md")
    assert read_instructions(project / "a", tmp_path / "config").text.count("Once.") == 1


def test_the_users_own_may_be_a_link(tmp_path: Path) -> None:
    own = tmp_path / "config"
    own.mkdir()
    (tmp_path / "dotfiles.md").write_text("Mine.")
    (own / "AGENTS.md").symlink_to(tmp_path / "dotfiles.md")
    assert "Mine." in read_instructions(tmp_path, own).text


def test_what_cannot_be_read_is_a_notice(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_bytes(b"caf\xe9")
    found = read_instructions(tmp_path, tmp_path / "config")
    assert found.sections == ()
    assert found.notices == ("AGENTS.md is left out of the system prompt: it is not UTF-8 text",)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "AGENTS.md")
    (tmp_path / "CLAUDE.md").write_text("A file.")
    assert names(read_instructions(tmp_path, tmp_path / "config")) == ["CLAUDE.md"]


def test_a_worktree_is_a_project_too(project: Path, tmp_path: Path) -> None:
    (project / ".git").rmdir()
    (project / ".git").write_text("gitdir: elsewhere")
    (project / "AGENTS.md").write_text("Root.")
    assert names(read_instructions(project / "a", tmp_path / "config")) == ["../AGENTS.md"]


def test_all_files_together_are_capped_the_nearest_ones_last(project: Path, tmp_path: Path) -> None:
    (project / "AGENTS.md").write_text("r" * 9_000)
    (project / "a" / "AGENTS.md").write_text("n" * (MOST_CHARS - 4_000))
    found = read_instructions(project / "a", tmp_path / "config")
    (_, root), (_, nearest) = found.sections
    assert nearest == "n" * (MOST_CHARS - 4_000)
    assert root == "r" * 4_000 + "\n[cut here; the file is longer]"
    (notice,) = found.notices
    assert notice.startswith("../AGENTS.md is too long: 4,000 characters")


def test_differences_name_the_files(project: Path, tmp_path: Path) -> None:
    (project / "AGENTS.md").write_text("Old.")
    (project / "a" / "AGENTS.md").write_text("Same.")
    before = read_instructions(project / "a", tmp_path / "config")
    system = f"You are helpful.\n\n{before.text}"
    assert before.differences(system) == []
    (project / "AGENTS.md").write_text("New.")
    after = read_instructions(project / "a", tmp_path / "config")
    assert after.differences(system) == ["../AGENTS.md"]
    assert before.differences("You are helpful.") == ["../AGENTS.md", "AGENTS.md"]
    (project / "a" / "AGENTS.md").unlink()
    (project / "AGENTS.md").write_text("Old.")
    gone = read_instructions(project / "a", tmp_path / "config")
    assert gone.differences(system) == ["a file of standing instructions"]
