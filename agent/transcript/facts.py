"""What code remembers of a turn once it is folded (pure).

Facts are read from the turn's own messages by code, so they are true whatever a
summary says. They are found by shape, not by the names of this program's tools, so
that any other tool leaves its traces too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import chain
from typing import Any, TypeVar

from agent.messages import MediaBlock, Message, TextBlock, ToolResultBlock, ToolUseBlock
from agent.transcript.identifiers import Identifier, Kind, identifiers_of, weightiest
from agent.transcript.instructions import Instruction, instructions_in
from agent.wire import compact_json

_T = TypeVar("_T")

_ASKED_CHARS = 2_000
_ANSWER_CHARS = 300
_COMMAND_CHARS = 200
_ERROR_CHARS = 200
_MOST_ERRORS = 8
_EDGE_CHARS = 2_000
"""How much of a result's head and tail is searched for errors and exit codes."""


@dataclass(frozen=True, slots=True)
class FileFact:
    """A file the turn touched; ``action`` is attached, read, written, edited or searched."""

    path: str
    action: str


@dataclass(frozen=True, slots=True)
class CommandFact:
    """A command the turn ran; ``exit_code`` is empty when it is unknown."""

    command: str
    exit_code: str


@dataclass(frozen=True, slots=True)
class TurnFacts:
    """One turn: what was asked (the user's words), what came out, what was touched.

    Texts are clipped: ``asked`` to 2,000 characters, ``answer`` to 300. Files, commands
    and errors are in the order of their last appearance, each once. ``mentioned`` are the
    weightiest identifiers of the turn, a few dozen, as JSON; ``messages`` is how many
    messages it had.
    """

    number: int
    asked: str
    answer: str
    files: tuple[FileFact, ...] = ()
    commands: tuple[CommandFact, ...] = ()
    errors: tuple[str, ...] = ()
    instructions: tuple[Instruction, ...] = ()
    mentioned: str = "[]"
    messages: int = 0

    @property
    def identifiers(self) -> tuple[Identifier, ...]:
        """What is ``mentioned``. Only a fold asks for it: a long session has very many."""
        try:
            return tuple(
                Identifier(text, _KINDS[kind], *rest)
                for text, kind, *rest in json.loads(self.mentioned)
            )
        except (KeyError, TypeError, ValueError):
            # Another version's: the ledger does without them.
            return ()


def facts_of(
    number: int, messages: Sequence[Message], earlier: TurnFacts | None = None
) -> TurnFacts:
    """The facts of one turn, whose first message is the user's.

    ``earlier`` are the turn's facts before some of its messages were taken out or
    shortened; nothing in them is lost.
    """
    calls = tuple(_calls(messages))
    asked = _asked(messages)
    facts = TurnFacts(
        number=number,
        asked=asked[:_ASKED_CHARS],
        answer=_last_answer(messages)[:_ANSWER_CHARS],
        files=_latest(chain(_attached(messages), *(_files(*call) for call in calls))),
        commands=_latest(chain.from_iterable(_commands(*call) for call in calls)),
        errors=_latest(error for _, result in calls for error in _errors(result))[-_MOST_ERRORS:],
        instructions=instructions_in(asked),
        mentioned=compact_json(identifiers_of(messages, _most_identifiers(len(messages)))),
        messages=len(messages),
    )
    return _joined(earlier, facts) if earlier else facts


def facts_to_json(facts: TurnFacts) -> list[object]:
    """Facts in the form in which a transcript keeps them: the fields in order."""
    return list(astuple(facts))


_KINDS = {kind.value: kind for kind in Kind}


def facts_from_json(data: Any) -> TurnFacts:
    """The facts that :func:`facts_to_json` wrote.

    :raises ValueError: it is something else, such as the facts of another version.
    """
    match data:
        case [number, asked, answer, files, commands, errors, instructions, str(mentioned), count]:
            try:
                return TurnFacts(
                    number,
                    asked,
                    answer,
                    tuple(FileFact(*item) for item in files),
                    tuple(CommandFact(*item) for item in commands),
                    tuple(errors),
                    tuple(Instruction(*item) for item in instructions),
                    mentioned,
                    count,
                )
            except TypeError as error:
                raise ValueError(f"these are no facts: {error}") from error
        case _:
            raise ValueError("these are no facts")


def _joined(earlier: TurnFacts, later: TurnFacts) -> TurnFacts:
    """The facts of one turn found at two times; the later ones count where both speak."""
    since = max(later.messages - earlier.messages, 0)
    identifiers = {item.text: item.aged(since) for item in earlier.identifiers}
    for item in later.identifiers:
        known = identifiers.get(item.text, item)
        identifiers[item.text] = item._replace(
            used=max(item.used, known.used), by_user=item.by_user or known.by_user
        )
    most = _most_identifiers(max(earlier.messages, later.messages))
    return replace(
        later,
        answer=later.answer or earlier.answer,
        files=_latest(earlier.files + later.files),
        commands=_latest(earlier.commands + later.commands),
        errors=_latest(earlier.errors + later.errors)[-_MOST_ERRORS:],
        mentioned=compact_json(weightiest(identifiers.values(), most)),
        messages=max(earlier.messages, later.messages),
    )


