"""What code remembers of a turn: by shape, within bounds, and the same every time."""

from __future__ import annotations

import json
import random
import string
import time
from typing import TypeAlias

import pytest

from agent.messages import (
    Message,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    assistant_text,
    user_text,
)
from agent.transcript.facts import (
    CommandFact,
    FileFact,
    TurnFacts,
    facts_from_json,
    facts_of,
    facts_to_json,
)
from agent.transcript.identifiers import Identifier, Kind
from agent.transcript.instructions import instructions_in

Call: TypeAlias = tuple[str, dict[str, object], str, bool]


def turn(asked: str, *calls: Call) -> tuple[Message, ...]:
    """A turn of one call after another, each ``(tool, input, result, is_error)``."""
    messages = [user_text(asked)]
    for number, (name, arguments, result, is_error) in enumerate(calls):
        messages += [
            Message("assistant", (ToolUseBlock(f"call_{number}", name, arguments),)),
            Message("user", (ToolResultBlock(f"call_{number}", result, is_error),)),
        ]
    return (*messages, assistant_text("Done."))


def looking_at(text: str) -> TurnFacts:
    return facts_of(1, (user_text(f"look at {text} please"), assistant_text("yes")))


def found(facts: TurnFacts) -> dict[str, Identifier]:
    return {identifier.text: identifier for identifier in facts.identifiers}


@pytest.mark.parametrize(
    ("tool", "arguments", "fact"),
    [
        ("read_file", {"path": "a/b.py"}, FileFact("a/b.py", "read")),
        ("write_file", {"path": "a.py", "content": "x"}, FileFact("a.py", "written")),
        ("Read", {"file_path": "/srv/a.py"}, FileFact("/srv/a.py", "read")),
        ("MultiEdit", {"file_path": "/srv/a.py"}, FileFact("/srv/a.py", "edited")),
        ("NotebookEdit", {"notebook_path": "n.ipynb"}, FileFact("n.ipynb", "edited")),
        ("create_file", {"filename": "new.py"}, FileFact("new.py", "written")),
        ("Grep", {"pattern": "x", "path": "src/a.css"}, FileFact("src/a.css", "searched")),
    ],
)
def test_files_of_any_tool(tool: str, arguments: dict[str, object], fact: FileFact) -> None:
    assert facts_of(1, turn("go", (tool, arguments, "ok", False))).files == (fact,)


def test_a_call_that_failed_touched_no_file() -> None:
    assert facts_of(1, turn("go", ("read_file", {"path": "a"}, "no such file", True))).files == ()


def test_files_are_in_the_order_of_their_last_touch() -> None:
    calls: list[Call] = [("read_file", {"path": path}, "ok", False) for path in ("a", "b", "a")]
    assert [file.path for file in facts_of(1, turn("go", *calls)).files] == ["b", "a"]


@pytest.mark.parametrize(
    ("result", "code"),
    [
        ("out\n[exit code 3]", "3"),
        ("Exit code 1\nboom", "1"),
        ("boom\n\nCommand exited with code 2", "2"),
        ("<returncode>0</returncode>\n<output>\n", "0"),
        ('{"exit_code": 127}', "127"),
        ("nothing told", ""),
    ],
)
def test_exit_codes_in_several_words(result: str, code: str) -> None:
    facts = facts_of(1, turn("go", ("bash", {"cmd": "make  test"}, result, False)))
    assert facts.commands == (CommandFact("make test", code),)


def test_errors_tell_what_went_wrong_once() -> None:
    trace = "Traceback (most recent call last)\n  File \"a.py\", line 1\nKeyError: 'port'\n"
    failed = "Exit code 1\n> project@0.0.3 check\nsrc/a.ts(3,1): error TS2304: no name\n"
    facts = facts_of(
        1,
        turn(
            "go",
            ("bash", {"command": "x"}, trace, False),
            ("bash", {"command": "y"}, failed, True),
            ("bash", {"command": "x"}, trace, False),
            ("edit", {"path": "a"}, "the text was not found", True),
        ),
    )
    assert facts.errors == (
        "src/a.ts(3,1): error TS2304: no name",
        "KeyError: 'port'",
        "the text was not found",
    )


