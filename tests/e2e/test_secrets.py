"""The key that is used for the server is found in nothing that is written or printed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.e2e.support import open_session, run_agent, send
from tests.server.replies import HttpFault, Reply, ToolUse
from tests.server.server import MessagesServer

KEY = "canary-key-81c4"
OTHER = "ghp_0123456789abcdefABCDEF0123456789abcd"
VARIABLES = {"ANTHROPIC_API_KEY": KEY, "MY_COPY": f"x{KEY}y", "GITHUB_TOKEN": OTHER}
COMMANDS = (
    "env",
    "set",
    "export -p",
    "cat /proc/self/environ | tr '\\0' '\\n'",
    "python3 -c 'import os; print(os.environ)'",
)


def written(folder: Path) -> dict[str, bytes]:
    """Every file under a folder."""
    return {str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file() and not p.is_symlink()}


def test_the_key_is_in_nothing(tmp_path: Path) -> None:
    calls = [ToolUse("shell", {"command": command}) for command in COMMANDS]
    script = [Reply("", tool_uses=calls), Reply("Done.")]
    refusal = HttpFault(401, {"error": {"type": "authentication_error", "message": f"bad {KEY}"}})
    with MessagesServer(script=[*script, refusal]) as server:
        runs = [
            run_agent(["chat", "--approval", "yolo", "-p", "go"], tmp_path, server, **VARIABLES),
            run_agent(["chat", "-c", "-p", "again"], tmp_path, server, **VARIABLES),
        ]
        (session,) = [path.stem for path in (tmp_path / ".transcripts").glob("*.jsonl")]
        for suffix in ("md", "html", "json"):
            arguments = ["export", session, f"out.{suffix}"]
            runs.append(run_agent(arguments, tmp_path, server, **VARIABLES))
        runs.append(run_agent(["search", "canary"], tmp_path, server, **VARIABLES))
        runs.append(run_agent(["show", "--raw"], tmp_path, server, **VARIABLES))
    assert runs[0].returncode == 0, runs[0].stderr
    assert runs[1].returncode == 1
    assert "[the key]" in runs[1].stderr
    files = written(tmp_path)
    assert len(files) >= 6
    assert [name for name, data in files.items() if KEY.encode() in data] == []
    assert [name for name, data in files.items() if OTHER.encode() in data] == []
    assert not any(KEY in run.stdout + run.stderr for run in runs)


async def test_what_a_tool_shows_is_masked_in_exports_and_excerpts_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text(f"the deploy token is {OTHER}\n")
    read = Reply("", tool_uses=[ToolUse("read_file", {"path": "notes.txt"})])
    with MessagesServer(script=[read, Reply("Read.")]) as server:
        async with open_session(server, tmp_path) as session:
            await send(session, "read it")
            for suffix in ("md", "html", "json"):
                exported = session.export(tmp_path / f"out.{suffix}").read_text()
                assert "the deploy token is" in exported
                assert OTHER not in exported
            assert OTHER in session.transcript.read_text()
        found = run_agent(["search", "deploy", "token"], tmp_path, server)
    assert "the deploy token is ****" in found.stdout
    assert OTHER not in found.stdout


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_what_is_written_is_private_under_any_umask(tmp_path: Path, umask: int) -> None:
    write = ToolUse("write_file", {"path": "made.txt", "content": "x"})
    script = [Reply("", tool_uses=[write]), Reply("Done.")]
    before = os.umask(umask)
    try:
        with MessagesServer(script=script) as server:
            done = run_agent(["chat", "--approval", "yolo", "-p", "go"], tmp_path, server)
    finally:
        os.umask(before)
    assert done.returncode == 0
    kept = [tmp_path / ".transcripts", *(tmp_path / ".transcripts").rglob("*")]
    assert any(path.suffix == ".edit" for path in kept)
    for path in kept:
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


def test_a_key_goes_unencrypted_to_this_machine_alone(tmp_path: Path) -> None:
    for host in ("http://192.0.2.1:1", "http://127.0.0.1.example", "http://localhost.example"):
        arguments = ["chat", "--base-url", host, "-p", "go"]
        done = run_agent(arguments, tmp_path, None, ANTHROPIC_API_KEY=KEY)
        assert done.returncode == 2
        assert "unencrypted" in done.stderr
        assert KEY not in done.stderr
