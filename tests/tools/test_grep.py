from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.errors import ToolError
from agent.tools.base import ToolContext
from agent.tools.grep import Grep, query_of
from agent.tools.search import LINE_CHARS, MAX_MATCHES, Found, Query, clip, expand_braces
from agent.tools.search_python import search_with_python
from agent.tools.search_ripgrep import parse_line, ripgrep_arguments, search_with_ripgrep
from tests.tools.support import context_in, run_tool

Engine: TypeAlias = Callable[[Query], Awaitable[Found]]
RIPGREP = shutil.which("rg")


async def python_engine(query: Query) -> Found:
    return await search_with_python(query, 20.0)


async def ripgrep_engine(query: Query) -> Found:
    assert RIPGREP
    return await search_with_ripgrep(RIPGREP, query, 20.0)


@pytest.fixture(
    params=[
        python_engine,
        pytest.param(
            ripgrep_engine,
            marks=pytest.mark.skipif(not RIPGREP, reason="rg is not installed"),
        ),
    ]
)
def engine(request: pytest.FixtureRequest) -> Engine:
    chosen: Engine = request.param
    return chosen


def files(root: Path, contents: dict[str, str | bytes]) -> ToolContext:
    for name, content in contents.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return context_in(root)


async def found(engine: Engine, context: ToolContext, **arguments: object) -> list[str]:
    query = query_of(arguments, context)
    return (await engine(query)).shown(query.cwd).split("\n")


async def test_matches_have_path_line_and_text_in_order(engine: Engine, tmp_path: Path) -> None:
    context = files(
        tmp_path,
        {
            "b.txt": "one\ntwo needle\r\nthree\nneedle needle",
            "a/deep.py": "x\u2028needle\x0cy\n",
            ".hidden": "a needle\n",
            "bad.txt": b"\xff\xe9 needle\n",
            "binary.bin": b"\0needle\n",
        },
    )
    assert await found(engine, context, pattern="needle") == [
        ".hidden:1: a needle",
        "a/deep.py:1: x\u2028needle\x0cy",
        "b.txt:2: two needle",
        "b.txt:4: needle needle",
        "bad.txt:1: \ufffd\ufffd needle",
    ]


async def test_expressions_case_and_globs(engine: Engine, tmp_path: Path) -> None:
    context = files(
        tmp_path,
        {"src/a.py": "Def f1\n", "src/x/b.ts": "def f22\n", "c.tsx": "def f3\n", "d.md": "def f4"},
    )
    assert await found(engine, context, pattern=r"^def f\d+$", glob="*.{ts,tsx}") == [
        "c.tsx:1: def f3",
        "src/x/b.ts:1: def f22",
    ]
    assert await found(engine, context, pattern="DEF F1", ignore_case=True) == [
        "src/a.py:1: Def f1"
    ]
    assert await found(engine, context, pattern="DEF F1") == ["No matches."]
    assert await found(engine, context, pattern="ef f", glob="src/**/*.py") == [
        "src/a.py:1: Def f1"
    ]
    assert await found(engine, context, pattern="ef f", glob="./src/*.py") == ["src/a.py:1: Def f1"]
    assert await found(engine, context, pattern="ef f", path="src", glob="!*.py") == [
        "src/x/b.ts:1: def f22"
    ]


async def test_a_pattern_that_looks_like_an_option_is_a_pattern(
    engine: Engine, tmp_path: Path
) -> None:
    context = files(tmp_path, {"a.txt": "--pre=evil\n", "-f": "needle\n"})
    assert await found(engine, context, pattern="--pre=evil") == ["a.txt:1: --pre=evil"]
    assert await found(engine, context, pattern="needle", path="-f") == ["-f:1: needle"]


IGNORING: dict[str, str | bytes] = {
    ".gitignore": "*.log\nbuild/\n/top.txt\n",
    "keep.py": "needle\n",
    "a.log": "needle\n",
    "top.txt": "needle\n",
    "sub/top.txt": "needle\n",
    "build/out.py": "needle\n",
    "sub/.gitignore": "*.tmp\n!keep.log\n",
    "sub/a.tmp": "needle\n",
    "sub/keep.log": "needle\n",
    "other/a.tmp": "needle\n",
    ".git/config": "needle\n",
    ".transcripts/.gitignore": "*\n",
    ".transcripts/old.md": "needle\n",
    ".transcripts/old/0001-shell.txt": "needle\n",
}


