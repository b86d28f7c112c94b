"""The command line as a script uses it: a process, its output and its exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.support import Brain, environment, run_agent, start_agent, wait_for_file
from tests.server.demo import demo_reply
from tests.server.replies import Reply, ToolUse, overloaded
from tests.server.server import MessagesServer


def test_the_answer_and_nothing_else_is_on_stdout(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("alpha\n")
    call = Reply("Let me see.", tool_uses=[ToolUse("read_file", {"path": "notes.txt"})])
    with MessagesServer(script=Brain([call, Reply("It says **alpha**.")])) as server:
        done = run_agent(["chat", "-p", "what is in it?"], tmp_path, server)
    assert (done.returncode, done.stdout) == (0, "It says **alpha**.\n")
    assert "read_file" in done.stderr


def test_the_json_object(tmp_path: Path) -> None:
    with MessagesServer(script=Brain([Reply("Four.")]), window=100_000) as server:
        done = run_agent(
            ["chat", "-p", "--output-format", "json", "two and two?"], tmp_path, server
        )
        sent = server.messages_requests[0].prompt_tokens
    assert done.returncode == 0
    result = json.loads(done.stdout)
    assert (result["type"], result["is_error"], result["result"]) == ("result", False, "Four.")
    assert result["num_turns"] == 1
    assert result["stop_reason"] == "end_turn"
    usage = result["usage"]
    assert (
        usage["input_tokens"]
        + usage["cache_read_input_tokens"]
        + usage["cache_creation_input_tokens"]
        == sent
    )
    assert usage["output_tokens"] > 0
    assert result["context"]["window"] == 100_000
    assert result["context"]["budget"] == 70_000
    assert isinstance(result["context"]["exact"], bool)
    assert result["compactions"] == []
    assert result["duration_ms"] >= 0
    assert "two and two?" in Path(result["transcript"]).read_text()
    assert (tmp_path / ".transcripts" / f"{result['session_id']}.jsonl").exists()


def test_compactions_are_in_the_json(tmp_path: Path) -> None:
    brain = Brain([Reply("fact " * 200) for _ in range(9)])
    options = ["--max-input-tokens", "2800", "--keep-recent-turns", "1", "--output-format", "json"]
    with MessagesServer(script=brain, window=20_000) as server:
        results = []
        for number in range(6):
            more = ["--resume"] if number else []
            done = run_agent(
                ["chat", "-p", f"q{number} " + "word " * 90, *options, *more], tmp_path, server
            )
            assert done.returncode == 0, done.stderr
            results.append(json.loads(done.stdout))
    folded = [entry for result in results for entry in result["compactions"]]
    assert folded
    assert {
        "trigger",
        "folded_turns",
        "tokens_before",
        "tokens_after",
        "seconds",
        "address",
    } <= set(folded[0])
    assert len({result["session_id"] for result in results}) == 1
    assert [result["num_turns"] for result in results] == [1, 2, 3, 4, 5, 6]


def test_stream_json_ends_with_the_same_object(tmp_path: Path) -> None:
    with MessagesServer(script=demo_reply) as server:
        done = run_agent(
            ["chat", "-p", "hello", "--output-format", "stream-json"], tmp_path, server
        )
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert events[0]["type"] == "turn_started"
    assert events[-1]["type"] == "result"
    deltas = "".join(event["text"] for event in events if event["type"] == "text_delta")
    assert deltas == events[-1]["result"]


def test_piped_text_is_joined(tmp_path: Path) -> None:
    with MessagesServer(script=Brain([Reply("Read."), Reply("Read.")])) as server:
        run_agent(["chat", "-p", "summarise this:"], tmp_path, server, stdin="the piped text\n")
        run_agent(["chat", "-p"], tmp_path, server, stdin="only piped\n")
        first, second = (r.messages[-1]["content"][0]["text"] for r in server.messages_requests)
    assert first == "summarise this:\n\nthe piped text"
    assert second == "only piped"


def test_an_idle_open_pipe_does_not_hang(tmp_path: Path) -> None:
    with MessagesServer(script=Brain([Reply("Here.")])) as server:
        process = subprocess.Popen(
            [sys.executable, "-m", "agent", "chat", "-p", "hello"],
            cwd=tmp_path,
            env=environment(server, tmp_path),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stdout.read() == "Here.\n"
        assert process.wait(20) == 0
        process.communicate()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["chat", "-p", "x", "--output-format", "yaml"], "stream-json"),
        (["chat", "-p", "x", "--approval", "maybe"], "read-only"),
        (["chat", "-p", "x", "--max-input-tokens", "0"], "max_input_tokens"),
        (["chat", "-p", "x", "--keep-recent-turns", "-1"], "keep"),
        (["chat", "-p", "x", "--resume", "nope"], "nope"),
        (["chat", "-p", "x", "--resume"], "no session"),
        (["chat", "-p", "x", "--resume="], "no session"),
        (["chat", "-p", "x", "--config", "missing.toml"], "missing.toml"),
        (["chat", "-p", "x", "--system-file", "missing.md"], "missing.md"),
        (["chat", "-p"], "prompt"),
        (["chat", "--no-such-option"], "no-such-option"),
    ],
)
def test_wrong_usage_is_told_and_exits_with_2(
    tmp_path: Path, arguments: list[str], said: str
) -> None:
    with MessagesServer(script=Brain([])) as server:
        done = run_agent(arguments, tmp_path, server)
        assert server.messages_requests == []
    assert done.returncode == 2, done.stderr
    assert said.replace("_", "-") in done.stderr.replace("_", "-")
    assert "Traceback" not in done.stderr
    assert not (tmp_path / ".transcripts").exists()


def test_a_wrong_key_in_the_configuration_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('modle = "x"\n')
    with MessagesServer(script=Brain([])) as server:
        done = run_agent(["chat", "-p", "x", "--config", "c.toml"], tmp_path, server)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert "c.toml" in done.stderr
    assert "modle" in done.stderr


def test_without_key_and_endpoint_the_ways_to_go_on_are_told(tmp_path: Path) -> None:
    done = run_agent(["chat", "-p", "x"], tmp_path, None)
    assert done.returncode == 2
    assert "ANTHROPIC_API_KEY" in done.stderr
    assert "--base-url" in done.stderr


def test_a_server_that_stays_busy_exits_with_75_and_saves_everything(tmp_path: Path) -> None:
    with MessagesServer(script=Brain([overloaded(0.2)] * 30)) as server:
        done = run_agent(
            ["chat", "-p", "remember 8123", "--output-format", "json"],
            tmp_path,
            server,
            AGENT_RETRY_LIMIT_SECONDS="0.5",
        )
    assert done.returncode == 75
    result = json.loads(done.stdout)
    assert result["is_error"]
    assert "remember 8123" in Path(result["transcript"]).read_text()


def test_an_unreachable_server_is_busy(tmp_path: Path) -> None:
    with MessagesServer() as server:
        pass
    done = run_agent(["chat", "-p", "x"], tmp_path, server, AGENT_RETRY_LIMIT_SECONDS="0.1")
    assert done.returncode == 75
    assert "reach" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_error_exits_with_1(tmp_path: Path) -> None:
    with MessagesServer(models=["another"], script=Brain([])) as server:
        done = run_agent(["chat", "-p", "x"], tmp_path, server)
    assert done.returncode == 1
    assert "404" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_interrupt_exits_with_130_and_keeps_what_was_received(tmp_path: Path) -> None:
    slow = Reply("A long answer. " * 200, delay=0.05)
    with MessagesServer(script=Brain([slow])) as server:
        process = subprocess.Popen(
            [sys.executable, "-m", "agent", "chat", "-p", "tell me"],
            cwd=tmp_path,
            env=environment(server, tmp_path),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        server.wait_for(lambda requests: any("messages" in r.path for r in requests), 20)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=10)
    assert process.returncode == 130, stderr
    assert stdout.startswith("A long answer.")
    (readable,) = (tmp_path / ".transcripts").glob("*.md")
    assert "A long answer." in readable.read_text()
    assert "[interrupted: by the user]" in readable.read_text()


def test_without_anybody_to_ask_actions_are_refused(tmp_path: Path) -> None:
    call = Reply(tool_uses=[ToolUse("shell", {"command": "touch made"})])
    for mode, made in (("ask", False), ("yolo", True)):
        with MessagesServer(script=Brain([call, Reply("Done.")])) as server:
            done = run_agent(["chat", "-p", "x", "--approval", mode], tmp_path, server)
            result = server.messages_requests[-1].messages[-1]["content"][0]
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "made").exists() is made
        assert bool(result.get("is_error")) is not made


def test_the_key_is_neither_printed_nor_written_nor_passed_on(tmp_path: Path) -> None:
    call = Reply(tool_uses=[ToolUse("shell", {"command": "env"})])
    with MessagesServer(script=Brain([call, Reply("Done.")])) as server:
        done = run_agent(["chat", "-p", "x", "--approval", "yolo"], tmp_path, server)
    written = "".join(path.read_text() for path in (tmp_path / ".transcripts").glob("*.*"))
    assert "test-key" not in done.stdout + done.stderr + written


def test_both_ways_to_start(tmp_path: Path) -> None:
    script = Path(sys.executable).with_name("agent")
    if not script.exists():
        pytest.skip("the console script is not installed in this environment")
    for command in ([str(script)], [sys.executable, "-m", "agent"]):
        done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
        assert done.stdout.startswith("agent 0.")


def test_a_killed_process_loses_nothing_and_resumes(tmp_path: Path) -> None:
    """SIGKILL while a tool runs: the call is closed as unknown and not run again."""
    call = Reply(tool_uses=[ToolUse("shell", {"command": "echo run >> runs; sleep 30"})])
    brain = Brain([Reply("First."), call])
    options = ["--approval", "yolo", "--output-format", "json"]
    with MessagesServer(script=brain) as server:
        run_agent(["chat", "-p", "remember: 8123", *options], tmp_path, server)
        process = start_agent(["chat", "-p", "run it", "--resume", *options], tmp_path, server)
        wait_for_file(tmp_path / "runs")
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        brain.steps = [Reply("What ran, I cannot know.")]
        done = run_agent(["chat", "-p", "and?", "-c", *options], tmp_path, server)
        assert done.returncode == 0, done.stderr
        last = server.messages_requests[-1]
    assert (tmp_path / "runs").read_text() == "run\n"
    assert json.loads(done.stdout)["num_turns"] == 3
    text = json.dumps(last.messages)
    assert "outcome unknown" in text
    assert "remember: 8123" in text
    subprocess.run(["pkill", "-f", "echo run >> runs"], check=False)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_no_process_behind(tmp_path: Path, number: signal.Signals) -> None:
    seconds = 5_000 + number
    call = Reply(tool_uses=[ToolUse("shell", {"command": f"touch on; sleep {seconds}"})])
    with MessagesServer(script=Brain([call])) as server:
        process = start_agent(["chat", "-p", "x", "--approval", "yolo"], tmp_path, server)
        wait_for_file(tmp_path / "on")
        process.send_signal(number)
        assert process.wait(10) == 128 + number
    left = subprocess.run(["pgrep", "-f", f"sleep {seconds}"], capture_output=True, check=False)
    assert left.stdout == b""
