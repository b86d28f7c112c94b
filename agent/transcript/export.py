"""A session written to a file for others: Markdown, a web page, or JSON.

All forms are made from the log alone, folded and taken back turns included;
``docs/export.md`` describes the JSON form.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from html import escape
from itertools import groupby
from pathlib import Path
from typing import TypeAlias

from agent.errors import SessionError
from agent.messages import (
    MediaBlock,
    OpaqueBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    Usage,
    scrub,
)
from agent.transcript.files import open_private, write_all
from agent.transcript.log import Recovered, read_log
from agent.transcript.masking import mask
from agent.transcript.readable import passages
from agent.transcript.records import (
    AssistantEndRecord,
    BlockRecord,
    CompactionRecord,
    Entry,
    ModelRecord,
    Record,
    SessionRecord,
    ThinkingDroppedRecord,
    ToolResultRecord,
    UncompactRecord,
    UserRecord,
)
from agent.transcript.view import View, apply, build, close_turn
from agent.wire import message_to_wire, tool_to_wire, usage_to_wire

JSON_VERSION = 1
"""Changes when a reader of the JSON form would have to."""

Form: TypeAlias = Callable[[str, Recovered], str]
"""What a file says of a session, given its id and what its log holds."""


def export_session(folder: Path, session_id: str, target: Path) -> int:
    """Write a session to a new file, 0600, in the form that its suffix names.

    What looks like a credential is masked; the log itself stays whole.
    The session may be open anywhere. Returns how many damaged lines of the log had to
    be left out.

    :raises SessionError: the suffix is unknown, the file exists or cannot be written,
        or the log cannot be read.
    """
    form = FORMS.get(target.suffix.lower())
    if form is None:
        raise SessionError(
            f"cannot export to {target}: its name must end in one of {', '.join(FORMS)}"
        )
    found = read_log(folder / f"{session_id}.jsonl")
    data = mask(scrub(form(session_id, found))).encode("utf-8")
    try:
        descriptor = open_private(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    except FileExistsError:
        raise SessionError(f"{target} exists; choose another name") from None
    except OSError as error:
        raise SessionError(f"cannot write {target}: {error.strerror}") from error
    try:
        write_all(descriptor, data)
    except OSError as error:
        target.unlink(missing_ok=True)
        raise SessionError(f"cannot write {target}: {error.strerror}") from error
    finally:
        os.close(descriptor)
    return found.skipped


def markdown(_: str, found: Recovered) -> str:
    """The readable transcript, as the log gives it."""
    return "".join(text for _, text in passages(found.entries))


_STYLE = """
:root { color-scheme: light dark; }
body { max-width: 50rem; margin: 2rem auto; padding: 0 1rem; line-height: 1.5;
  font-family: system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.3rem; } h2 { font-size: 0.8rem; opacity: 0.7; margin: 0; }
div { white-space: pre-wrap; } .note, summary { opacity: 0.7; font-size: 0.85rem; }
section, details { margin: 1rem 0; } img { max-width: 100%; }
.user { border-left: 3px solid; padding-left: 0.8rem; margin-top: 2.5rem; }
.call div, details div { font: 0.8rem/1.4 ui-monospace, monospace; }
details div, .call div { border: 1px solid GrayText; border-radius: 4px; padding: 0.5rem; }
"""

_CONTROLS = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\t\n"}
_CONTROLS |= {0x7F: 0x2421} | dict.fromkeys(range(0x80, 0xA0), 0xFFFD)
"""What a page cannot hold, and the sign that is shown in its place."""


def web_page(session_id: str, found: Recovered) -> str:
    """A page that stands alone: no scripts, nothing loaded, nothing of the text is markup."""
    sections = "\n".join(_section(*passage) for passage in passages(found.entries))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:;
 style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width">
<title>Session {_plain(session_id)}</title>
<style>{_STYLE}</style>
</head>
<body>
{sections}
</body>
</html>
"""


def _section(record: Record, told: str) -> str:
    """One passage; ``told`` is what the readable transcript says in its place."""
    first, _, rest = told.partition("\n")
    heading = first.lstrip("# ")
    match record:
        case SessionRecord():
            return f"<h1>{_plain(heading)}</h1>\n<div class=note>{_plain(rest.strip())}</div>"
        case UserRecord(text=text, attached=attached, media=media):
            texts = (_folded(part.partition("\n")[0], part) for part in attached)
            return "".join((_shown("user", heading, text), *texts, *map(_picture, media)))
        case BlockRecord(TextBlock(text)):
            return _shown("assistant", "assistant", text)
        case BlockRecord(ToolUseBlock(call_id, name, arguments)):
            return _shown("call", f"tool call: {name} ({call_id})", _indented(arguments))
        case BlockRecord(ThinkingBlock(thinking)):
            return _folded("thinking", thinking)
        case BlockRecord(OpaqueBlock(data)):
            return _folded(f"a block of type {data.get('type')}", _indented(data))
        case ToolResultRecord(content=content, output_file=file, media=media):
            title = f"{heading} · whole output: {file}" if file else heading
            return "".join((_folded(title, content), *map(_picture, media)))
        case CompactionRecord(summary=summary):
            return _folded(heading, summary)
        case _:
            return f"<div class=note dir=auto>{_plain(told.strip())}</div>"


