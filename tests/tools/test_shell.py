from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from agent.errors import ToolError
from agent.tools.base import ToolOutcome
from agent.tools.process import Finished
from agent.tools.shell import Shell, ending
from tests.tools.support import context_in, run_tool


async def shell(cwd: Path, command: str, **arguments: object) -> ToolOutcome:
    return await run_tool(Shell(), context_in(cwd), command=command, **arguments)


def is_running(pid: int) -> bool:
    """Whether a process is there and has not ended."""
    listed = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], check=False, capture_output=True, text=True
    )
    return bool(listed.stdout.strip()) and not listed.stdout.strip().startswith("Z")


async def eventually(condition: Callable[[], bool]) -> None:
    for _ in range(500):
        if condition():
            return
        await asyncio.sleep(0.01)
    pytest.fail("it did not happen within five seconds")


async def test_output_of_both_streams_then_the_exit_code(tmp_path: Path) -> None:
    outcome = await shell(tmp_path, "echo out; echo err >&2; printf end; exit 3")
    assert outcome.content == "out\nerr\nend\n[exit code 3]"
    assert not outcome.is_error


async def test_silence_has_an_exit_code_too(tmp_path: Path) -> None:
    assert (await shell(tmp_path, "true")).content == "[exit code 0]"


async def test_it_runs_in_the_working_folder_with_bash(tmp_path: Path) -> None:
    (tmp_path / "mark").touch()
    outcome = await shell(tmp_path, '[[ -e mark ]] && echo "${BASH_VERSION:+bash}"')
    assert outcome.content == "bash\n[exit code 0]"


async def test_input_is_empty_and_there_is_no_terminal(tmp_path: Path) -> None:
    outcome = await shell(tmp_path, "cat; tty; (: < /dev/tty) 2>/dev/null || echo none")
    assert outcome.content == "not a tty\nnone\n[exit code 0]"


async def test_the_environment_has_no_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "startup").write_text("echo startup file was run\n")
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "AGENT_BASE_URL"):
        monkeypatch.setenv(name, "secret-value")
    monkeypatch.setenv("BASH_ENV", str(tmp_path / "startup"))
    outcome = await shell(tmp_path, "env")
    assert "secret-value" not in outcome.content
    assert "startup" not in outcome.content
    for line in ("PAGER=cat", "GIT_PAGER=cat", "TERM=dumb", "NO_COLOR=1"):
        assert f"{line}\n" in outcome.content


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("-x", "-x: command not found"),
        ("echo 'a\nb'", "a\nb\n"),
        ("echo é漢 $'\\xff' | cat", "é漢 \ufffd\n"),
        ("printf 'a\\0b'", "a\ufffdb\n"),
    ],
)
async def test_commands_come_through_as_they_are(tmp_path: Path, command: str, output: str) -> None:
    assert output in (await shell(tmp_path, command)).content


async def test_output_is_emitted_as_it_comes(tmp_path: Path) -> None:
    pieces: list[tuple[float, str]] = []
    context = context_in(tmp_path, emit=lambda text: pieces.append((time.monotonic(), text)))
    await run_tool(Shell(), context, command="echo one; sleep 0.3; echo two")
    assert [text for _, text in pieces] == ["one\n", "two\n"]
    assert pieces[1][0] - pieces[0][0] > 0.2


async def test_a_character_cut_in_two_by_the_pipe_is_one_character(tmp_path: Path) -> None:
    pieces: list[str] = []
    context = context_in(tmp_path, emit=pieces.append)
    command = r"printf '\xe6\xbc'; sleep 0.1; printf '\xa2'"
    outcome = await run_tool(Shell(), context, command=command)
    assert "".join(pieces) == "漢"
    assert outcome.content.startswith("漢\n")


async def test_time_is_limited(tmp_path: Path) -> None:
    started = time.monotonic()
    outcome = await shell(tmp_path, "echo $$; sleep 30 & sleep 30", timeout=0.3)
    assert time.monotonic() - started < 2
    assert outcome.is_error
    assert outcome.content.endswith("\n[stopped: not finished after 0.3 seconds]")
    assert not is_running(int(outcome.content.split("\n")[0]))


async def test_what_ignores_the_request_to_end_is_killed(tmp_path: Path) -> None:
    started = time.monotonic()
    outcome = await shell(tmp_path, "trap '' TERM; echo $$; while :; do sleep 0.1; done", timeout=1)
    assert 2.5 < time.monotonic() - started < 5
    assert outcome.is_error
    assert not is_running(int(outcome.content.split("\n")[0]))


async def test_a_program_may_clean_up_when_time_is_up(tmp_path: Path) -> None:
    await shell(tmp_path, "trap 'echo x > cleaned; exit' TERM; sleep 30 & wait", timeout=0.5)
    assert (tmp_path / "cleaned").exists()


@pytest.mark.parametrize("redirection", ["", ">/dev/null 2>&1"])
async def test_background_children_do_not_hold_the_call_and_are_ended(
    tmp_path: Path, redirection: str
) -> None:
    started = time.monotonic()
    outcome = await shell(tmp_path, f"sleep 60 {redirection} & echo $!")
    assert time.monotonic() - started < 2
    pid, *ends = outcome.content.split("\n")
    assert ends == ["[processes left running in the background were ended]", "[exit code 0]"]
    assert not is_running(int(pid))
    assert not outcome.is_error


