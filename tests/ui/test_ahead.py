"""What is typed ahead, long pastes, and the finder of files, without a terminal."""

from __future__ import annotations

import subprocess
import threading
import time
from pathlib import Path

import pytest
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.layout import BufferControl
from prompt_toolkit.layout.processors import TransformationInput
from prompt_toolkit.output import DummyOutput

from agent.ui.ahead import TypedAhead
from agent.ui.commands import ShellLine, parse_shell
from agent.ui.files import FileFinder
from agent.ui.keys import prompt_keys
from agent.ui.pastes import Pastes


def after(*keys: str, pastes: Pastes | None = None) -> TypedAhead:
    """What is there once these keys were pressed, each text in one go."""
    prompt_keys(Pastes())  # makes the two encodings of Shift-Enter known
    with create_pipe_input() as terminal:
        ahead = TypedAhead(terminal, DummyOutput(), pastes or Pastes())
        for text in keys:
            pressed: list[KeyPress] = []
            parser = Vt100Parser(pressed.append)
            parser.feed(text)
            parser.flush()
            store_typeahead(terminal, pressed)
            ahead.catch_up()
        return ahead


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ("abc\x7f\x7f", "a"),
        ("one two\x17", "one "),
        ("one\x15two", "two"),
        ("one\ntwo\x15", "one\n"),
        ("one\\\rtwo", "one\ntwo"),
        ("one\x1b\rtwo", "one\ntwo"),
        ("one\x1b[13;2utwo", "one\ntwo"),
        ("one\x1b[27;2;13~two", "one\ntwo"),
        ("a\x1b[D\x1b[Hb\x1bxc", "abc"),
        ("\x1b[200~x\x1b[31m\r\ny\x1b[201~", "x\ny"),
        ("sent\r\x1b[A!", "sent!"),
        ("\r \r", " "),
    ],
)
def test_a_text_is_edited_at_its_end(keys: str, text: str) -> None:
    ahead = after(keys)
    assert ahead.next() is None
    assert ahead.take_text() == text
    assert ahead.take_text() == ""


def test_texts_go_out_together_and_commands_one_by_one() -> None:
    ahead = after("one\rtwo\r/context\r!ls\rthree\rrest")
    assert ahead.wants_a_turn()
    assert [ahead.next() for _ in range(5)] == ["one\n\ntwo", "/context", "!ls", "three", None]
    assert not ahead.wants_a_turn()
    assert ahead.take_text() == "rest"


def test_what_waits_comes_back_in_its_order() -> None:
    ahead = after("one\r/context\rrest")
    ahead.hold()
    assert ahead.next() is None
    assert ahead.take_text() == "one\n\n/context\n\nrest"


def test_the_end_of_a_long_text_is_in_sight() -> None:
    (line,) = after("日本" * 30).lines(20)
    assert line[1].text == "本" + "日本" * 4
    assert sum(segment.cell_length for segment in line) <= 20


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("!ls -l", ShellLine("ls -l", attach=True)),
        ("!! ls", ShellLine("ls", attach=False)),
        (" !a\nb ", ShellLine("a\nb", attach=True)),
        ("!", None),
        ("!!", None),
        ("!!! stop", None),
        ("no !ls", None),
    ],
)
def test_which_text_is_a_command_for_the_shell(text: str, line: ShellLine | None) -> None:
    assert parse_shell(text) == line


def test_the_caret_and_a_folded_paste() -> None:
    pastes = Pastes()
    mark = pastes.folded("x\n" * 16)
    text = f"a{mark}b"
    shown = pastes.apply_transformation(
        TransformationInput(
            BufferControl(Buffer()), Document(text), 0, lambda at: at, [("", text)], 80, 24
        )
    )
    label = "[pasted 16 lines]"
    assert "".join(fragment[1] for fragment in shown.fragments) == f"a{label}b"
    columns = [0, 1, 1 + len(label), 2 + len(label), 3 + len(label)]
    assert [shown.source_to_display(at) for at in range(5)] == columns
    assert [shown.display_to_source(at) for at in columns] == [0, 1, 2, 3, 4]
    assert shown.display_to_source(5) == 1


def test_the_same_paste_twice_and_one_that_holds_a_mark() -> None:
    pastes = Pastes()
    long = "y" * 1_001
    first, second = pastes.folded(long), pastes.folded(long)
    about = pastes.folded(f"see {first}")
    assert len({first, second, about}) == 3
    assert pastes.whole(first + second) == long * 2
    assert pastes.whole(about) == f"see {first}"
    assert pastes.folded("y" * 1_000) == "y" * 1_000


def test_a_hundred_thousand_files_leave_room_for_the_keys(tmp_path: Path) -> None:
    names = [f"package{n % 40}/module{n // 100}/file_{n}.py" for n in range(100_000)]
    index = "".join(f"100644 e69de29bb2d1d6434b8b29ae775ad8c2e48c5391\t{name}\n" for name in names)
    git = ["git", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "update-index", "--index-info"], input=index, text=True, check=True)
    (tmp_path / names[77_777]).parent.mkdir(parents=True)
    (tmp_path / names[77_777]).touch()
    finder = FileFinder(tmp_path)
    finder.find("", 1)
    deadline = time.monotonic() + 20
    while not finder.find("f77777", 5) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert finder.find("p17F77777", 5) == [names[77_777]]
    over = threading.Event()

    def search() -> None:
        while not over.is_set():
            finder.find("file", 50)

    searching = threading.Thread(target=search)
    searching.start()
    late = []
    for _ in range(100):
        started = time.perf_counter()
        time.sleep(0.005)
        late.append(time.perf_counter() - started - 0.005)
    over.set()
    searching.join()
    assert sorted(late)[50] < 0.025


def test_a_list_that_is_old_is_made_anew_without_a_wait(tmp_path: Path) -> None:
    now = [0.0]
    finder = FileFinder(tmp_path, clock=lambda: now[0])
    (tmp_path / "first.txt").touch()
    assert finder.find("txt", 5) == ["first.txt"]
    (tmp_path / "second.txt").touch()
    assert finder.find("txt", 5) == ["first.txt"]
    now[0] = 60.0
    deadline = time.monotonic() + 10
    while len(finder.find("txt", 5)) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert finder.find("txt", 5) == ["first.txt", "second.txt"]
    (tmp_path / "first.txt").unlink()
    assert finder.find("txt", 5) == ["second.txt"], "what is gone is not offered"
