"""How the program fails: one line that says what to do, and a traceback only where it is wanted."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.support import Brain, environment, run_agent
from tests.server.replies import HttpFault, Reply
from tests.server.server import MessagesServer

BROKEN = """
import typer
from agent.cli_errors import DebugOption, errors_as_one_line, hide

app = typer.Typer()

@app.command()
def go(_debug: DebugOption = False) -> None:
    hide("file-secret")
    with errors_as_one_line():
        raise KeyError("test-key and file-secret")

app()
"""


def debug_logs(home: Path) -> list[Path]:
    return sorted(home.rglob("debug/*.log"))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["chat", "--nonsense"], "--nonsense"),
        (["chat", "--max-requests", "many"], "--max-requests"),
        (["chat", "--max-requests", "0"], "at least 1"),
        (["chat", "-p", "hello", "--output-format", "xml"], "'stream-json'"),
        (["nonsense"], "agent --help shows what there is"),
        (["export"], "agent export --help shows what there is"),
        (["show"], "agent chat begins one"),
        (["config", "--nonsense"], "--nonsense"),
        (["models", "--base-url", "gopher://x"], "http://"),
        (["chat", "-p", "hello"], "ANTHROPIC_API_KEY"),
    ],
)
def test_a_wrong_command_line_is_one_line(arguments: list[str], told: str, tmp_path: Path) -> None:
    done = run_agent(arguments, tmp_path, None)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("agent: ")
    assert told in line


def test_without_a_command_there_is_help(tmp_path: Path) -> None:
    done = run_agent([], tmp_path, None)
    assert "Usage: agent" in done.stdout + done.stderr
    assert "agent: " not in done.stderr


def run_broken(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    variables = environment(None, home) | {"ANTHROPIC_API_KEY": "test-key"}
    return subprocess.run(
        [sys.executable, "-c", BROKEN, *arguments],
        env=variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_an_unexpected_failure_is_one_line_too(tmp_path: Path) -> None:
    done = run_broken(tmp_path)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "agent: error: unexpected KeyError: '*** and ***'; "
        "with --debug the traceback goes to a file"
    ]
    assert debug_logs(tmp_path) == []


def test_the_traceback_goes_to_a_private_file_without_any_key(tmp_path: Path) -> None:
    done = run_broken(tmp_path, "--debug")
    (log,) = debug_logs(tmp_path)
    assert done.stderr.splitlines()[0] == f"agent: tracebacks go to {log}"
    assert "Traceback" not in done.stderr
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert stat.S_IMODE(log.parent.stat().st_mode) == 0o700
    text = log.read_text()
    assert "Traceback" in text
    assert "KeyError: '*** and ***'" in text
    assert "-secret" not in text
    assert "test-key" not in text


def test_a_refused_turn_is_in_the_debug_log(tmp_path: Path) -> None:
    refusal = {"type": "authentication_error", "message": "invalid key test-key"}
    echoed = HttpFault(401, {"type": "error", "error": refusal})
    for arguments in (["chat", "--debug", "-p", "hello"], ["--debug", "chat", "-p", "hello"]):
        with MessagesServer(script=Brain([echoed])) as server:
            done = run_agent(arguments, tmp_path, server)
        assert (done.returncode, done.stdout) == (1, "")
        assert "agent config shows where the key came from" in done.stderr
        text = debug_logs(tmp_path)[-1].read_text()
        assert "AuthenticationError: the server answered 401: invalid key [the key]" in text
        assert "test-key" not in text
    assert len(debug_logs(tmp_path)) == 2


def test_a_debug_log_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / ".local").write_text("a file in the way")
    with MessagesServer(script=Brain([Reply("Never.")])) as server:
        done = run_agent(["chat", "--debug", "-p", "hello"], tmp_path, server)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("agent: cannot write tracebacks to ")