async def test_ignore_files_are_respected_nested_ones_too(engine: Engine, tmp_path: Path) -> None:
    assert await found(engine, files(tmp_path, IGNORING), pattern="needle") == [
        "keep.py:1: needle",
        "other/a.tmp:1: needle",
        "sub/keep.log:1: needle",
        "sub/top.txt:1: needle",
    ]


async def test_the_rules_of_folders_above_hold_in_a_folder(engine: Engine, tmp_path: Path) -> None:
    context = files(tmp_path, {**IGNORING, "sub/b.log": "needle\n"})
    assert await found(engine, context, pattern="needle", path="sub") == [
        "sub/keep.log:1: needle",
        "sub/top.txt:1: needle",
    ]


async def test_a_glob_does_not_bring_ignored_files_back(engine: Engine, tmp_path: Path) -> None:
    context = files(tmp_path, IGNORING)
    assert await found(engine, context, pattern="needle", glob="*.log") == [
        "sub/keep.log:1: needle"
    ]


@pytest.mark.parametrize(
    ("path", "lines"),
    [
        (".transcripts", [".transcripts/old/0001-shell.txt", ".transcripts/old.md"]),
        (".transcripts/old", [".transcripts/old/0001-shell.txt"]),
        (".transcripts/old.md", [".transcripts/old.md"]),
        ("build", ["build/out.py"]),
        ("a.log", ["a.log"]),
        (".git", [".git/config"]),
    ],
)
async def test_what_is_named_is_searched_though_ignored(
    engine: Engine, tmp_path: Path, path: str, lines: list[str]
) -> None:
    context = files(tmp_path, IGNORING)
    assert await found(engine, context, pattern="needle", path=path) == [
        f"{line}:1: needle" for line in lines
    ]


async def test_rules_that_list_what_is_kept(engine: Engine, tmp_path: Path) -> None:
    context = files(
        tmp_path,
        {"in/.gitignore": "*\n!*/\n!*.py\n", "in/a.py": "needle\n", "in/x/b.txt": "needle\n"},
    )
    assert await found(engine, context, pattern="needle", path="in") == ["in/a.py:1: needle"]


async def test_what_is_kept_in_an_ignored_folder_is_found(engine: Engine, tmp_path: Path) -> None:
    context = files(
        tmp_path,
        {".gitignore": "in/**\n!in/*.py\n", "in/a.py": "needle\n", "in/b.txt": "needle\n"},
    )
    assert await found(engine, context, pattern="needle") == ["in/a.py:1: needle"]


async def test_the_repository_s_top_may_be_above_the_working_folder(
    engine: Engine, tmp_path: Path
) -> None:
    files(tmp_path, {".gitignore": "*.log\n", ".git/config": ""})
    context = files(tmp_path / "work", {"a.log": "needle\n", "a.txt": "needle\n"})
    assert await found(engine, context, pattern="needle") == ["a.txt:1: needle"]


async def test_lines_of_an_ignore_file_that_make_no_sense_are_passed_over(
    engine: Engine, tmp_path: Path
) -> None:
    rules = "*.log\r\n\\\n[z-a]\n# note\n\n!keep.log\n"
    names = ("a.log", "keep.log", "z")
    context = files(tmp_path, {".gitignore": rules, **dict.fromkeys(names, "needle\n")})
    assert await found(engine, context, pattern="needle") == [
        "keep.log:1: needle",
        "z:1: needle",
    ]


async def test_links_are_not_followed(engine: Engine, tmp_path: Path) -> None:
    context = files(tmp_path / "work", {"a.txt": "needle\n"})
    files(tmp_path / "outside", {"secret.txt": "needle\n"})
    (tmp_path / "work" / "link").symlink_to(tmp_path / "outside")
    (tmp_path / "work" / "file").symlink_to(tmp_path / "outside" / "secret.txt")
    (tmp_path / "work" / "round").symlink_to(".")
    assert await found(engine, context, pattern="needle") == ["a.txt:1: needle"]