def _shown(kind: str, heading: str, text: str) -> str:
    body = f"<div dir=auto>{_plain(text)}</div>"
    return f"<section class={kind}><h2>{_plain(heading)}</h2>{body}</section>"


def _folded(heading: str, text: str) -> str:
    body = f"<div dir=auto>{_plain(text)}</div>"
    return f"<details><summary>{_plain(heading)}</summary>{body}</details>"


def _picture(media: MediaBlock) -> str:
    """An image in the page itself; of a document, the line that stands for it."""
    line = f"<div class=note>{_plain(media.line)}</div>"
    if not media.media_type.startswith("image/"):
        return line
    source = f"data:{_plain(media.media_type)};base64,{_plain(media.data)}"
    return f'<img alt="" src="{source}">{line}'


def _plain(text: str) -> str:
    return escape(text.replace("\r\n", "\n")).translate(_CONTROLS)


def _indented(value: Mapping[str, object]) -> str:
    return json.dumps(dict(value), ensure_ascii=False, indent=2)


def json_object(session_id: str, found: Recovered) -> str:
    """The session as one JSON object; see ``docs/export.md``."""
    records = [entry.record for entry in found.entries]
    begun = next((record for record in records if isinstance(record, SessionRecord)), None)
    models = [r.model for r in records if isinstance(r, SessionRecord | ModelRecord)]
    view = build(records)
    counting = {facts.number for facts in view.past} | {turn.number for turn in view.turns}
    turns = [_turn(entries, counting) for entries in _by_turn(found.entries)]
    compactions = _compactions(found.entries)
    facts = {
        "id": session_id,
        "parent": begun.parent if begun else "",
        "folder": begun.cwd if begun else "",
        "model": models[-1] if models else "",
        "system": begun.system if begun else "",
        "tools": [tool_to_wire(tool) for tool in begun.tools] if begun else [],
        "started": found.entries[0].ts if found.entries else None,
        "ended": found.entries[-1].ts if found.entries else None,
        "damaged_lines": found.skipped,
    }
    whole = {
        "format": "agent-chat-session",
        "version": JSON_VERSION,
        "session": facts,
        "turns": turns,
        "compactions": compactions,
        "usage": usage_to_wire(_usage(records)),
    }
    return json.dumps(whole, ensure_ascii=False, indent=1) + "\n"


def _by_turn(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    """The entries from each typed message on up to the next one."""
    number = 0

    def counted(entry: Entry) -> int:
        nonlocal number
        number += isinstance(entry.record, UserRecord)
        return number

    return (list(group) for key, group in groupby(entries, counted) if key)


def _turn(entries: Sequence[Entry], counting: set[int]) -> dict[str, object]:
    """One turn, word for word: what folds or drops something is passed over."""
    records = [entry.record for entry in entries]
    lossy = CompactionRecord | UncompactRecord | ModelRecord | ThinkingDroppedRecord
    view = reduce(apply, (r for r in records if not isinstance(r, lossy)), View())
    (turn,) = close_turn(view).turns
    return {
        "number": turn.number,
        "started": entries[0].ts,
        "rewound": turn.number not in counting,
        "messages": [message_to_wire(message) for message in turn.messages],
        "usage": usage_to_wire(_usage(records)),
    }


_TOLD = (
    "trigger",
    "method",
    "kept_from",
    "folded_turns",
    "tokens_before",
    "tokens_after",
    "seconds",
    "address",
    "summary",
)


def _compactions(entries: Sequence[Entry]) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    turn = 0
    for entry in entries:
        record = entry.record
        if isinstance(record, UserRecord):
            turn = record.turn
        elif isinstance(record, CompactionRecord):
            values = {name: getattr(record, name) for name in _TOLD}
            usage = usage_to_wire(record.usage)
            found.append(
                {"turn": turn, "time": entry.ts, "undone": False, **values, "usage": usage}
            )
        elif isinstance(record, UncompactRecord) and found:
            found[-1]["undone"] = True
    return found


def _usage(records: Sequence[Record]) -> Usage:
    """What requests and compactions have cost."""
    costly = (r for r in records if isinstance(r, AssistantEndRecord | CompactionRecord))
    return sum((record.usage for record in costly), Usage())


FORMS: Mapping[str, Form] = {".md": markdown, ".html": web_page, ".json": json_object}
"""The forms, by the suffix of the file."""
