from __future__ import annotations

import asyncio
import os
import re
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.errors import ToolError
from agent.tools.base import ToolContext
from agent.tools.read_file import ReadFile, Start, read_page
from agent.tools.registry import ToolBox
from agent.tools.threads import Stop
from tests.test_media import picture
from tests.tools.support import context_in, run_call, run_tool

NEXT = re.compile(r"go on with offset=(\d+)(?:, column=(\d+))?")


async def read(context: ToolContext, path: object, **arguments: object) -> str:
    outcome = await run_tool(ReadFile(), context, path=str(path), **arguments)
    assert outcome.capped
    assert not outcome.is_error
    return outcome.content


async def test_lines_are_numbered_and_the_last_line_says_what_follows(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 846)))
    context = context_in(tmp_path)
    page = (await read(context, "a.txt", offset=12, limit=2)).split("\n")
    assert page == [
        "    12\tline 12",
        "    13\tline 13",
        "[lines 12-13 of 845; go on with offset=14]",
    ]
    end = await read(context, "a.txt", offset=845)
    assert end == "   845\tline 845\n[line 845 of 845]"


async def test_only_line_feeds_end_a_line(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("a\u2028b\x0cc\x85d\u0085e\rf\r\ng".encode())
    assert await read(context_in(tmp_path), "a.txt") == (
        "     1\ta\u2028b\x0cc\x85d\u0085e\rf\n     2\tg\n"
        "[lines 1-2 of 2; lines end in CRLF; no newline at the end]"
    )


async def test_bytes_that_are_no_utf8_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"caf\xe9 \xff\n")
    assert await read(context_in(tmp_path), "a.txt") == "     1\tcaf\ufffd \ufffd\n[line 1 of 1]"


async def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    assert await read(context_in(tmp_path), "a.txt") == "[a.txt is empty]"


async def test_a_long_line_is_shown_in_part_with_the_way_to_go_on(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("first\n" + "x" * 5_000 + "\nlast\n")
    context = context_in(tmp_path, max_chars=1_000)
    assert (await read(context, "a.txt")).endswith("[line 1 of 3; go on with offset=2]")
    page = await read(context, "a.txt", offset=2)
    assert len(page) <= 1_000
    assert re.search(r"\[line 2 of 3, columns 1-(\d+); go on with offset=2, column=\d+\]$", page)
    end = await read(context, "a.txt", offset=2, column=4_990)
    assert end == f"     2\t{'x' * 11}\n     3\tlast\n[lines 2-3 of 3, from column 4990]"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"path": "none.txt"}, "Cannot read none.txt: no such file"),
        ({"path": "folder"}, "it is a folder; use list_dir"),
        ({"path": "fifo"}, "no regular file"),
        ({"path": "a.txt/x"}, "a part of it is no folder"),
        ({"path": "a.bin"}, "a.bin is a binary file of 12,345 bytes"),
        ({"path": "a.txt", "offset": 3}, "a.txt has only 2 lines; there is no line 3"),
        ({"path": "a.txt", "offset": 99}, "a.txt has only 2 lines; there is no line 99"),
        ({"path": "a.txt", "offset": 2, "column": 5}, "Line 2 of a.txt has only 3 characters"),
        ({"path": "a.txt", "offset": 1, "column": 9}, "Line 1 of a.txt has only 3 characters"),
        ({"path": "a.txt", "offset": "2"}, "'offset'"),
        ({"path": "a.txt", "limit": 0}, "'limit'"),
    ],
)
async def test_what_cannot_be_read_is_said(
    tmp_path: Path, arguments: dict[str, object], said: str
) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "a.bin").write_bytes(b"\x7fELF\0" + b"x" * 12_340)
    (tmp_path / "a.txt").write_text("one\ntwo")
    with pytest.raises(ToolError, match=re.escape(said)):
        await run_tool(ReadFile(), context_in(tmp_path), **arguments)


async def test_a_device_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="no regular file"):
        await run_tool(ReadFile(), context_in(tmp_path), path="/dev/zero")


async def test_the_action_is_a_read_of_the_real_path(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "secret").write_text("x")
    (tmp_path / "work" / "link").symlink_to(tmp_path / "secret")
    action = ReadFile().plan({"path": "link"}, context_in(tmp_path / "work"))
    assert (action.kind, action.inside) == ("read", False)
    assert action.detail == str((tmp_path / "secret").resolve())


async def test_a_link_changed_after_the_approval_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    link = tmp_path / "link"
    link.symlink_to("a")
    tool, context = ReadFile(), context_in(tmp_path)
    action = tool.plan({"path": "link"}, context)
    link.unlink()
    link.symlink_to("b")
    approved = ToolContext(
        context.cwd, context.transcripts, 2_000, 1.0, context.emit, approved=action
    )
    with pytest.raises(ToolError, match="it has changed"):
        await tool.run({"path": "link"}, approved)