def test_the_answer_is_what_the_assistant_said_not_what_the_program_put_there() -> None:
    messages = (
        user_text("go"),
        assistant_text("Step one is done."),
        assistant_text("[The turn ended here, without an answer.]"),
    )
    assert facts_of(1, messages).answer == "Step one is done."


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("src/app/main.py", Kind.PATH),
        ("/etc/hosts", Kind.PATH),
        ("Makefile.toml", Kind.PATH),
        ("https://example.org/a?b=1", Kind.ADDRESS),
        ("localhost:8123", Kind.ADDRESS),
        ("ada@example.org", Kind.ADDRESS),
        ("PROJ-123", Kind.REFERENCE),
        ("parser-gqc.6", Kind.REFERENCE),
        ("0629d16", Kind.REFERENCE),
        ("6c2214d7-ae70-4798-800f-63464d01a85d", Kind.REFERENCE),
        ("certificate_7504069", Kind.REFERENCE),
        ("HAT136", Kind.REFERENCE),
        ("v1.2.3", Kind.FIGURE),
        ("2026-11-30", Kind.FIGURE),
        ("250ms", Kind.FIGURE),
        ("--dry-run", Kind.FLAG),
        ("parse_header", Kind.NAME),
        ("HeaderParser", Kind.NAME),
        ("Parser.Header", Kind.NAME),
    ],
)
def test_kinds_of_identifiers(text: str, kind: Kind) -> None:
    facts = looking_at(text)
    assert found(facts)[text].kind is kind
    assert found(facts)[text].by_user


@pytest.mark.parametrize("text", ["and/or", "12:30", "</div>", "x", "plain words only", "1.kind"])
def test_what_is_no_identifier(text: str) -> None:
    assert (
        facts_of(1, (user_text(f"look at {text} please"), assistant_text("yes"))).identifiers == ()
    )


def test_figures_keep_what_they_count() -> None:
    facts = facts_of(1, (user_text("use port 8123 and 40 MB; 票价35元，地址「前门大街」"),))
    assert {"port 8123", "40 MB", "35元", "前门大街"} <= set(found(facts))


def test_a_short_value_of_a_call_keeps_its_name() -> None:
    facts = facts_of(1, turn("go", ("book", {"origin": "JFK", "limit": 20}, "ok", False)))
    assert [identifier.text for identifier in facts.identifiers] == ["origin=JFK"]


def test_mentions_are_counted_by_message_and_results_do_not_count_as_use() -> None:
    calls: list[Call] = [
        ("bash", {"command": "run used_often used_often"}, "only_seen", False),
        ("bash", {"command": "run used_often"}, "used_often", False),
    ]
    identifiers = found(facts_of(1, turn("go", *calls)))
    assert identifiers["used_often"].used == 2
    assert (identifiers["used_often"].age, identifiers["used_often"].used_age) == (1, 2)
    assert identifiers["only_seen"].used == 0
    assert identifiers["used_often"].weight > identifiers["only_seen"].weight


def test_lines_told_by_the_program_are_not_the_users_words() -> None:
    told = Message("user", (TextBlock("go"), TextBlock("[told]\n- bash run_it: never_mind")))
    facts = facts_of(1, (told, assistant_text("ok")))
    assert facts.asked == "go"
    assert facts.instructions == ()
    assert not found(facts)["never_mind"].by_user


def test_facts_survive_what_is_taken_out_of_a_turn() -> None:
    whole = turn(
        "go",
        ("read_file", {"path": "first.py"}, "token abc_def", False),
        ("bash", {"command": "make"}, "it failed: no rule\n[exit code 2]", True),
    )
    before = facts_of(1, whole)
    rest = (whole[0], assistant_text("All done."))
    after = facts_of(1, rest, before)
    assert after.files == before.files
    assert after.commands == before.commands
    assert after.errors == before.errors
    assert after.answer == "All done."
    assert "abc_def" in found(after)
    assert facts_of(1, whole, before) == before


