"""The whole program in a real terminal: typed at, looked at, killed and resumed."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.support import Brain, environment
from tests.server.demo import demo_reply
from tests.server.replies import Reply, ToolUse
from tests.server.server import MessagesServer
from tests.ui.terminal import Chat

COLUMNS, LINES = 100, 30


@contextmanager
def terminal(
    server: MessagesServer,
    folder: Path,
    *arguments: str,
    prompt: str | None = None,
    **variables: str,
) -> Iterator[Chat]:
    """``agent chat`` in a pseudo-terminal, in a folder."""
    running = Chat(
        ["agent", "chat", *arguments, *([prompt] if prompt else [])],
        COLUMNS,
        LINES,
        environment(server, folder) | {"PYTHONUTF8": "1", **variables},
        folder,
    )
    try:
        yield running
    finally:
        running.close()


def say(chat: Chat, text: str, answer: str) -> None:
    """Type a line, and wait for something in the answer and for the next prompt."""
    chat.type(f"{text}\r")
    chat.wait_for(answer)
    chat.wait_for_prompt()


def test_chat_tools_approval_compaction_and_resume(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("alpha\nbeta\n")
    options = ("--max-input-tokens", "3000", "--keep-recent-turns", "2")
    with MessagesServer(script=demo_reply, window=12_000) as server:
        with terminal(server, tmp_path, *options) as chat:
            chat.wait_for_prompt()
            say(chat, "remember the port is 8123", "context")
            say(chat, "read notes.txt", "read_file notes.txt")
            chat.type("run touch made\r")
            chat.wait_for("y yes")
            assert not (tmp_path / "made").exists()
            chat.type("\r")
            chat.wait_for("said no")
            chat.wait_for_prompt()
            assert not (tmp_path / "made").exists()
            chat.type("run touch made\r")
            chat.wait_for_count("y yes", 2)
            chat.type("y\r")
            chat.wait_for_prompt()
            chat.wait_until((tmp_path / "made").exists, "the file")
            for _ in range(6):
                if "📦" in chat.picture:
                    break
                before = chat.picture.count("context")
                chat.type("long 400\r")
                chat.wait_for_count("context", before + 1)
                chat.wait_for_prompt()
            (folded,) = [line for line in chat.lines if line.startswith("📦")]
            assert re.search(r"folded \d+ turns · [\d.]+k -> [\d.]+k tokens · [\d.]+ s", folded)
            say(chat, "what did I say about port", "8123")
            chat.type("\x04")
            assert chat.exit_code() == 0
            (resume_line,) = [line for line in chat.lines if "agent chat --resume" in line]
            session_id = resume_line.split()[-1]
            assert b"\x1b[2J" not in chat.written
            assert b"\x1b[?1049h" not in chat.written
        with terminal(server, tmp_path, *options, "--resume", session_id) as chat:
            chat.wait_for("what did I say about port")
            chat.wait_for_prompt()
            say(chat, "/compact", "📦")
            say(chat, "what did I say about port", "8123")
        assert [r.error for r in server.messages_requests if r.status != 200] == []


def test_a_killed_terminal_is_resumed_where_it_was(tmp_path: Path) -> None:
    slow = Reply("Word by word by word. " * 300, delay=0.05)
    with MessagesServer(script=Brain([Reply("Noted."), slow])) as server:
        with terminal(server, tmp_path, prompt="remember 8123") as chat:
            chat.wait_for("Noted.")
            chat.wait_for_prompt()
            chat.type("tell me\r")
            chat.wait_for("Word by word")
            chat.read(2.5)
            chat.signal(signal.SIGKILL)
        server.script = Brain([Reply("Here again.")])
        with terminal(server, tmp_path, "-c") as chat:
            chat.wait_for("tell me")
            chat.wait_for_prompt()
            say(chat, "still there?", "Here again.")
        sent = str(server.messages_requests[-1].messages)
        assert "remember 8123" in sent
        assert "tell me" in sent
        assert sent.count("Word by word") > 2, "what was received up to the last second is kept"


def test_ctrl_c_stops_a_tool_and_its_children_at_once(tmp_path: Path) -> None:
    command = "sleep 47 & echo started; sleep 48"
    call = Reply(tool_uses=[ToolUse("shell", {"command": command})])
    with (
        MessagesServer(script=Brain([call, Reply("Understood.")])) as server,
        terminal(server, tmp_path, "--approval", "yolo") as chat,
    ):
        chat.wait_for_prompt()
        chat.type("run it\r")
        chat.wait_for("started")
        chat.type("\x03")
        assert chat.wait_for("interrupted") < 2.0
        assert chat.wait_for_prompt() < 1.0
        say(chat, "what happened?", "Understood.")
        assert "outcome unknown" in str(server.messages_requests[-1].messages)
        left = subprocess.run(["pgrep", "-f", "sleep 4[78]"], capture_output=True, check=False)
        assert left.stdout == b""


def test_typing_works_before_the_sdk_is_there(tmp_path: Path) -> None:
    with (
        MessagesServer(script=Brain([Reply("Quick.")])) as server,
        terminal(server, tmp_path) as chat,
    ):
        chat.wait_for_prompt()
        requests_before = len(server.requests)
        chat.type("hello at once")
        assert chat.wait_for("> hello at once") < 1.0
        assert requests_before == 0, "the prompt waited for the server"
        chat.type("\r")
        chat.wait_for("Quick.")


def test_other_sessions_are_listed_reset_and_resumed(tmp_path: Path) -> None:
    steps = [Reply("One."), Reply("Two."), Reply("Three.")]
    with (
        MessagesServer(script=Brain(steps)) as server,
        terminal(server, tmp_path) as chat,
    ):
        chat.wait_for_prompt()
        say(chat, "the first question", "One.")
        say(chat, "/reset", "/reset")
        say(chat, "the second question", "Two.")
        chat.type("/sessions\r")
        chat.wait_for_count("the first question", 2)
        chat.wait_for_prompt()
        say(chat, "/nonsense", "unknown command")
        assert len(server.messages_requests) == 2
        (log,) = [
            path
            for path in (tmp_path / ".transcripts").glob("*.jsonl")
            if b"the first question" in path.read_bytes()
        ]
        say(chat, f"/resume {log.stem}", "the first question")
        say(chat, "the third question", "Three.")
        assert len(server.messages_requests[-1].messages) == 3
