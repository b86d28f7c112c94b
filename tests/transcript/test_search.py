"""Searching past turns: any script, any query, any state of the log."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.errors import SessionError
from agent.messages import TextBlock, ToolUseBlock
from agent.transcript.records import (
    BlockRecord,
    CompactionRecord,
    Entry,
    Record,
    SessionRecord,
    ToolResultRecord,
    UserRecord,
    encode,
)
from agent.transcript.search import EXCERPT_CHARS, Hit, search
from agent.transcript.store import Transcript
from tests.strategies import SESSION, stories
from tests.transcript.test_store import lines_at

LABEL = ".transcripts"


def folder_in(tmp_path: Path) -> Path:
    return tmp_path / LABEL


def write(folder: Path, session_id: str, *records: Record) -> Transcript:
    """A session on disk, still open."""
    transcript = Transcript.start(folder, LABEL, replace(SESSION, id=session_id))
    for record in records:
        transcript.append(record)
    return transcript


def say(folder: Path, session_id: str, *texts: str) -> None:
    """A session whose turns are some words of the user's."""
    write(folder, session_id, *(UserRecord(n, text) for n, text in enumerate(texts, 1))).close()


def find(folder: Path, words: str, **options: object) -> tuple[Hit, ...]:
    """A search with the folder's usual name."""
    done: Callable[..., tuple[Hit, ...]] = search
    return done(folder, LABEL, words, **options)


def turns(hits: Sequence[Hit]) -> list[int]:
    return [hit.turn for hit in hits]


TEXTS = (
    "the staging port is 8123",
    "数据库的端口是八千",
    "データベースを移行しました",
    "กินข้าวที่บ้าน",
    "데이터베이스를 바꿨다",
    "हिन्दी में लिखा गया",
    "Größe und Überlänge, crème brûlée",
    "Пароль хранится в сейфе",
    "ＷＩＤＥ　ＦＯＲＭ　１２３",
    "call read_file(path='src/agent/cli.py')",
    "العربية من اليمين",
)


@pytest.mark.parametrize(
    ("words", "turn"),
    [
        ("port staging", 1),
        ("端口", 2),
        ("数据", 2),
        ("据库", 2),
        ("口", 2),
        ("八千。", 2),
        ("请问数据库的端口是多少", 2),
        ("移行", 3),
        ("データ", 3),
        ("ข้าว", 4),
        ("베이스", 5),
        ("हिन्दी", 6),
        ("CREME Brulee", 7),
        ("größe", 7),
        ("überlänge", 7),
        ("пароль", 8),
        ("wide 123", 9),
        ("read_file", 10),
        ("src/agent/cli.py", 10),
        ("cli", 10),
        ("اليمين", 11),
        ("stag", 1),
    ],
)
def test_words_of_any_script_are_found(tmp_path: Path, words: str, turn: int) -> None:
    say(folder_in(tmp_path), "s-1", *TEXTS)
    hits = find(folder_in(tmp_path), words)
    assert turns(hits)[:1] == [turn]
    assert hits[0].excerpt == " ".join(TEXTS[turn - 1].split())


@pytest.mark.parametrize("words", ["端日", "nowhere", "", "  ", "!?—", '"', "的数"])
def test_what_was_not_said_is_not_found(tmp_path: Path, words: str) -> None:
    say(folder_in(tmp_path), "s-1", *TEXTS)
    assert find(folder_in(tmp_path), words) == ()


@pytest.mark.parametrize(
    "words",
    [
        'port" OR "x',
        "port AND NOT",
        "NEAR(port, 2)",
        "text:port",
        "port*",
        "^port",
        "{port}",
        "-port",
        "port\0",
        "(port",
        "port; DROP TABLE blocks",
        "\ud800 port",
    ],
)
def test_query_syntax_is_data(tmp_path: Path, words: str) -> None:
    say(folder_in(tmp_path), "s-1", *TEXTS)
    assert turns(find(folder_in(tmp_path), words))[:1] == [1]


@given(words=st.text(max_size=40), text=st.text(min_size=1, max_size=80))
@settings(max_examples=100)
def test_no_query_and_no_text_is_an_error(
    tmp_path_factory: pytest.TempPathFactory, words: str, text: str
) -> None:
    folder = folder_in(tmp_path_factory.mktemp("work"))
    say(folder, "s-1", text, "the port")
    for hit in find(folder, f"{words} port"):
        assert "\n" not in hit.excerpt
        assert len(hit.excerpt) <= EXCERPT_CHARS + 2