def _most_identifiers(messages: int) -> int:
    """Dozens; more for a turn of many calls, which itself took up far more room."""
    return min(20 + 10 * messages, 600)


def _latest(items: Iterable[_T]) -> tuple[_T, ...]:
    """Each item once, where it came last."""
    return tuple(reversed(dict.fromkeys(reversed(tuple(items)))))


def _asked(messages: Sequence[Message]) -> str:
    match tuple(messages):
        case (Message(blocks=(TextBlock(text), *_)), *_):
            return text
        case _:
            return ""


def _calls(messages: Sequence[Message]) -> Iterator[tuple[ToolUseBlock, ToolResultBlock | None]]:
    results = {
        result.tool_use_id: result for message in messages for result in message.tool_results
    }
    for message in messages:
        for use in message.tool_uses:
            yield use, results.get(use.id)


_PATHS = ("path", "file_path", "filepath", "filename", "file_name", "file", "notebook_path")
_COMMANDS = ("command", "cmd")
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_ACTIONS = {
    **dict.fromkeys(("write", "create", "save"), "written"),
    **dict.fromkeys(("edit", "replace", "update", "patch", "insert", "append"), "edited"),
    **dict.fromkeys(("read", "view", "open", "cat"), "read"),
    **dict.fromkeys(("grep", "search", "find", "glob", "list", "ls"), "searched"),
}


def _attached(messages: Sequence[Message]) -> Iterator[FileFact]:
    for block in messages[0].blocks if messages else ():
        if isinstance(block, MediaBlock) and block.address:
            yield FileFact(block.address, "attached")


def _files(use: ToolUseBlock, result: ToolResultBlock | None) -> Iterator[FileFact]:
    if result is None or result.is_error:
        return
    path = next((use.input[name] for name in _PATHS if isinstance(use.input.get(name), str)), "")
    words = [word.lower() for word in _WORDS.findall(use.name)]
    action = next((_ACTIONS[word] for word in words if word in _ACTIONS), "")
    if path and action:
        yield FileFact(str(path), action)


def _commands(use: ToolUseBlock, result: ToolResultBlock | None) -> Iterator[CommandFact]:
    value = next((use.input[name] for name in _COMMANDS if name in use.input), None)
    command = " ".join(map(str, value)) if isinstance(value, list) else str(value or "")
    if command.strip():
        yield CommandFact(" ".join(command.split())[:_COMMAND_CHARS], _exit_code(result))


_EXIT_CODE = re.compile(
    r"(?:exit(?:ed)?(?: with)?(?: code| status)|exit_?code|return_?code)[\"'>:= ]{1,4}(-?\d+)",
    re.IGNORECASE,
)


def _exit_code(result: ToolResultBlock | None) -> str:
    if result is None:
        return ""
    found = _EXIT_CODE.findall(_edges(result.content, 200))
    return found[-1] if found else ""


_NOISE = re.compile(r"</?\w+>|^\W*(?:exit|return)\W*(?:code|status)?\W*-?\d+\W*$", re.IGNORECASE)
_WRONG = re.compile(
    r"error|fail|exception|fatal|denied|not found|no such|cannot|can't|could not|unable|invalid"
    r"|expected|interrupted|timed? ?out",
    re.IGNORECASE,
)
_RAISED = re.compile(r"^(?:\w+\.)*\w*(?:Error|Exception|Exit|Interrupt|Warning)\b.*", re.MULTILINE)


def _errors(result: ToolResultBlock | None) -> Iterator[str]:
    """One line that says what went wrong, if anything did."""
    if result is None:
        return
    text = _edges(result.content, _EDGE_CHARS)
    raised = _RAISED.findall(text) if "Traceback (most recent call last)" in text else []
    if raised:
        yield _line(raised[-1])
    elif result.is_error:
        lines = [line for line in map(_line, text.split("\n")) if line]
        telling = (line for line in lines if _WRONG.search(line))
        yield from [next(telling, lines[0])] if lines else []


def _line(text: str) -> str:
    return " ".join(_NOISE.sub("", text).split())[:_ERROR_CHARS]


def _edges(text: str, chars: int) -> str:
    return text if len(text) <= 2 * chars else f"{text[:chars]}\n{text[-chars:]}"


def _last_answer(messages: Sequence[Message]) -> str:
    """The assistant's last text; what stands in brackets was put there by the program."""
    for message in reversed(messages):
        if message.role == "assistant":
            texts = [b.text.strip() for b in message.blocks if isinstance(b, TextBlock)]
            texts = [text for text in texts if text and not _BRACKETED.fullmatch(text)]
            if texts:
                return texts[-1]
    return ""


_BRACKETED = re.compile(r"\[[^\[\]\n]*\]")
