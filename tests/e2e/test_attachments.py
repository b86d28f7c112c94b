"""``@path`` in a message, over the real SDK against the strict server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agent.events import Notice
from tests.e2e.support import Brain, collect, compactions, open_session, run_agent, send
from tests.server.replies import Reply, ToolUse
from tests.server.server import MessagesServer
from tests.test_media import noise, picture


def kinds(body: dict[str, Any]) -> list[list[str]]:
    """The kinds of blocks in each message, those in tool results too."""
    found = []
    for message in body["messages"]:
        names = []
        for block in message["content"]:
            names.append(block["type"])
            if isinstance(block.get("content"), list):
                names.extend(part["type"] for part in block["content"])
        found.append(names)
    return found


async def test_files_images_and_documents_are_attached(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("buy walnuts\n")
    (tmp_path / "my photo.jpg").write_bytes(picture(4_000, 3_000, "JPEG"))
    (tmp_path / "paper.pdf").write_bytes(b"%PDF-1.4\n/Type /Page\n")
    text = 'See @notes.txt, @"my photo.jpg" and (@paper.pdf) for me@example.org @nobody @.'
    with MessagesServer(script=[Reply("Seen.")]) as server:
        async with open_session(server, tmp_path) as session:
            end = await send(session, text)
            assert end.error is None
            body = server.messages_requests[-1].body
            assert kinds(body) == [["text", *["text"] * 3, "image", "document"]]
            words, attached, _, _, image, _ = body["messages"][0]["content"]
            assert words["text"] == text
            assert attached["text"].startswith("[Attached: notes.txt]\n     1\tbuy walnuts")
            assert image["source"]["media_type"] == "image/jpeg"
            readable = session.transcript.read_text()
            assert "buy walnuts" in readable
            assert f".transcripts/{session.id}/0001-image.jpeg]" in readable


async def test_what_cannot_be_attached_is_told_to_both(tmp_path: Path) -> None:
    (tmp_path / "bad.png").write_bytes(b"no image")
    with MessagesServer(script=[Reply("I see.")]) as server:
        async with open_session(server, tmp_path) as session:
            events = await collect(session.send("what is @bad.png?"))
            told = [event.text for event in events if isinstance(event, Notice)]
            assert len(told) == 1
            assert told[0].startswith("not attached: bad.png: it cannot be read as an image")
            assert "Not attached: bad.png" in json.dumps(server.messages_requests[-1].body)


async def test_an_image_is_folded_read_back_and_the_same_after_a_resume(tmp_path: Path) -> None:
    (tmp_path / "chart.png").write_bytes(picture(1_400, 1_400))
    steps = [
        Reply(tool_uses=[ToolUse("read_file", {"path": "chart.png"})]),
        Reply("A chart. " * 100),
        *[Reply("More words. " * 200)] * 4,
    ]
    brain = Brain(steps)
    with MessagesServer(window=12_000, script=brain) as server:
        async with open_session(
            server, tmp_path, max_input_tokens=7_000, keep_recent_turns=1
        ) as session:
            for text in ("look at @chart.png and read it again", *["go on"] * 4):
                assert (await send(session, text)).error is None
            summary = session.messages()[0].text
            address = f".transcripts/{session.id}/0001-image.png"
            assert address in summary
            live = session.messages()
        brain.steps.extend(
            [Reply(tool_uses=[ToolUse("read_file", {"path": address})]), Reply("That chart.")]
        )
        async with open_session(server, tmp_path, session.id, max_input_tokens=7_000) as again:
            assert again.messages() == live
            assert (await send(again, "show it again")).error is None
            assert "image" in kinds(server.messages_requests[-1].body)[-1]


async def test_a_server_without_images_or_with_small_bodies_is_no_end(tmp_path: Path) -> None:
    (tmp_path / "photo.png").write_bytes(noise(700, 700))
    with MessagesServer(script=[Reply("One."), Reply("Two.")]) as server:
        async with open_session(server, tmp_path) as session:
            server.max_body_bytes = 2_500_000
            assert (await send(session, "first @photo.png")).error is None
            events = await collect(session.send("second @photo.png"))
            assert [report.method for report in compactions(events)] == ["shed"]
        async with open_session(server, tmp_path) as session:
            server.image_input = False
            server.script = [Reply("I cannot see.")]
            end = await send(session, "and this @photo.png")
            assert (end.error, end.text) == (None, "I cannot see.")


def test_in_print_mode_too(tmp_path: Path) -> None:
    (tmp_path / "photo.png").write_bytes(picture(100, 100))
    with MessagesServer(script=[Reply("A teal square.")]) as server:
        done = run_agent(["chat", "-p", "what is @photo.png"], tmp_path, server)
        assert (done.returncode, done.stdout, done.stderr) == (0, "A teal square.\n", "")
        assert kinds(server.messages_requests[-1].body) == [["text", "text", "image"]]
