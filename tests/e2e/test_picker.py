"""Choosing a past session and reading one, in a real terminal."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent.transcript.store import Transcript
from tests.e2e.support import Brain, environment, save_turn, three_sessions
from tests.server.replies import Reply
from tests.server.server import MessagesServer
from tests.ui.terminal import Chat

HINT = "type to filter"
UP, DOWN, ESCAPE = "\x1b[A", "\x1b[B", "\x1b"


@pytest.fixture
def server() -> Iterator[MessagesServer]:
    with MessagesServer(script=Brain([Reply("Here again.")])) as running:
        yield running


@contextmanager
def agent(
    server: MessagesServer | None, folder: Path, *arguments: str, **extra: str
) -> Iterator[Chat]:
    """The program in a pseudo-terminal, in a folder."""
    variables = environment(server, folder) | {"PYTHONUTF8": "1"} | extra
    running = Chat(["agent", *arguments], 100, 24, variables, folder)
    try:
        yield running
    finally:
        running.close()


def test_the_list_has_the_columns_and_a_choice_leaves_one_line(
    tmp_path: Path, server: MessagesServer
) -> None:
    ids = three_sessions(tmp_path)
    with agent(server, tmp_path, "chat", "--resume") as chat:
        chat.wait_for(HINT)
        for number, session_id in enumerate(ids):
            (row,) = [line for line in chat.lines if session_id in line]
            turns = "2 turns" if number == 0 else "1 turn"
            words = row.split(session_id)[1].split("  ")
            assert [word.strip() for word in words if word.strip()][:3] == [
                "just now",
                turns,
                "1.2k tokens",
            ]
            assert row.endswith(f"B  question {2 - number}")
        chat.type(DOWN + DOWN + DOWN + UP)
        chat.read(0.3)
        chat.type("\r")
        chat.wait_for("Noted.")
        chat.wait_for_prompt()
        assert [line for line in chat.lines if any(i in line for i in ids)] == [f"resumed {ids[1]}"]
        assert not [line for line in chat.lines if HINT in line or "resume:" in line]
        chat.type("still there?\r")
        chat.wait_for("Here again.")
        assert "question 1" in str(server.messages_requests[-1].messages)
        for code in (b"\x1b[2J", b"\x1b[3J", b"\x1b[?1049h", b"\x1b[?47h"):
            assert code not in chat.written


def test_typing_filters_and_esc_stays(tmp_path: Path, server: MessagesServer) -> None:
    ids = three_sessions(tmp_path)
    with agent(server, tmp_path, "chat", "-c") as chat:
        chat.wait_for(f"resumed {ids[0]}")
        chat.wait_for_prompt()
        chat.type("/resume\r")
        chat.wait_for(HINT)
        assert not [line for line in chat.lines if f"  {ids[0]}" in line], "the open one"
        chat.type("QUESTION -0A")
        chat.wait_until(lambda: not any(ids[1] in line for line in chat.lines), "one row")
        assert any(ids[2] in line for line in chat.lines)
        chat.type("nothing like it")
        chat.wait_for("no session has these words")
        chat.type("\r")
        chat.read(0.2)
        chat.type(ESCAPE)
        chat.wait_for("no other session was chosen")
        chat.wait_for_prompt()
        assert HINT not in chat.picture
        chat.type("/resume\r")
        chat.wait_for(HINT)
        chat.type(f"{ids[2][-4:]}\r")
        chat.wait_for(f"resumed {ids[2]}")
        chat.wait_for_prompt()
        chat.type(f"/resume {ids[1][:-3]}\r")
        chat.wait_for(f"resumed {ids[1]}")
        for wrong, why in (("2026", "ambiguous"), ("nope", "/sessions in the chat")):
            chat.type(f"/resume {wrong}\r")
            chat.wait_for(why)
        assert HINT not in chat.picture


def test_leaving_the_list_at_the_start_resumes_nothing(
    tmp_path: Path, server: MessagesServer
) -> None:
    three_sessions(tmp_path)
    before = {path.name: path.read_bytes() for path in (tmp_path / ".transcripts").iterdir()}
    for key in (ESCAPE, "\x03"):
        with agent(server, tmp_path, "chat", "--resume") as chat:
            chat.wait_for(HINT)
            chat.type(key)
            assert chat.exit_code() == 130
            assert chat.lines == ["agent: no session was chosen"]
            assert not chat.is_quiet(), "the terminal is as it was"
    after = {path.name: path.read_bytes() for path in (tmp_path / ".transcripts").iterdir()}
    assert before == after


def test_a_single_session_needs_no_choice(tmp_path: Path, server: MessagesServer) -> None:
    ids = three_sessions(tmp_path)
    for session_id in ids[1:]:
        (tmp_path / ".transcripts" / f"{session_id}.jsonl").unlink()
    with agent(server, tmp_path, "chat", "--resume") as chat:
        chat.wait_for(f"resumed {ids[0]}")
        chat.wait_for_prompt()
        assert HINT.encode() not in chat.written


def test_many_sessions_scroll_within_the_list(tmp_path: Path, server: MessagesServer) -> None:
    (session_id, *_, oldest) = three_sessions(tmp_path)
    folder = tmp_path / ".transcripts"
    for number in range(40):
        shutil.copyfile(folder / f"{session_id}.jsonl", folder / f"copy-{number:02}.jsonl")
    with agent(server, tmp_path, "chat", "--resume") as chat:
        chat.wait_for(HINT)
        assert sum("turns" in line for line in chat.lines) == 12
        chat.resize(60, 8)
        chat.type(DOWN * 42)
        chat.wait_until(lambda: any(oldest in line for line in chat.lines), "the last row")


def test_a_dumb_terminal_is_asked_for_a_number(tmp_path: Path, server: MessagesServer) -> None:
    ids = three_sessions(tmp_path)
    with agent(server, tmp_path, "chat", "--resume", TERM="dumb") as chat:
        chat.wait_for("which one?")
        assert any(line.startswith(f"  2   {ids[1]}") for line in chat.lines)
        chat.type("4\r")
        chat.wait_for("a number from 1 to 3")
        chat.type("2\r")
        chat.wait_for(f"resumed {ids[1]}")
        # What shows the cursor comes from the library.
        asked = chat.written.split(b"resumed")[0].replace(b"\x1b[?12l\x1b[?25h", b"")
        assert b"\x1b" not in asked


MARKDOWN = "Some **bold** words.\n\n- one\n- two\n"


def long_session(folder: Path) -> str:
    """A session that fills several screens; its newest answer is Markdown."""
    (session_id, *_) = three_sessions(folder)
    transcript = Transcript.open(folder / ".transcripts", session_id, ".transcripts")
    save_turn(transcript, "many\nlines, *as typed*", "line\n\n" * 100)
    save_turn(transcript, "and now\x1b]0;title\x07?", MARKDOWN)
    transcript.close()
    return session_id


def test_show_draws_through_the_pager_of_ones_choice(tmp_path: Path) -> None:
    session_id = long_session(tmp_path)
    with agent(None, tmp_path, "show", session_id[:-2], PAGER="cat -u") as chat:
        assert chat.exit_code() == 0
        assert chat.lines[0] == f"Session {session_id}"
        assert "lines, *as typed*" in chat.lines
        assert "Some bold words." in chat.lines
        assert " • one" in chat.lines
        assert b"\x1b[1mbold" in chat.written
        assert b"\x1b]" not in chat.written
    for pager in ("", "no-such-program", "'"):
        with agent(None, tmp_path, "show", PAGER=pager) as chat:
            assert chat.exit_code() == 0
            assert "Some bold words." in chat.lines


@pytest.mark.skipif(shutil.which("less") is None, reason="there is no less here")
def test_less_is_left_early_and_deals_with_ctrl_c(tmp_path: Path) -> None:
    session_id = long_session(tmp_path)
    with agent(None, tmp_path, "show") as chat:
        chat.wait_for(f"Session {session_id}")
        chat.wait_until(lambda: chat.lines[-1].startswith(":"), "the pager's line")
        chat.type("\x03")
        chat.read(0.3)
        chat.type("G")
        chat.wait_for("Some bold words.")
        chat.type("q")
        assert chat.exit_code() == 0
        assert "Traceback" not in chat.picture


def test_raw_lines_are_harmless_on_a_terminal(tmp_path: Path) -> None:
    session_id = long_session(tmp_path)
    log = tmp_path / ".transcripts" / f"{session_id}.jsonl"
    with log.open("ab") as file:
        file.write(b"damaged \x1b[2J \xc2\x9b31m \xff line\n")
    with agent(None, tmp_path, "show", "--raw", PAGER="cat") as chat:
        assert chat.exit_code() == 0
        assert '{"v":1,"seq":1,' in chat.picture.replace("\n", "")
        assert r"damaged \x1b[2J \x9b31m \xff line" in chat.picture
        assert b"\x1b" not in chat.written
        assert b"\xc2\x9b" not in chat.written
