"""A rule-based stand-in for a model, for demonstrations and end-to-end tests.

What it does is decided by the last user message alone, line by line:

==========================  ====================================================
``read FILE``               calls ``read_file``
``list DIR``                calls ``list_dir``
``grep PATTERN [in PATH]``  calls ``grep``
``run COMMAND``             calls ``shell``
``write FILE: TEXT``        calls ``write_file``
``edit FILE: OLD -> NEW``   calls ``edit_file``
``long N``                  about N tokens of Markdown
``think X``                 thinks before it answers
``remember X``              notes it
``what did I say about X``  looks X up in the user messages that it can see
==========================  ====================================================

Several such lines become parallel calls. Tool results get a sentence each; of a
source file, the first definition is shown. A message that begins with
:data:`SUMMARY_INSTRUCTION_PREFIX` gets a summary of what can be seen. Anything else
gets a short answer in Markdown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from tests.server.replies import Reply, ToolUse
from tests.server.tokens import count_text
from tests.server.wire import JsonObject, blocks, last_user_text, message_text, result_text

SUMMARY_INSTRUCTION_PREFIX = "[Summarise the conversation so far]"
SHELL_TIMEOUT_SECONDS = 60

POLITE = r"^(?:(?:please|then|now|and)\s+)*"
QUESTION = re.compile(
    r"what did i say about\s+(?P<topic>.+?)\s*\??\s*$", re.IGNORECASE | re.MULTILINE
)
LONG = re.compile(r"^long\s+(?P<tokens>\d+)\b", re.IGNORECASE | re.MULTILINE)
THINK = re.compile(r"^think(?:\s+about)?\s+(?P<topic>.+)$", re.IGNORECASE | re.MULTILINE)
FACT = re.compile(r"\bremember(?:\s+that|:)?\s+(?P<fact>[^\n]+)", re.IGNORECASE)
NUMBERED = re.compile(r"^ *\d+\t", re.MULTILINE)
NOTE = re.compile(r"\n?\[[^\n]*\]\s*\Z")
DEFINITION = re.compile(
    r"^(?:(?:async )?def|class|func|fn|function|pub fn)\b.*(?:\n.+)*", re.MULTILINE
)
LANGUAGES = {".py": "python", ".js": "js", ".ts": "ts", ".go": "go", ".rs": "rust"}


@dataclass(frozen=True)
class Command:
    """A line that calls a tool, and how its arguments are made from it."""

    pattern: re.Pattern[str]
    tool: str
    arguments: Callable[[re.Match[str]], JsonObject]
    announcement: str


def _line(pattern: str) -> re.Pattern[str]:
    return re.compile(POLITE + pattern + r"\s*$", re.IGNORECASE | re.DOTALL)


COMMANDS = (
    Command(
        _line(
            r"read\s+(?P<path>\S+)(?:\s+from\s+line\s+(?P<offset>\d+))?(?:\s+limit\s+(?P<limit>\d+))?"
        ),
        "read_file",
        lambda found: {
            "path": _unquoted(found["path"]),
            **{name: int(found[name]) for name in ("offset", "limit") if found[name]},
        },
        "Let me read `{path}`.",
    ),
    Command(
        _line(r"list\s+(?P<path>\S+)"),
        "list_dir",
        lambda found: {"path": _unquoted(found["path"])},
        "Let me look into `{path}`.",
    ),
    Command(
        _line(r"grep\s+(?P<pattern>.+?)(?:\s+in\s+(?P<path>\S+))?"),
        "grep",
        lambda found: {
            "pattern": _unquoted(found["pattern"]),
            "path": _unquoted(found["path"] or "."),
        },
        "Let me search for `{pattern}`.",
    ),
    Command(
        _line(r"run\s+(?P<command>.+?)"),
        "shell",
        lambda found: {"command": _unquoted(found["command"]), "timeout": SHELL_TIMEOUT_SECONDS},
        "I run `{command}`.",
    ),
    Command(
        _line(r"write\s+(?P<path>[^\s:]+):\s*(?P<content>.+?)"),
        "write_file",
        lambda found: {"path": _unquoted(found["path"]), "content": found["content"] + "\n"},
        "I write `{path}`.",
    ),
    Command(
        _line(r"edit\s+(?P<path>[^\s:]+):\s*(?P<old>.+?)\s*->\s*(?P<new>.*?)"),
        "edit_file",
        lambda found: {
            "path": _unquoted(found["path"]),
            "old_text": found["old"],
            "new_text": found["new"],
        },
        "I change `{path}`.",
    ),
)


def demo_reply(body: JsonObject, _number: int = 0) -> Reply:
    """The answer to a request. It can be a server's script."""
    text = last_user_text(body)
    if text.startswith(SUMMARY_INSTRUCTION_PREFIX):
        return Reply(_summary(body))
    if not text:
        return Reply(_about_results(body))
    if reply := _tool_calls(text):
        return reply
    if found := LONG.search(text):
        return Reply(markdown_of_length(int(found["tokens"])))
    if found := QUESTION.search(text):
        return Reply(_what_was_said(body, found["topic"]))
    if found := THINK.search(text):
        return Reply(_answer(body, text), thinking=_thoughts(found["topic"]))
    if found := FACT.search(text):
        return Reply(f"Noted: *{found['fact'].strip()}*")
    return Reply(_answer(body, text))


