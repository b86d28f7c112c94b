"""What holds here: agent config, agent models, and the shell's completion."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from agent.config import SETTING_KEYS
from tests.e2e.support import Brain, environment, run_agent
from tests.server.server import MessagesServer


def settings(output: str) -> dict[str, list[str]]:
    """The columns of ``agent config`` by the setting's name."""
    rows = [
        [cell.strip() for cell in line.split("  ") if cell.strip()] for line in output.splitlines()
    ]
    return {row[0]: row[1:] for row in rows}


def test_every_setting_is_told_with_its_source(tmp_path: Path) -> None:
    file = tmp_path / ".config" / "agent-chat" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(
        'approval = "auto-edit"\nauth_token = "file-secret"\n'
        '[models."my-model:32b"]\ncontext_window = 32768\n'
    )
    done = run_agent(
        ["config", "--model", "other", "--no-system"],
        tmp_path,
        None,
        ANTHROPIC_BASE_URL="http://me:url-secret@host/v",
        ANTHROPIC_API_KEY="variable-secret",
        AGENT_MAX_REQUESTS="7",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "secret" not in done.stdout
    found = settings(done.stdout)
    shown = "~/.config/agent-chat/config.toml"
    assert set(SETTING_KEYS) <= set(found)
    assert found["configuration file"] == [shown]
    assert found["model"] == ["other", "flag --model"]
    assert found["no_system"] == ["true", "flag --no-system"]
    assert found["max_requests"] == ["7", "environment AGENT_MAX_REQUESTS"]
    assert found["base_url"] == ["http://me:***@host/v", "environment ANTHROPIC_BASE_URL"]
    assert found["api_key"] == ["set, not shown", "environment ANTHROPIC_API_KEY"]
    assert found["auth_token"] == ["set, not shown", shown]
    assert found["approval"] == ["auto-edit", shown]
    assert found["max_input_tokens"] == ["not set", "default"]
    assert found["models.my-model:32b"] == ["context_window 32768", shown]


def test_another_file_is_named(tmp_path: Path) -> None:
    assert "(not there)" in run_agent(["config"], tmp_path, None).stdout
    (tmp_path / "mine.toml").write_text("max_rescues = 2\n")
    done = run_agent(["config", "--config", "mine.toml"], tmp_path, None)
    assert settings(done.stdout)["max_rescues"] == ["2", "mine.toml"]
    missing = run_agent(["config", "--config", "none.toml"], tmp_path, None)
    assert (missing.returncode, missing.stdout) == (2, "")


def test_the_servers_models_are_listed(tmp_path: Path) -> None:
    with MessagesServer(
        script=Brain([]), models=("claude-sonnet-5-5", "tiny"), window=64_000
    ) as server:
        done = run_agent(["models"], tmp_path, server)
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[0][:4] == ["*", "claude-sonnet-5-5", "window", "64.0k"]
    assert lines[1][:3] == ["tiny", "window", "64.0k"]
    assert all("output" in line for line in lines)


@pytest.mark.parametrize("status", [404, 405])
def test_a_server_without_a_list_is_one_line(status: int, tmp_path: Path) -> None:
    with MessagesServer(script=Brain([]), models_status=status) as server:
        done = run_agent(["models"], tmp_path, server)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "agent: the server offers no list of models; name one with --model\n"


def test_a_wrong_key_is_one_line(tmp_path: Path) -> None:
    with MessagesServer(script=Brain([]), api_key="another") as server:
        done = run_agent(["models"], tmp_path, server)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "401" in line


@contextmanager
def answering(body: str, content_type: str) -> Iterator[str]:
    """A server that answers every GET with the same; its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", content_type)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_list_in_the_other_vendors_form(tmp_path: Path) -> None:
    data = [{"id": "qwen\u001b[31m:4b", "object": "model", "created": 1, "owned_by": "library"}]
    with answering(json.dumps({"object": "list", "data": data}), "application/json") as url:
        done = run_agent(["models", "--base-url", url], tmp_path, None)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == [
        "qwen\\x1b[31m:4b",
        "window",
        "not",
        "told",
        "output",
        "not",
        "told",
    ]


@pytest.mark.parametrize("body", ["<html>Welcome</html>", "[]", "{}", '{"data": 3}'])
def test_an_answer_that_is_no_list(body: str, tmp_path: Path) -> None:
    kind = "text/html" if body.startswith("<") else "application/json"
    with answering(body, kind) as url:
        done = run_agent(["models", "--base-url", url], tmp_path, None)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1


def test_completion_is_installed_for_bash_and_completes(tmp_path: Path) -> None:
    program = str(Path(sys.executable).with_name("agent"))
    variables = environment(None, tmp_path)
    variables["PATH"] = f"{Path(program).parent}:{variables['PATH']}"
    installed = subprocess.run(
        ["bash", "-c", "agent --install-completion bash"],
        env=variables,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "bash completion installed" in installed.stdout
    asked = """
        source ~/.bashrc
        COMP_WORDS=(agent chat --out); COMP_CWORD=2
        $(complete -p agent | sed 's/.*-F \\([^ ]*\\).*/\\1/') agent
        echo "${COMPREPLY[@]}"
    """
    done = subprocess.run(
        ["bash", "-c", asked], env=variables, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["--output-format"], done.stderr