@pytest.mark.parametrize(
    ("text", "instruction"),
    [
        ("Hi! Remember the port is 8123. What now?", "Remember the port is 8123."),
        ("from now on answer in English", "from now on answer in English"),
        ("Fix it, and never push to main.", "Fix it, and never push to main."),
        ("Merke dir: der Port ist 8123.", "Merke dir: der Port ist 8123."),
        ("你好。请记住端口是8123。谢谢", "请记住端口是8123。"),
        ("N'oublie pas le port 8123 !", "N'oublie pas le port 8123 !"),
        ("Всегда пиши тесты. Спасибо", "Всегда пиши тесты."),
        ("ポートは8123です。覚えておいて：必ずテストを書く。", "覚えておいて：必ずテストを書く。"),
    ],
)
def test_lasting_instructions(text: str, instruction: str) -> None:
    (only,) = instructions_in(text)
    assert (only.text, only.lasting) == (instruction, True)


def test_rules_come_after_what_is_to_be_remembered() -> None:
    found_here = instructions_in("Don't use tabs. It never works! Always run v1.2 of it.")
    assert [(item.text, item.lasting) for item in found_here] == [
        ("Always run v1.2 of it.", True),
        ("Don't use tabs.", False),
    ]


@pytest.mark.parametrize("text", ["I don't know why.", "it never works", "thanks, that was all"])
def test_what_is_no_instruction(text: str) -> None:
    assert instructions_in(text) == ()


def _large(seed: int) -> dict[str, str]:
    rng = random.Random(seed)
    letters = string.ascii_letters + "_/.-0123456789"
    words = ("".join(rng.choices(letters, k=12)) for _ in range(80_000))
    return {
        "words": " ".join(words),
        "one letter": "a" * 1_000_000,
        "spaces": " " * 1_000_000,
        "figures": "1," * 500_000,
        "dots": "a." * 500_000,
        "lines": "\n" * 1_000_000,
        "trace": "Traceback (most recent call last)\n" + "a." * 500_000,
    }


@pytest.mark.parametrize("kind", list(_large(1)))
def test_a_megabyte_costs_little(kind: str) -> None:
    text = _large(1)[kind]
    messages = turn(text, ("bash", {"command": text}, text, True))
    started = time.process_time()
    facts = facts_of(1, messages)
    # Three texts of a megabyte: 15-40 ms when nothing else runs.
    assert time.process_time() - started < 1.0
    assert len(facts.identifiers) <= 60
    assert len(facts.asked) <= 2_000


def test_the_same_turn_gives_the_same_facts() -> None:
    text = _large(2)["words"]
    assert facts_of(1, turn("go", ("bash", {"command": "x"}, text, False))) == facts_of(
        1, turn("go", ("bash", {"command": "x"}, text, False))
    )


def test_facts_survive_the_disk() -> None:
    calls: list[Call] = [
        ("read_file", {"path": "src/a.py"}, "value_of_x = 1", False),
        ("bash", {"command": "make test"}, "KeyError: 'port'\n[exit code 2]", True),
    ]
    facts = facts_of(1, turn("always use port 8123 of https://example.org/a", *calls))
    assert all((facts.files, facts.commands, facts.errors, facts.instructions, facts.identifiers))
    assert facts_from_json(json.loads(json.dumps(facts_to_json(facts)))) == facts


@pytest.mark.parametrize(
    "data",
    [None, [], [1, "asked"], [1, "", "", [[]], [], [], [], "", 0], [1, "", "", *[[]] * 5, 0]],
)
def test_facts_of_another_form_are_refused(data: object) -> None:
    with pytest.raises(ValueError, match="no facts"):
        facts_from_json(data)


@pytest.mark.parametrize(
    "mentioned", ["", "7", "[7]", '[["a"]]', '[["a", "no kind", 1, true, 0, 0]]']
)
def test_identifiers_of_another_form_are_left_out(mentioned: str) -> None:
    assert TurnFacts(1, "asked", "answered", mentioned=mentioned).identifiers == ()
