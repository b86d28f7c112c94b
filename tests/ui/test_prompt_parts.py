from __future__ import annotations

import stat
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from agent.ui.completion import PromptCompleter, may_complete
from agent.ui.prompt_history import PromptHistory


def completed(root: Path, text: str) -> list[str]:
    """The texts that the completions of what is typed would make."""
    completer = PromptCompleter(root)
    document = Document(text)
    results = completer.get_completions(document, CompleteEvent())
    return [text[: len(text) + item.start_position] + item.text for item in results]


def test_commands_are_completed_at_the_start_only(tmp_path: Path) -> None:
    assert completed(tmp_path, "/re") == ["/resume", "/rewind", "/reset"]
    assert "/help" in completed(tmp_path, "/")
    assert completed(tmp_path, "say /re") == []
    assert completed(tmp_path, "/resume ") == []


def test_paths_are_completed_after_an_at_sign(tmp_path: Path) -> None:
    (tmp_path / "src" / "deep").mkdir(parents=True)
    (tmp_path / "src" / "main.py").touch()
    (tmp_path / ".hidden").touch()
    (tmp_path / "odd\x1bname").touch()
    (tmp_path / "two words").touch()
    (tmp_path / "src" / "deep" / "data.txt").touch()
    assert completed(tmp_path, "see @") == ["see @src/", 'see @"two words"', "see @.hidden"]
    assert completed(tmp_path, "see @src/")[:3] == [
        "see @src/",
        "see @src/deep/",
        "see @src/main.py",
    ]
    assert completed(tmp_path, "@src/m") == ["@src/main.py"]
    assert completed(tmp_path, "@MPY") == ["@src/main.py"], "letters in this order, in any case"
    assert completed(tmp_path, "@.h") == ["@.hidden"]
    assert completed(tmp_path, '@"two w') == ['@"two words"']
    assert completed(tmp_path, "mail me@src") == []
    assert completed(tmp_path, "@no/such/folder/") == []
    assert completed(tmp_path, f"@{tmp_path}/s") == [f"@{tmp_path}/src/"]


@pytest.mark.parametrize(
    ("text", "yes"),
    [("/he", True), ("a @b", True), ("plain", False), ("a/b", False), ("a@b", False), ("", False)],
)
def test_when_a_menu_may_open(text: str, yes: bool) -> None:
    assert may_complete(text) == yes


def test_history_is_kept_for_the_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "state" / "agent-chat" / "history"
    history = PromptHistory(path)
    history.store_string("first")
    history.store_string("second\nline")
    assert list(PromptHistory(path).load_history_strings()) == ["second\nline", "first"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    path.chmod(0o644)
    PromptHistory(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_history_that_cannot_be_kept_is_told_and_no_more(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    history = PromptHistory(tmp_path / "file" / "history")
    history.store_string("text")
    assert list(history.load_history_strings()) == []
    assert "not kept" in history.problem
