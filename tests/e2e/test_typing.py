"""What a person types: in the box, and while something runs. At 80x24."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.support import Brain, environment
from tests.e2e.test_terminal import say
from tests.server.replies import Reply, ToolUse
from tests.server.server import MessagesServer
from tests.ui.terminal import Chat

PASTE_ON, PASTE_OFF = "\x1b[200~", "\x1b[201~"
LINES = "\n".join(f"line {number}" for number in range(214))
SLOW = Reply("Word by word. " * 600, delay=0.02)
ALL_APPROVED = ("--approval", "yolo")


def shell(command: str) -> Reply:
    """An answer that calls the shell."""
    return Reply(tool_uses=[ToolUse("shell", {"command": command})])


@contextmanager
def terminal(
    server: MessagesServer, folder: Path, *arguments: str, settings: str = "", **variables: str
) -> Iterator[Chat]:
    """The chat in a pseudo-terminal of 80x24, at its prompt."""
    (folder / "config.toml").write_text(settings)
    running = Chat(
        ["agent", "chat", "--config", "config.toml", *arguments],
        80,
        24,
        environment(server, folder) | {"PYTHONUTF8": "1", **variables},
        folder,
    )
    try:
        running.wait_for_prompt()
        yield running
    finally:
        running.close()


def sent(server: MessagesServer, number: int = -1) -> list[str]:
    """The texts of the last message of a request."""
    content = server.messages_requests[number].messages[-1]["content"]
    return [block["text"] for block in content if block["type"] == "text"]


def wait_for_requests(chat: Chat, server: MessagesServer, count: int) -> None:
    """Wait until so many requests have come."""
    chat.wait_until(lambda: len(server.messages_requests) >= count, f"request {count}")


def test_a_long_paste_is_a_few_words_in_the_box_and_sent_whole(tmp_path: Path) -> None:
    with (
        MessagesServer(script=Brain([Reply("Read."), Reply("Back.")])) as server,
        terminal(server, tmp_path) as chat,
    ):
        chat.type(f"see {PASTE_ON}{LINES}{PASTE_OFF} and ")
        chat.wait_for("> see [pasted 214 lines] and")
        assert chat.cursor_column == len("> see [pasted 214 lines] and ")
        chat.type(f"{PASTE_ON}{'x' * 1_001}{PASTE_OFF}.")
        chat.wait_for("> see [pasted 214 lines] and [pasted 1,001 characters].")
        # Over both pastes to the left, before the first; then one of them away and back.
        chat.type("\x1b[D" * 9 + "!")
        chat.wait_for("> see! [pasted 214 lines] and")
        chat.type("\x1b[C" * 2 + "\x7f")
        chat.wait_for("> see!  and [pasted")
        chat.type("\x1f")
        chat.wait_for("> see! [pasted 214 lines] and")
        say(chat, "", "Read.")
        assert sent(server) == [f"see! {LINES} and {'x' * 1_001}."]
        assert "line 100" not in chat.picture
        chat.type("/rewind\r")
        chat.wait_for("line 213 and")
        chat.type("\r")
        chat.wait_for("Back.")
        assert sent(server) == [f"see! {LINES} and {'x' * 1_001}."]
        chat.wait_for_prompt()
        history = next(tmp_path.rglob("history")).read_text()
        assert "[pasted" not in history
        assert history.count("line 100\n") == 2


def test_a_short_paste_stands_in_the_box_as_it_is(tmp_path: Path) -> None:
    text = "\n".join("abc" for _ in range(15))
    with (
        MessagesServer(script=Brain([Reply("Read.")])) as server,
        terminal(server, tmp_path) as chat,
    ):
        chat.type(f"{PASTE_ON}{text}{PASTE_OFF}")
        chat.wait_for_count("abc", 15)
        say(chat, "", "Read.")
        assert sent(server) == [text]


def test_the_editor_changes_the_whole_text(tmp_path: Path) -> None:
    editor = tmp_path / "editor.py"
    editor.write_text(
        "import sys, pathlib\n"
        "file = pathlib.Path(sys.argv[1])\n"
        "assert file.suffix == '.md'\n"
        "file.write_text(file.read_text().replace('line 7\\n', 'LINE SEVEN\\n') + '\\n\\x07ends')\n"
    )
    with (
        MessagesServer(script=Brain([Reply("Read.")])) as server,
        terminal(
            server, tmp_path, VISUAL=shlex.join([sys.executable, str(editor)]), EDITOR="false"
        ) as chat,
    ):
        chat.type(f"{PASTE_ON}{LINES}{PASTE_OFF}")
        chat.wait_for("[pasted 214 lines]")
        chat.type("\x07")
        chat.wait_for("ends")
        say(chat, "", "Read.")
        assert sent(server) == [LINES.replace("line 7\n", "LINE SEVEN\n") + "\nends"]


def test_ctrl_r_finds_what_was_typed_before(tmp_path: Path) -> None:
    steps = [Reply("One."), Reply("Two."), Reply("Three.")]
    with (
        MessagesServer(script=Brain(steps)) as server,
        terminal(server, tmp_path) as chat,
    ):
        say(chat, "the walnut question", "One.")
        say(chat, "another", "Two.")
        chat.type("\x12walnut")
        chat.wait_for("walnut")
        chat.type("\x03")
        chat.wait_for_prompt()
        chat.type("\x12walnut\r")
        chat.wait_until(lambda: chat.lines[-1] == "> the walnut question", "what was found")
        chat.type("\r")
        chat.wait_for("Three.")
        assert sent(server) == ["the walnut question"]


def test_vi_keys_by_a_setting(tmp_path: Path) -> None:
    with (
        MessagesServer(script=Brain([Reply("Read.")])) as server,
        terminal(server, tmp_path, settings="vi_mode = true") as chat,
    ):
        chat.type("one two")
        chat.wait_for("> one two")
        chat.type("\x1b")
        chat.read(0.5)
        chat.type("0x")
        chat.wait_for("> ne two")
        say(chat, "", "Read.")
        assert sent(server) == ["ne two"]


def test_paths_are_found_by_some_letters_but_not_what_git_ignores(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "my notes.txt").write_text("walnuts\n")
    (tmp_path / "source" / "my notes.log").touch()
    (tmp_path / ".gitignore").write_text("*.log\n")
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    with (
        MessagesServer(script=Brain([Reply("Read.")])) as server,
        terminal(server, tmp_path) as chat,
    ):
        chat.type("see @mynotes")
        chat.wait_for("source/my notes.txt")
        assert "my notes.log" not in chat.picture
        chat.type("\t")
        chat.wait_for('> see @"source/my notes.txt"')
        say(chat, " ", "Read.")
        words, attached = sent(server)
        assert words.strip() == 'see @"source/my notes.txt"'
        assert "walnuts" in attached


def test_a_command_of_ones_own(tmp_path: Path) -> None:
    with (
        MessagesServer(script=Brain([Reply("I see.")])) as server,
        terminal(server, tmp_path) as chat,
    ):
        chat.type("!for n in 1 2; do echo out $n; sleep 0.3; done; printf '\\033[2Jend'\r")
        chat.wait_until(lambda: "out 1" in chat.lines and "out 2" not in chat.lines, "a stream")
        chat.wait_for("[exit code 0] · goes with your next message")
        assert "end" in chat.lines
        assert b"\x1b[2J" not in chat.written
        chat.wait_for_prompt()
        chat.type("!!echo just shown\r")
        chat.wait_until(lambda: "just shown" in chat.lines, "the output")
        chat.wait_for_prompt()
        say(chat, "what is it?", "I see.")
        words, output = sent(server)
        assert words == "what is it?"
        assert output.startswith("[I ran: for n in")
        assert "out 1\nout 2\n" in output
        assert len(server.messages_requests) == 1


@pytest.mark.parametrize("key", ["\x03", "\x1b"])
def test_a_command_of_ones_own_is_stopped_with_its_children(tmp_path: Path, key: str) -> None:
    with (
        MessagesServer(script=Brain([Reply("Stopped.")])) as server,
        terminal(server, tmp_path) as chat,
    ):
        chat.type("!sleep 57 & echo begun; sleep 58\r")
        chat.wait_until(lambda: "begun" in chat.lines, "the output")
        chat.type(key)
        assert chat.wait_for("interrupted") < 1.0
        chat.wait_for_prompt()
        left = subprocess.run(["pgrep", "-f", "^sleep 5[78]$"], capture_output=True, check=False)
        assert left.stdout == b""
        say(chat, "why?", "Stopped.")
        assert "begun\n[stopped by the user]" in sent(server)[1]


def test_text_typed_during_a_turn_is_edited_queued_and_sent_at_its_end(tmp_path: Path) -> None:
    slow = Reply("Word by word. " * 60, delay=0.05)
    with (
        MessagesServer(script=Brain([slow, Reply("Both.")])) as server,
        terminal(server, tmp_path) as chat,
    ):
        chat.type("tell me\r")
        chat.wait_for("Word by word")
        chat.type("日本語x")
        chat.wait_until(lambda: chat.lines[-1] == "> 日本語x", "the text")
        assert chat.cursor_column == 2 + 6 + 1
        chat.type("\x7f\x15wrong\x17")
        chat.type(f"{PASTE_ON}one\ntwo{PASTE_OFF}")
        chat.wait_until(lambda: chat.lines[-1] == "> one↵two", "the text")
        chat.type("\r")
        chat.wait_until(lambda: chat.lines[-1] == "  queued: one↵two", "the queue")
        chat.type(f"{PASTE_ON}{LINES}{PASTE_OFF}\r")
        chat.wait_until(lambda: chat.lines[-1] == "  queued: [pasted 214 lines]", "the queue")
        chat.type("not sent")
        chat.wait_for("Both.")
        chat.wait_until(lambda: chat.lines[-1] == "> not sent", "the text in the box")
        assert sent(server) == [f"one\ntwo\n\n{LINES}"]
        assert "queued" not in chat.picture
        at = chat.lines.index("> one")
        assert chat.lines[at : at + 4] == ["> one", "  two", "", "  [pasted 214 lines]"]
        assert chat.picture.count("Word by word") > 5


def test_queued_text_goes_out_at_the_next_step(tmp_path: Path) -> None:
    steps = [shell("sleep 1; echo done"), Reply("Rather this.")]
    with (
        MessagesServer(script=Brain(steps)) as server,
        terminal(server, tmp_path, *ALL_APPROVED) as chat,
    ):
        chat.type("run it\r")
        chat.wait_for("● shell")
        chat.type("do another thing\r")
        chat.wait_for("queued: do another thing")
        chat.wait_for("Rather this.")
        chat.wait_for_prompt()
        assert [request.status for request in server.messages_requests] == [200, 200]
        assert sent(server) == ["do another thing"]
        assert "done" in str(server.messages_requests[-1].messages)


@pytest.mark.parametrize("key", ["/exit\r", "\x04"])
def test_leaving_waits_for_the_end_of_the_turn(tmp_path: Path, key: str) -> None:
    steps = [shell("sleep 0.7"), Reply("The end.")]
    with (
        MessagesServer(script=Brain(steps)) as server,
        terminal(server, tmp_path, *ALL_APPROVED) as chat,
    ):
        chat.type("run it\r")
        chat.wait_for("● shell")
        chat.type(key)
        chat.wait_for("queued: /exit")
        assert chat.exit_code() == 0
        assert "The end." in chat.picture


@pytest.mark.parametrize("key", ["\x03", "\x1b"])
def test_stopping_a_turn_puts_what_waits_back_into_the_box(tmp_path: Path, key: str) -> None:
    with (
        MessagesServer(script=Brain([SLOW, Reply("Together.")])) as server,
        terminal(server, tmp_path) as chat,
    ):
        chat.type("tell me\r")
        chat.wait_for("Word by word")
        chat.type("first\rsecond\rthird")
        chat.wait_until(lambda: chat.lines[-1] == "> third", "the text")
        chat.type(key)
        assert chat.wait_for("interrupted") < 0.5
        chat.wait_until(lambda: chat.lines[-1] == "  third", "the text in the box")
        assert chat.lines[-5:] == ["> first", "", "  second", "", "  third"]
        say(chat, "", "Together.")
        assert sent(server) == ["first\n\nsecond\n\nthird"]


def test_a_turn_that_fails_sends_nothing_by_itself(tmp_path: Path) -> None:
    steps = [shell("sleep 0.7"), Reply("Never."), Reply("Asked.")]
    with (
        MessagesServer(script=Brain(steps)) as server,
        terminal(server, tmp_path, *ALL_APPROVED, "--max-requests", "1") as chat,
    ):
        chat.type("run it\r")
        chat.wait_for("● shell")
        chat.type("/context\rlater\r")
        chat.wait_for("queued: later")
        chat.wait_for("error: stopped after 1 requests")
        chat.wait_until(lambda: chat.lines[-1] == "  later", "the text in the box")
        assert len(server.messages_requests) == 1


def test_keys_typed_before_a_question_do_not_answer_it(tmp_path: Path) -> None:
    steps = [Reply("Thinking it over. " * 5, tool_uses=shell("touch made").tool_uses, delay=0.05)]
    with (
        MessagesServer(script=Brain([*steps, Reply("I will not.")])) as server,
        terminal(server, tmp_path) as chat,
    ):
        chat.type("make it\r")
        chat.wait_for("Thinking")
        chat.type("y\r")
        chat.wait_for("y yes · a always")
        chat.read(0.5)
        assert not (tmp_path / "made").exists()
        chat.type("n\r")
        chat.wait_for("why not?")
        chat.type("\r")
        wait_for_requests(chat, server, 2)
        assert sent(server) == ["y"]
        assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
@pytest.mark.parametrize("where", ["prompt", "answer", "command", "question"])
def test_the_terminal_is_sane_after_every_signal(
    tmp_path: Path, number: signal.Signals, where: str
) -> None:
    script = Brain([shell("true") if where == "question" else SLOW])
    with MessagesServer(script=script) as server, terminal(server, tmp_path) as chat:
        if where == "answer":
            chat.type("tell me\r")
            chat.wait_for("Word by word")
        elif where == "command":
            chat.type("!echo begun; sleep 57\r")
            chat.wait_until(lambda: "begun" in chat.lines, "the output")
        elif where == "question":
            chat.type("run\r")
            chat.wait_for("y yes")
        chat.type("half typed")
        chat.wait_for("half typed")
        assert chat.is_quiet()
        chat.signal(number)
        assert chat.exit_code() == 128 + number
        assert not chat.is_quiet()
        assert chat.written.rfind(b"\x1b[?2004l") > chat.written.rfind(b"\x1b[?2004h")
        assert chat.written.rfind(b"\x1b[?25l") < max(chat.written.rfind(b"\x1b[?25h"), 1)