async def test_a_process_that_has_left_the_group_does_not_hold_the_call(tmp_path: Path) -> None:
    detach = "import os, time; os.setsid(); print('away', flush=True); time.sleep(3)"
    started = time.monotonic()
    outcome = await shell(tmp_path, f'{sys.executable} -c "{detach}" & sleep 0.5; echo done')
    assert time.monotonic() - started < 2.5
    assert "done\n" in outcome.content


async def test_a_program_that_closes_its_output_is_waited_for(tmp_path: Path) -> None:
    outcome = await shell(tmp_path, "exec >&- 2>&-; sleep 0.3; exit 4")
    assert outcome.content == "[exit code 4]"


@pytest.mark.parametrize("stubborn", [False, True])
async def test_cancelling_ends_the_whole_group_within_half_a_second(
    tmp_path: Path, stubborn: bool
) -> None:
    trap = "trap '' TERM; " if stubborn else ""
    command = f"{trap}echo $$ > pids; sleep 60 & echo $! >> pids; touch ready; wait; sleep 60"
    call = asyncio.create_task(shell(tmp_path, command))
    await eventually((tmp_path / "ready").exists)
    started = time.monotonic()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert time.monotonic() - started < 0.5
    for pid in (tmp_path / "pids").read_text().split():
        assert not is_running(int(pid))


async def test_cancelling_twice_leaves_nothing_either(tmp_path: Path) -> None:
    command = "trap '' TERM; echo $$ > pids; touch ready; while :; do sleep 0.1; done"
    call = asyncio.create_task(shell(tmp_path, command))
    await eventually((tmp_path / "ready").exists)
    call.cancel()
    await asyncio.sleep(0.05)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    pid = int((tmp_path / "pids").read_text())
    await eventually(lambda: not is_running(pid))


async def test_an_endless_output_is_bounded_and_stopped(tmp_path: Path) -> None:
    outcome = await shell(tmp_path, "yes", timeout=0.5)
    assert len(outcome.content) < 5_000_200
    assert re.search(
        r"\n\[\.\.\. [\d,]+ characters of output were not kept \.\.\.\]\n", outcome.content
    )


async def test_calls_side_by_side(tmp_path: Path) -> None:
    started = time.monotonic()
    outcomes = await asyncio.gather(*(shell(tmp_path, f"sleep 0.3; echo {n}") for n in range(4)))
    assert [outcome.content[0] for outcome in outcomes] == list("0123")
    assert time.monotonic() - started < 1.1


async def test_death_by_a_signal_is_named(tmp_path: Path) -> None:
    outcome = await shell(tmp_path, "kill -SEGV $$")
    assert outcome.content == "[killed by SIGSEGV]"
    assert outcome.is_error
    outcome = await shell(tmp_path, "(kill -KILL $BASHPID); exit $?")
    assert outcome.content.endswith("[exit code 137 = 128 + SIGKILL]")
    assert not outcome.is_error


def test_endings() -> None:
    assert ending(Finished(200, timed_out=False, left_running=False), 1) == "[exit code 200]"
    assert ending(Finished(-99, timed_out=False, left_running=False), 1) == "[killed by signal 99]"
    assert ending(Finished(0, timed_out=True, left_running=False), 1.5) == (
        "[stopped: not finished after 1.5 seconds]"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"command": "  "}, "empty"),
        ({"command": "a\0b"}, "NUL"),
        ({"command": "true", "timeout": 0}, "timeout"),
        ({"command": "true", "timeout": float("nan")}, "timeout"),
        ({"command": ": " + "x" * 3_000_000}, "could not be started"),
    ],
)
async def test_commands_that_cannot_run(
    tmp_path: Path, arguments: dict[str, object], said: str
) -> None:
    with pytest.raises(ToolError, match=said):
        await run_tool(Shell(), context_in(tmp_path), **arguments)


async def test_a_working_folder_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="could not be started"):
        await shell(tmp_path / "gone", "true")


@pytest.mark.parametrize(
    "command",
    [
        'echo "$(touch x)"',
        "echo `id`",
        "find . -exec rm {} +",
        "git -c core.pager=evil log",
        "ls\nrm x",
        "X=1 ls",
        "ls >| x",
        "ls",
    ],
)
def test_a_command_is_shown_whole_and_is_never_a_read(tmp_path: Path, command: str) -> None:
    action = Shell().plan({"command": command}, context_in(tmp_path))
    assert (action.kind, action.inside, action.detail) == ("execute", False, command)


async def test_only_the_command_that_was_shown_is_run(tmp_path: Path) -> None:
    tool, context = Shell(), context_in(tmp_path)
    approved = replace(context, approved=tool.plan({"command": "touch shown"}, context))
    with pytest.raises(ToolError, match="has changed"):
        await tool.run({"command": "touch other"}, approved)
    assert not (tmp_path / "shown").exists()
    assert not (tmp_path / "other").exists()


def test_the_key_is_the_exact_command_in_this_folder(tmp_path: Path) -> None:
    tool, context = Shell(), context_in(tmp_path)
    one = tool.plan({"command": "ls"}, context).key
    assert tool.plan({"command": "ls"}, context).key == one
    assert tool.plan({"command": "ls "}, context).key != one
    assert tool.plan({"command": "ls"}, context_in(tmp_path / "x")).key != one