async def test_only_so_many_matches_are_shown(engine: Engine, tmp_path: Path) -> None:
    context = files(tmp_path, {"a.txt": "x\n" * MAX_MATCHES})
    assert len(await found(engine, context, pattern="x")) == MAX_MATCHES
    files(tmp_path, {"b.txt": "x\n" * 100_000})
    lines = await found(engine, context, pattern="x")
    assert len(lines) == MAX_MATCHES + 1
    assert lines[-1].startswith(f"[the first {MAX_MATCHES} matches; there are more")


async def test_long_lines_are_clipped_around_the_match(engine: Engine, tmp_path: Path) -> None:
    line = "é" * 300_000 + "needle" + "y" * 300_000
    context = files(tmp_path, {"a.txt": f"first\n{line}\nneedle\n"})
    long, short = await found(engine, context, pattern="needle")
    assert long.startswith("a.txt:2: …é")
    assert "éneedley" in long
    assert len(long) == len("a.txt:2: ") + LINE_CHARS
    assert short == "a.txt:3: needle"


async def test_a_bad_pattern_is_explained(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"regular expression|regex parse error") as caught:
        await found(engine, files(tmp_path, {"a.txt": "x"}), pattern="a(b")
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
async def test_what_cannot_be_read_is_passed_over(engine: Engine, tmp_path: Path) -> None:
    context = files(tmp_path, {"a.txt": "needle\n", "b.txt": "needle\n", "c/d.txt": "needle\n"})
    (tmp_path / "a.txt").chmod(0)
    (tmp_path / "c").chmod(0)
    try:
        assert await found(engine, context, pattern="needle") == ["b.txt:1: needle"]
    finally:
        (tmp_path / "c").chmod(0o700)


async def test_an_exponential_pattern_neither_hangs_nor_blocks(tmp_path: Path) -> None:
    context = files(tmp_path, {"a.txt": "a" * 60 + "b\n"})
    search = asyncio.create_task(found(python_engine, context, pattern="(a|aa)+$"))
    longest = 0.0
    while not search.done():
        before = time.monotonic()
        await asyncio.sleep(0.02)
        longest = max(longest, time.monotonic() - before)
    with pytest.raises(ToolError, match=r"takes too long on line 1 of a\.txt"):
        await search
    assert longest < 0.5


async def test_time_is_limited_and_what_was_found_is_kept(tmp_path: Path) -> None:
    context = files(tmp_path, {"a.txt": "needle\n", "b.txt": ("a" * 60 + "b\n")})
    query = query_of({"pattern": "needle|(a|aa)+$"}, context)
    found_in_time = await search_with_python(query, 0.3)
    assert found_in_time.timed_out
    assert found_in_time.shown(query.cwd).startswith("a.txt:1: needle\n[stopped by the")


async def test_a_cancelled_search_ends(tmp_path: Path) -> None:
    context = files(tmp_path, {f"{number}.txt": "some text\n" * 20_000 for number in range(30)})
    search = asyncio.create_task(found(python_engine, context, pattern="needle"))
    await asyncio.sleep(0.1)
    started = time.monotonic()
    search.cancel()
    with pytest.raises(asyncio.CancelledError):
        await search
    assert time.monotonic() - started < 0.2


async def test_the_tool_searches_with_what_is_there(tmp_path: Path) -> None:
    context = files(tmp_path, {"a.txt": "needle\n"})
    outcome = await run_tool(Grep(), context, pattern="needle", path=".")
    assert outcome.content == "a.txt:1: needle"
    assert not outcome.is_error


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"pattern": "x", "path": "none"}, "no such file"),
        ({"pattern": "x", "path": "fifo"}, "no file and no folder"),
        ({"pattern": "a\nb"}, "line feed"),
        ({"pattern": "x", "glob": "["}, None),
        ({"pattern": "x", "glob": "!"}, None),
        ({"pattern": "x", "glob": "[z-a]"}, "glob"),
        ({"pattern": "x", "glob": "{a,b}" * 1_000}, "too long"),
    ],
)
async def test_bad_arguments(
    tmp_path: Path, arguments: dict[str, object], said: str | None
) -> None:
    context = files(tmp_path, {"a.txt": "x\n"})
    os.mkfifo(tmp_path / "fifo")
    if said is None:
        await run_tool(Grep(), context, **arguments)
        return
    with pytest.raises(ToolError, match=said):
        await run_tool(Grep(), context, **arguments)