def test_each_kind_is_found_where_its_address_says(tmp_path: Path) -> None:
    folder = folder_in(tmp_path)
    long = "\n".join(f"row {n} of the table" for n in range(500))
    write(
        folder,
        "s-1",
        UserRecord(1, "please look for walnut"),
        BlockRecord(TextBlock("I look for hazelnut.")),
        BlockRecord(ToolUseBlock("c-1", "shell", {"command": "grep\nchestnut ./x", "n": 1})),
        ToolResultRecord("c-1", f"{long}\nand a peanut\n{long}", is_error=False),
        CompactionRecord("auto", "summary", 2, "pistachio", "pistachio", folded_turns=1),
        UserRecord(2, "and now?"),
    ).close()
    for words, kind in [
        ("walnut", "user"),
        ("hazelnut", "assistant"),
        ("chestnut", "call"),
        ("peanut", "result"),
    ]:
        (hit,) = find(folder, words)
        assert hit.kind == kind
        assert hit.session_id == "s-1"
        assert words in hit.excerpt
        assert words in lines_at(folder, hit.address)
        assert lines_at(folder, hit.address).count("\n") < 60
        assert hit.address.endswith(", turn 1")
        assert abs(hit.when - time.time()) < 60
    assert find(folder, "pistachio") == ()


def test_what_was_said_since_is_found(tmp_path: Path) -> None:
    folder = folder_in(tmp_path)
    transcript = write(folder, "s-1", UserRecord(1, "apples"))
    assert turns(find(folder, "apples pears")) == [1]
    transcript.append(UserRecord(2, "apples and pears"))
    assert turns(find(folder, "apples pears")) == [2, 1]
    transcript.close()


def marked(record: Record, number: int) -> Record:
    """The record with a word that no other one has at the end of what it says."""
    mark = f" mark{number}x"
    match record:
        case UserRecord(text=text):
            return replace(record, text=text + mark)
        case BlockRecord(TextBlock(text)):
            return BlockRecord(TextBlock(text + mark))
        case ToolResultRecord(content=content):
            return replace(record, content=content + mark)
        case _:
            return record


@given(records=stories())
@settings(max_examples=60)
def test_everything_said_is_found_where_its_address_says(
    tmp_path_factory: pytest.TempPathFactory, records: list[Record]
) -> None:
    folder = folder_in(tmp_path_factory.mktemp("work"))
    story = [marked(record, number) for number, record in enumerate(records)]
    write(folder, "s-1", *story[1:]).close()
    turn = 0
    for number, (plain, record) in enumerate(zip(records, story, strict=True)):
        turn = record.turn if isinstance(record, UserRecord) else turn
        if record != plain:
            (hit,) = find(folder, f"mark{number}x")
            assert hit.turn == turn
            assert f"mark{number}x" in lines_at(folder, hit.address)


def test_a_linked_folder_is_refused(tmp_path: Path) -> None:
    say(folder_in(tmp_path), "s-1", "apples")
    link = tmp_path / "link"
    link.symlink_to(folder_in(tmp_path))
    with pytest.raises(SessionError, match="symbolic link"):
        find(link, "apples")


def test_a_log_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    folder = folder_in(tmp_path)
    say(folder, "s-1", "apples")
    (folder / "s-2.jsonl").write_bytes(b"\0\xff apples\n{}\n")
    assert turns(find(folder, "apples")) == [1]


def test_searching_where_nothing_is_makes_nothing(tmp_path: Path) -> None:
    assert find(folder_in(tmp_path), "apples") == ()
    assert list(tmp_path.iterdir()) == []


def test_addresses_stay_true_after_damage_to_the_log(tmp_path: Path) -> None:
    folder = folder_in(tmp_path)
    say(folder, "s-1", "one", "two is damaged", "three has apples")
    find(folder, "apples")
    log = folder / "s-1.jsonl"
    log.write_bytes(log.read_bytes().replace(b"two is", b"two IS"))
    transcript = Transcript.open(folder, "s-1", LABEL)
    transcript.append(UserRecord(4, "four has pears"))
    for words, turn in (("apples", 3), ("pears", 4)):
        (hit,) = find(folder, words)
        assert hit.turn == turn
        assert words in lines_at(folder, hit.address)
    transcript.close()
    assert find(folder, "damaged") == ()


def test_a_torn_line_is_not_found_before_it_is_whole(tmp_path: Path) -> None:
    folder = folder_in(tmp_path)
    say(folder, "s-1", "apples")
    line = encode(Entry(3, 1.0, UserRecord(2, "pears")))
    with (folder / "s-1.jsonl").open("ab") as log:
        log.write(line[:40])
        log.flush()
        assert find(folder, "pears") == ()
        log.write(line[40:])
        log.flush()
    assert turns(find(folder, "pears")) == [2]


def test_searches_of_the_model_are_not_found(tmp_path: Path) -> None:
    folder = folder_in(tmp_path)
    transcript = write(
        folder,
        "s-1",
        UserRecord(1, "what was it about walnuts?"),
        BlockRecord(ToolUseBlock("c-1", "recall", {"query": "walnuts"})),
    )
    assert [hit.kind for hit in find(folder, "walnuts")] == ["user"]
    transcript.append(ToolResultRecord("c-1", "walnuts here, walnuts there", is_error=False))
    assert [hit.kind for hit in find(folder, "walnuts")] == ["user"]
    transcript.close()