def markdown_of_length(tokens: int) -> str:
    """Markdown of about ``tokens`` tokens: headings, lists, code and tables."""
    parts: list[str] = []
    used = 0
    for section in _sections():
        size = count_text(section)
        if parts and used + size > tokens:
            break
        parts.append(section)
        used += size
    return "\n\n".join(parts)


def _sections() -> Iterator[str]:
    number = 0
    while True:
        number += 1
        yield f"## Part {number}"
        yield (
            f"This is paragraph {number} of a long answer. It has *emphasis*, **strong words** "
            f"and `inline code`, so that a terminal has something to show."
        )
        yield f"- point {number}.1: what was asked\n- point {number}.2: what was found"
        yield f"```python\ndef part_{number}(items: list[int]) -> int:\n    return sum(items)\n```"
        yield f"| part | lines | done |\n| --- | ---: | :---: |\n| {number} | {number * 12} | yes |"


def _tool_calls(text: str) -> Reply | None:
    uses: list[ToolUse] = []
    announcements: list[str] = []
    for line in text.splitlines():
        for command in COMMANDS:
            if found := command.pattern.match(line.strip()):
                arguments = command.arguments(found)
                uses.append(ToolUse(command.tool, arguments))
                announcements.append(command.announcement.format(**arguments))
                break
    return Reply(" ".join(announcements), tool_uses=tuple(uses)) if uses else None


def _about_results(body: Mapping[str, Any]) -> str:
    calls = {
        block["id"]: block
        for message in body["messages"]
        for block in blocks(message["content"])
        if block["type"] == "tool_use"
    }
    last = blocks(body["messages"][-1]["content"])
    results = [block for block in last if block["type"] == "tool_result"]
    return "\n\n".join(_about_result(calls[block["tool_use_id"]], block) for block in results)