def test_a_search_outside_is_asked_about(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    tool, context = Grep(), context_in(tmp_path / "work")
    assert tool.plan({"pattern": "x"}, context).inside
    outside = tool.plan({"pattern": "x", "path": ".."}, context)
    assert (outside.kind, outside.inside) == ("read", False)
    assert outside.detail == str(tmp_path.resolve())


@settings(deadline=None)
@given(st.text(max_size=600), st.data())
def test_a_clipped_line_is_short_and_shows_the_start_of_the_match(
    line: str, data: st.DataObject
) -> None:
    line = line.replace("\n", "").replace("\r", "")
    start = data.draw(st.integers(0, len(line)))
    clipped = clip(line, start)
    assert len(clipped) <= LINE_CHARS
    assert clipped.removeprefix("…").removesuffix("…") in line or clipped == line
    assert line[start : start + LINE_CHARS // 2 - 1] in clipped


def test_braces_are_expanded() -> None:
    assert list(expand_braces("a.{x,y}")) == ["a.x", "a.y"]
    assert list(expand_braces("{a,b{1,2}}")) == ["a", "b1", "a", "b2"]
    assert list(expand_braces("plain{}")) == ["plain{}"]


def test_ripgrep_can_run_no_other_program_and_takes_nothing_for_an_option(tmp_path: Path) -> None:
    context = files(tmp_path, {"a.txt": "x\n"})
    arguments = ripgrep_arguments(query_of({"pattern": "--pre=x", "ignore_case": True}, context))
    assert arguments[0] == "--no-config"
    assert "--ignore-case" in arguments
    assert arguments[-4:] == ["-e", "--pre=x", "--", str(tmp_path.resolve())]
    assert not [one for one in arguments[:-3] if one.startswith("--pre")]


def test_lines_of_ripgrep_are_read() -> None:
    match = parse_line("/w/é.txt\0007:7:é漢 x:\r".encode())
    assert match is not None
    assert (match.path, match.line, match.text) == (Path("/w/é.txt"), 7, "é漢 x:")
    assert match.text[match.start] == "x"
    match = parse_line(b"\xff x\x007:3:\xff x")
    assert match is not None
    assert (match.text, match.start) == ("\ufffd x", 2)
    assert os.fsencode(match.path) == b"\xff x"
    assert parse_line(b'/w/a: binary file matches (found "\\0" byte around offset 5)') is None
    assert parse_line(b"/w/a\0WARNING: stopped searching binary file") is None
    assert parse_line(b"") is None


def program(path: Path, script: str) -> str:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


async def test_a_ripgrep_that_finds_more_than_enough_is_stopped(tmp_path: Path) -> None:
    context = files(tmp_path / "w", {"a.txt": "x"})
    query = query_of({"pattern": "x"}, context)
    line = f"{query.cwd}/a.txt\\0001:1:x\\n"
    endless = program(tmp_path / "rg", f"while :; do printf '{line}'; done")
    result = await search_with_ripgrep(endless, query, 20.0)
    assert MAX_MATCHES < len(result.matches) < 100 * MAX_MATCHES


async def test_a_ripgrep_that_fails_or_hangs_or_is_none(tmp_path: Path) -> None:
    query = query_of({"pattern": "x"}, files(tmp_path / "w", {"a.txt": "x"}))
    failing = program(tmp_path / "rg1", "echo 'regex parse error:\n  (' >&2; exit 2")
    with pytest.raises(ToolError, match=r"The search failed: regex parse error: \("):
        await search_with_ripgrep(failing, query, 20.0)
    unreadable = program(tmp_path / "rg2", "exit 2")
    assert (await search_with_ripgrep(unreadable, query, 20.0)).matches == ()
    hanging = program(tmp_path / "rg3", "sleep 60")
    assert (await search_with_ripgrep(hanging, query, 0.2)).timed_out
    with pytest.raises(ToolError, match="could not be started"):
        await search_with_ripgrep(str(tmp_path / "none"), query, 1.0)