def test_of_a_running_turn_only_results_count(tmp_path: Path) -> None:
    folder = folder_in(tmp_path)
    write(
        folder,
        "s-1",
        UserRecord(1, "walnuts are hard"),
        UserRecord(2, "what did I say of walnuts?"),
        BlockRecord(TextBlock("Let me look for walnuts.")),
        ToolResultRecord("c-1", "walnuts in a file", is_error=False),
    ).close()
    hits = find(folder, "walnuts", running="s-1")
    assert {(hit.turn, hit.kind) for hit in hits} == {(1, "user"), (2, "result")}


def test_only_the_named_sessions_are_searched(tmp_path: Path) -> None:
    folder = folder_in(tmp_path)
    say(folder, "s-1", "apples")
    say(folder, "s-2", "apples")
    assert {hit.session_id for hit in find(folder, "apples")} == {"s-1", "s-2"}
    assert [hit.session_id for hit in find(folder, "apples", sessions={"s-2"})] == ["s-2"]
    assert find(folder, "apples", sessions={"../s-2", "s-3"}) == ()


def test_a_fork_is_not_found_twice(tmp_path: Path) -> None:
    folder = folder_in(tmp_path)
    say(folder, "s-1", "apples")
    Transcript.fork(folder, "s-1", "s-2", LABEL).close()
    assert len(find(folder, "apples")) == 1


def test_a_turn_does_not_push_out_the_others(tmp_path: Path) -> None:
    folder = folder_in(tmp_path)
    many = [BlockRecord(TextBlock(f"apples apples {n}")) for n in range(40)]
    write(folder, "s-1", UserRecord(1, "go"), *many, UserRecord(2, "one of the apples")).close()
    hits = find(folder, "apples")
    assert set(turns(hits)) == {1, 2}
    assert turns(hits).count(1) <= 3


def test_far_places_of_a_long_turn_are_all_found(tmp_path: Path) -> None:
    folder = folder_in(tmp_path)
    filler = BlockRecord(TextBlock("nothing\n" * 300))
    places = [BlockRecord(TextBlock(f"apples {n}")) for n in range(3)]
    write(
        folder, "s-1", UserRecord(1, "go"), places[0], filler, places[1], filler, places[2]
    ).close()
    assert len(find(folder, "apples")) == 3


def test_all_words_count_more_than_some_and_new_more_than_old(tmp_path: Path) -> None:
    folder = folder_in(tmp_path)
    folder.mkdir()
    now = time.time()
    said_at = [
        (1, now - 400 * 86_400, "apples and pears"),
        (2, now - 60, "apples and pears"),
        (3, now, "apples apples"),
        (4, now, "pearl and applesauce"),
    ]
    records = [Entry(1, now, replace(SESSION, id="s-1"))]
    records += [Entry(turn + 1, ts, UserRecord(turn, text)) for turn, ts, text in said_at]
    (folder / "s-1.jsonl").write_bytes(b"".join(map(encode, records)))
    assert turns(find(folder, "apples pears")) == [2, 1, 3, 4]


def test_the_excerpt_shows_where_the_words_stand_together(tmp_path: Path) -> None:
    folder = folder_in(tmp_path)
    text = f"apples first. {'filler ' * 200} the apples and pears {'filler ' * 200}"
    say(folder, "s-1", text)
    (hit,) = find(folder, "pears apples")
    assert "the apples and pears" in hit.excerpt
    assert hit.excerpt.startswith("…")
    assert hit.excerpt.endswith("…")


def test_a_search_can_be_stopped(tmp_path: Path) -> None:
    folder = folder_in(tmp_path)
    say(folder, "s-1", "apples", "pears")
    calls = 0

    def check() -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise TimeoutError

    with pytest.raises(TimeoutError):
        find(folder, "apples", check=check)
    assert turns(find(folder, "apples")) == [1]


def test_megabytes_are_searched_in_no_time(tmp_path: Path) -> None:
    folder = folder_in(tmp_path)
    folder.mkdir()
    text = "\n".join(
        f"line {n}: the quick brown fox jumps over 数据库 {n * 7919}" for n in range(90)
    )
    entries = [Entry(1, 0.0, SessionRecord("s-1", "/", "m", "", ()))]
    for number in range(1, 1_001):
        entries.append(Entry(2 * number, 1.0 * number, UserRecord(number, f"question {number}")))
        block = BlockRecord(TextBlock(f"{text}\nanswer{number}"))
        entries.append(Entry(2 * number + 1, 1.0 * number, block))
    data = b"".join(map(encode, entries))
    (folder / "s-1.jsonl").write_bytes(data)
    for words, most in (("answer777", 0.1), ("quick fox", 0.2)):
        begun = time.process_time()
        hits = find(folder, words)
        assert (time.process_time() - begun) / (len(data) / 1e6) < most
        assert hits
    assert turns(find(folder, "answer777"))[0] == 777
