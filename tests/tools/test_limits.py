from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.errors import TranscriptError
from agent.tools.base import ToolOutcome
from agent.tools.limits import bounded, cap
from agent.tools.read_file import ReadFile
from agent.transcript.outputs import save_output
from tests.tools.support import context_in, run_tool

NOTE = (
    'the whole output: read_file(path=".transcripts/20260101-120000-abcd/0001-shell.txt", offset=1)'
)
MARKER = re.compile(
    r"\n\[\.\.\. ([\d,]+) of ([\d,]+) characters left out, lines ([\d,]+)-([\d,]+) of ([\d,]+)"
    r"(?:; (.*))? \.\.\.\]\n"
)
# Long enough to be capped, with lines that are shorter and longer than a part.
texts = st.lists(
    st.tuples(st.sampled_from(["a", "é漢", " \u2028", "xyz"]), st.integers(0, 400)), max_size=40
).map(lambda lines: "\n".join(piece * times for piece, times in lines))


def number(text: str) -> int:
    return int(text.replace(",", ""))


@settings(deadline=None)
@given(texts, st.integers(min_value=-1, max_value=1_500), st.sampled_from(["", NOTE, "n" * 400]))
def test_a_capped_text_is_never_longer_than_allowed(text: str, limit: int, note: str) -> None:
    capped = cap(text, limit, note)
    assert len(capped) <= max(0, limit)
    if len(text) <= limit:
        assert capped == text


@settings(deadline=None)
@given(texts, st.integers(min_value=150, max_value=1_500))
def test_a_capped_text_is_head_marker_tail_and_the_marker_is_true(text: str, limit: int) -> None:
    capped = cap(text, limit, "")
    if capped == text:
        return
    found = MARKER.search(capped)
    assert found
    head, tail = capped[: found.start()], capped[found.end() :]
    left_out, total, first, last, lines = (number(found[group]) for group in range(1, 6))
    assert total == len(text)
    assert text.endswith(tail)
    assert text.startswith(head)
    # A head that ends with its line gives the line feed to the marker.
    assert text[len(head) : total - len(tail) - left_out] in {"", "\n"}
    gap = text[total - len(tail) - left_out : total - len(tail)]
    assert first == text.count("\n", 0, total - len(tail) - left_out) + 1
    assert last == first + gap[:-1].count("\n")
    assert lines == text.count("\n") + (not text.endswith("\n"))


def test_head_and_tail_are_about_sixty_to_forty_and_whole_lines() -> None:
    text = "".join(f"line {number:05}\n" for number in range(5_000))
    capped = cap(text, 10_000, NOTE)
    found = MARKER.search(capped)
    assert found
    head, tail = capped[: found.start()], capped[found.end() :]
    assert 9_900 < len(capped) <= 10_000
    assert len(head) / (len(head) + len(tail)) == pytest.approx(0.6, abs=0.02)
    assert all(len(line) == 10 for line in (head + "\n" + tail).splitlines())
    assert found[6] == NOTE


def test_the_way_to_page_survives_a_small_limit() -> None:
    capped = cap("x" * 5_000, 220, NOTE)
    assert NOTE in capped
    assert len(capped) <= 220


def test_without_room_for_a_marker_the_head_is_kept() -> None:
    assert cap("abcdefgh", 3, NOTE) == "abc"
    assert cap("abcdefgh", 0, NOTE) == ""


@pytest.mark.parametrize("umask", [0, 0o777])
def test_outputs_are_private_numbered_and_never_overwritten(tmp_path: Path, umask: int) -> None:
    folder = tmp_path / ".transcripts" / "session"
    before = os.umask(umask)
    try:
        first = save_output(folder, "shell.txt", b"one")
        second = save_output(folder, "shell.txt", b"two")
    finally:
        os.umask(before)
    assert (first.name, second.name) == ("0001-shell.txt", "0002-shell.txt")
    assert first.read_text("utf-8") == "one"
    assert second.read_text("utf-8") == "two"
    assert stat.S_IMODE(first.stat().st_mode) == 0o600
    for made in (folder, folder.parent):
        assert stat.S_IMODE(made.stat().st_mode) == 0o700


@pytest.mark.parametrize("name", ["../../evil", "/etc/passwd", ".", "", "a\0b", "a\nb", "n" * 999])
def test_any_name_becomes_a_safe_one(tmp_path: Path, name: str) -> None:
    saved = save_output(tmp_path / "folder", name, b"text")
    assert saved.parent == tmp_path / "folder"
    assert re.fullmatch(r"0001-[A-Za-z0-9._-]{1,80}", saved.name)
    assert list((tmp_path / "folder").iterdir()) == [saved]


@pytest.mark.parametrize("linked", [".transcripts", ".transcripts/session"])
def test_a_linked_folder_is_refused(tmp_path: Path, linked: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    link = tmp_path / linked
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(elsewhere)
    with pytest.raises(TranscriptError, match="symbolic link"):
        save_output(tmp_path / ".transcripts" / "session", "shell.txt", b"text")
    assert not list(elsewhere.iterdir())


def test_a_short_outcome_is_passed_on_as_it_is(tmp_path: Path) -> None:
    outcome = ToolOutcome("short\udc80", is_error=True, diff="+x\n")
    result = bounded(outcome, context_in(tmp_path), "shell", tmp_path / "s")
    assert (result.content, result.is_error, result.diff) == ("short\ufffd", True, "+x\n")
    assert result.output_file is None
    assert not (tmp_path / "s").exists()


async def test_the_whole_of_a_long_outcome_can_be_read_from_its_marker(tmp_path: Path) -> None:
    context = context_in(tmp_path, max_chars=1_000)
    text = "".join(f"line {line}\n" for line in range(1, 1_001))
    result = bounded(ToolOutcome(text), context, "shell", context.transcripts / "session")
    assert len(result.content) <= 1_000
    assert result.output_file == context.transcripts / "session" / "0001-shell.txt"
    found = re.search(r'lines (\d+)-.*read_file\(path="([^"]+)", offset=1\)', result.content)
    assert found
    assert found[2] == ".transcripts/session/0001-shell.txt"
    page = await run_tool(ReadFile(), context, path=found[2], offset=int(found[1]))
    assert f"{found[1]}\tline {found[1]}\n" in page.content


def test_an_output_outside_the_working_folder_has_its_whole_path(tmp_path: Path) -> None:
    cwd = tmp_path / "work"
    cwd.mkdir()
    context = context_in(cwd, max_chars=400)
    result = bounded(ToolOutcome("x" * 900), context, "shell", tmp_path / "kept" / "session")
    assert f'path="{tmp_path.resolve()}/kept/session/0001-shell.txt"' in result.content


def test_what_cannot_be_saved_is_still_given_in_part(tmp_path: Path) -> None:
    (tmp_path / ".transcripts").write_text("a file is in the way")
    context = context_in(tmp_path, max_chars=400)
    result = bounded(ToolOutcome("x" * 900), context, "shell", context.transcripts / "session")
    assert f"could not be saved: {context.transcripts} is in the way" in result.content
    assert len(result.content) <= 400
    assert result.output_file is None


def test_what_the_tool_has_bounded_is_not_saved_again(tmp_path: Path) -> None:
    context = context_in(tmp_path, max_chars=100)
    result = bounded(ToolOutcome("x" * 900, capped=True), context, "read_file", tmp_path / "s")
    assert len(result.content) <= 100
    assert result.output_file is None
    assert not (tmp_path / "s").exists()