@pytest.mark.parametrize(
    ("path", "arguments", "first", "last"),
    [
        ("x.md:12-14", {}, 12, 14),
        ("x.md:12-14, turn 3", {}, 12, 14),
        ("x.md:12", {}, 12, 12),
        ("x.md:12-14", {"offset": 13, "limit": 4}, 13, 16),
        ("x.md:12-14", {"offset": 15}, 15, 17),
        ("x.md:0-2", {}, 1, 2),
    ],
)
async def test_the_address_of_folded_turns_can_be_opened(
    tmp_path: Path, path: str, arguments: dict[str, object], first: int, last: int
) -> None:
    (tmp_path / "x.md").write_text("line\n" * 30)
    page = await read(context_in(tmp_path), path, **arguments)
    lines = f"line {first}" if first == last else f"lines {first}-{last}"
    assert page.endswith(f"[{lines} of 30; go on with offset={last + 1}]")


async def test_a_file_that_is_called_like_an_address_is_that_file(tmp_path: Path) -> None:
    (tmp_path / "x:1-2").write_text("one\n")
    assert (await read(context_in(tmp_path), "x:1-2")).startswith("     1\tone\n")
    with pytest.raises(ToolError, match="Cannot read y: no such file"):
        await read(context_in(tmp_path), "y:3-4")


def reassembled(data: bytes, room: int, limit: int) -> str:
    """The text of a file, put together from its pages by following their notes."""
    text: list[str] = []
    start: Start | None = Start(1, 1)
    with tempfile.TemporaryFile() as file:
        file.write(data)
        while start:
            file.seek(0)
            page = read_page(file, "a.txt", start, limit, room, Stop())
            *lines, note = page.split("\n")
            assert sum(len(line) + 1 for line in lines) <= room
            assert len(lines) <= limit
            following = NEXT.search(note)
            partial = bool(following and following[2])
            for index, line in enumerate(lines):
                assert line[:7] == f"{start.offset + index:6}\t"
                ended = not (partial or (not following and "no newline" in note))
                is_last = index == len(lines) - 1
                text.append(line[7:] + ("\n" if ended or not is_last else ""))
            start = None
            if following:
                start = Start(int(following[1]), int(following[2] or 1))
    return "".join(text)


CHARACTERS = st.text(alphabet="ab é漢\u2028\x0c\x85\r\U0001f600", max_size=150)
FILES = st.lists(CHARACTERS, min_size=1, max_size=12).map("\n".join)


@settings(max_examples=150, deadline=None)
@given(FILES, st.integers(min_value=20, max_value=300), st.integers(min_value=1, max_value=9))
def test_the_notes_lead_through_the_whole_file(text: str, room: int, limit: int) -> None:
    if text:
        assert reassembled(text.encode(), room, limit) == text.replace("\r\n", "\n")


@settings(max_examples=100, deadline=None)
@given(st.binary(min_size=1, max_size=400), st.integers(min_value=20, max_value=120))
def test_the_notes_lead_through_any_bytes(data: bytes, room: int) -> None:
    data = data.replace(b"\0", b"0").replace(b"\r", b"r")
    assert reassembled(data, room, 50) == data.decode("utf-8", "replace")


async def test_pages_far_into_a_large_file_are_quick(tmp_path: Path) -> None:
    line = b"0123456789" * 10 + b"\n"
    with (tmp_path / "large.txt").open("wb") as file:
        file.writelines(line * 10_000 for _ in range(50))
    started = time.monotonic()
    page = await read(context_in(tmp_path), "large.txt", offset=499_999)
    assert page.startswith("499999\t0123456789")
    assert page.endswith("[lines 499999-500000 of 500000]")
    assert time.monotonic() - started < 5


async def test_cancelling_stops_the_reading(tmp_path: Path) -> None:
    with (tmp_path / "sparse.txt").open("wb") as file:
        file.write(b"x\n" * 10_000)
        file.seek(1 << 36)
        file.write(b"\n")
    task = asyncio.create_task(read(context_in(tmp_path), "sparse.txt", offset=20_000))
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_image_is_shown(tmp_path: Path) -> None:
    (tmp_path / "chart.PNG").write_bytes(picture(560, 280))
    toolbox, context = ToolBox((ReadFile(),)), context_in(tmp_path)
    result = await run_call(toolbox, context, "read_file", path="chart.PNG")
    assert not result.is_error
    assert [media.media_type for media in result.media] == ["image/png"]
    assert result.media[0].tokens == 200
    assert "chart.PNG: image/png" in result.content
    kept = tmp_path / result.media[0].address
    assert kept.read_bytes() == (tmp_path / "chart.PNG").read_bytes()
    again = await run_call(toolbox, context, "read_file", path=result.media[0].address)
    assert again.media == result.media


async def test_a_damaged_image_or_too_large_a_document_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\n nothing")
    with pytest.raises(ToolError, match=r"bad\.png: it cannot be read as an image"):
        await read(context_in(tmp_path), "bad.png")
    (tmp_path / "book.pdf").write_bytes(b"%PDF-1.4" + b"/Type /Page\n" * 900)
    with pytest.raises(ToolError, match="take a part of it"):
        await read(context_in(tmp_path), "book.pdf")