def _about_result(call: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    text = result_text(result)
    lines = text.splitlines()
    shown = _first_words(lines)
    subject = call["input"].get("path") or call["input"].get("command") or call["name"]
    if result.get("is_error"):
        return f"`{subject}` did not work: {shown}"
    match call["name"]:
        case "read_file":
            return _about_file(subject, text)
        case "list_dir":
            return f"`{subject}` has {len(lines)} entries, `{shown}` among them."
        case "grep":
            return f"`{call['input']['pattern']}` is found in {len(lines)} lines: `{shown}`."
        case "shell":
            return _about_command(subject, lines)
        case _:
            return f"Done: `{subject}`."


def _about_file(path: str, page: str) -> str:
    """What a page of a file holds: its first definition, or else its first words."""
    text = NUMBERED.sub("", NOTE.sub("", page))
    lines = text.split("\n") if text else []
    language = LANGUAGES.get(PurePosixPath(path).suffix)
    definition = DEFINITION.search(text)
    if language and definition:
        code = f"```{language}\n{definition[0]}\n```"
        return f"`{path}` has {len(lines)} lines. This is the heart of it:\n\n{code}"
    return f"`{path}` has {len(lines)} lines here; it begins with `{_first_words(lines)}`."


def _about_command(command: str, lines: list[str]) -> str:
    """How a command ended, and the last that it printed."""
    *output, ending = [line.strip("[] ") for line in lines if line.strip()] or ["no exit code"]
    printed = f"; its last line is `{_first_words(output[-1:])}`" if output else ""
    return f"`{command}` ended with **{ending}**{printed}."


def _first_words(lines: Sequence[str]) -> str:
    first = next((line.strip() for line in lines if line.strip()), "nothing")
    return first if len(first) <= 60 else first[:59] + "…"


def _what_was_said(body: Mapping[str, Any], topic: str) -> str:
    wanted = _unquoted(topic).lower()
    said = [
        found["fact"].strip() if (found := FACT.search(line)) else line.strip("- ").strip()
        for line in _user_lines(body)
        if wanted in line.lower() and not QUESTION.search(line)
    ]
    if not said:
        return f"I see nothing about {topic} in this conversation."
    quotes = "\n".join(f"> {line}" for line in dict.fromkeys(said))
    return f"About {topic} you said:\n\n{quotes}"


def _summary(body: Mapping[str, Any]) -> str:
    lines = list(_user_lines(body))
    facts = [found["fact"].strip() for line in lines for found in FACT.finditer(line)]
    files = [
        str(block["input"].get("path"))
        for message in body["messages"]
        for block in blocks(message["content"])
        if block["type"] == "tool_use" and block["input"].get("path")
    ]
    own_words = (line for line in lines if not line.startswith(("[", "#", "-")))
    seen = sum(1 for message in body["messages"] if message_text(message).strip())
    sections = {
        "Goal": [next(own_words, "None was stated.")],
        "Facts": [f"- Remember: {fact}" for fact in dict.fromkeys(facts)],
        "Files": [f"- {path}" for path in dict.fromkeys(files)],
        "State": [f"{seen} messages are folded into this summary; no work is open."],
    }
    return "\n\n".join(
        "\n".join([f"## {title}", *entries]) for title, entries in sections.items() if entries
    )


def _user_lines(body: Mapping[str, Any]) -> Iterator[str]:
    for message in body["messages"]:
        if message["role"] == "user":
            for line in message_text(message).splitlines():
                if line.strip() and not line.startswith(SUMMARY_INSTRUCTION_PREFIX):
                    yield line.strip()


def _answer(body: Mapping[str, Any], text: str) -> str:
    turn = sum(
        1
        for message in body["messages"]
        if message["role"] == "user" and message_text(message).strip()
    )
    question = " ".join(text.split())
    shown = question if len(question) <= 200 else question[:199] + "…"
    return (
        f"**Turn {turn}.** You said: *{shown}*\n\n"
        "I am a demonstration model. I can\n\n"
        "- `read FILE`, `list DIR`, `grep PATTERN`, `run COMMAND`\n"
        "- `write FILE: TEXT`, `edit FILE: OLD -> NEW`\n"
        "- answer at length (`long 500`) or after some thought (`think about it`)"
    )


def _thoughts(topic: str) -> str:
    return (
        f"The user wants me to think about {topic.strip()}. There are two ways to see it; the "
        "simpler one is enough here. I answer briefly."
    )


def _unquoted(text: str) -> str:
    return text.strip().strip("`'\"")
