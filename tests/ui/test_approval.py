from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from agent.tools.base import Action, Decision
from agent.ui.approval import INTERRUPTED, TerminalApprover, action_lines, parse_answer
from agent.ui.render import EventPrinter
from tests.ui.screens import SEQUENCES, console, unexpected_controls
from tests.ui.scripted import DIFF

NO = Decision(allowed=False)


def action(detail: str, *, diff: str = "", kind: str = "execute", inside: bool = False) -> Action:
    return Action(
        kind="write" if kind == "write" else "execute",
        title="Do it",
        detail=detail,
        key=detail,
        inside=inside,
        diff=diff,
    )


@pytest.mark.parametrize(
    ("typed", "decision"),
    [
        ("y", Decision(allowed=True)),
        (" YES ", Decision(allowed=True)),
        ("a", Decision(allowed=True, always=True)),
        ("always", Decision(allowed=True, always=True)),
        ("", NO),
        ("   ", NO),
        ("n", None),
        ("No", None),
        ("yes please", Decision(allowed=False, reason="yes please")),
        ("use make instead", Decision(allowed=False, reason="use make instead")),
        ("ｙ", Decision(allowed=False, reason="ｙ")),
    ],
)
def test_only_a_clear_yes_allows(typed: str, decision: Decision | None) -> None:
    assert parse_answer(typed) == decision


class Person:
    """Answers questions from a list; an exception in it is raised."""

    def __init__(self, *answers: str | BaseException) -> None:
        self.answers = list(answers)
        self.interrupts = 0
        made, self.file = console(60, live=False)
        self.printer = EventPrinter(made)

    async def read_line(self, _: str) -> str:
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def interrupt(self) -> None:
        self.interrupts += 1

    @property
    def ask(self) -> Callable[[Action], Awaitable[Decision]]:
        return TerminalApprover(self.printer, self.read_line, self.interrupt)


async def test_a_no_may_have_a_reason() -> None:
    assert await Person("n", " not now ").ask(action("ls")) == Decision(
        allowed=False, reason="not now"
    )
    assert await Person("n", "").ask(action("ls")) == NO


async def test_leaving_the_question_is_no() -> None:
    person = Person(EOFError())
    assert await person.ask(action("ls")) == NO
    assert person.interrupts == 0


@pytest.mark.parametrize("before", [[], ["n"]])
async def test_ctrl_c_is_no_and_stops_the_turn(before: list[str]) -> None:
    person = Person(*before, KeyboardInterrupt())
    assert await person.ask(action("ls")) == Decision(allowed=False, reason=INTERRUPTED)
    assert person.interrupts == 1


async def test_the_whole_command_is_shown() -> None:
    command = "\n".join(["x" * 500, "rm -rf build", *[f"echo {n}" for n in range(200)]])
    person = Person("")
    await person.ask(action(command))
    lines = [line.removeprefix("│ ") for line in person.file.getvalue().split("\n")]
    assert lines == ["", "Do it", *command.split("\n"), ""]


def test_what_is_hidden_is_shown() -> None:
    lines = [line.plain for line in action_lines(action("ls \u202etxt.exe\u200b\r\x1b[2K"))]
    assert lines[1] == "│ ls \\u202etxt.exe\\u200b\\r\\x1b[2K"


def test_a_diff_is_shown_in_colours_and_once() -> None:
    lines = action_lines(action(DIFF, diff=DIFF, kind="write"))
    assert [line.plain for line in lines] == [
        "Do it (outside the working folder)",
        *(f"│ {line}" for line in DIFF.split("\n")[:3]),
        *("│ 1  same", "│ 2 -old", "│ 2 +new"),
    ]
    assert [str(lines[number].spans[-1].style) for number in (-2, -1)] == ["red", "green"]


@pytest.mark.parametrize("sequence", SEQUENCES)
async def test_no_sequence_comes_through(sequence: str) -> None:
    person = Person("")
    nasty = f"a{sequence}b"
    await person.ask(Action("write", nasty, nasty, "k", inside=True, diff=f"+{nasty}\n"))
    assert unexpected_controls(person.file.getvalue()) == set()
