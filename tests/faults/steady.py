"""A process that goes on after failed writes: ``python -m tests.faults.steady FOLDER TURNS``.

It resumes the folder's newest session, or starts one, and writes some turns. It says
what a person would be told, a line each: ``saved N``, ``failed ...``, ``warned ...``,
``refused ...``, and at the end the session's id and a digest of its view. At a failure
space returns, where it can: the soft limit of a file's size is lifted, and the file that
a third argument names is removed.
"""

from __future__ import annotations

import hashlib
import os
import resource
import sys
from pathlib import Path

from agent.errors import AgentError
from agent.messages import TextBlock
from agent.transcript.records import BlockRecord, SessionRecord, UserRecord
from agent.transcript.sessions import find_session, session_ids
from agent.transcript.store import Transcript

SESSION = SessionRecord("s-1", "/", "test-model", "Be brief.", ())


def say(*words: object) -> None:
    # Another call than the one that faults are injected into.
    os.writev(1, [f"{' '.join(map(str, words))}\n".encode()])


def digest(transcript: Transcript) -> str:
    """The view in a few letters."""
    return hashlib.sha256(repr(transcript.view).encode()).hexdigest()[:12]


def message(turn: int) -> str:
    return f"message {turn}. " + "x" * (turn * 97 % 900)


def opened(folder: Path) -> Transcript:
    """The newest session, or a new one."""
    if session_ids(folder):
        return Transcript.open(folder, find_session(folder, None), str(folder))
    return Transcript.start(folder, str(folder), SESSION)


def misplaced(transcript: Transcript, turn: int) -> bool:
    """Whether an address names other lines than the turn's; what is not there yet is not."""
    try:
        lines = transcript.readable_path.read_text().split("\n")
    except OSError:
        return False
    place = transcript.address(turn, turn).split(", ")[0]
    first, last = (int(number) for number in place.rsplit(":", 1)[1].split("-"))
    return last < len(lines) and message(turn) not in "\n".join(lines[first - 1 : last])


def main() -> None:
    folder, turns = Path(sys.argv[1]), int(sys.argv[2])
    filler = Path(sys.argv[3]) if len(sys.argv) > 3 else None
    try:
        transcript = opened(folder)
    except AgentError as error:
        say("refused", error)
        return
    saved = []
    for _ in range(turns):
        turn = transcript.next_turn
        try:
            transcript.append(UserRecord(turn, message(turn)))
            saved.append(turn)
            say("saved", turn)
            transcript.append(BlockRecord(TextBlock("answer " * (turn % 50))))
        except AgentError as error:
            say("failed", error)
            _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
            if filler is not None:
                filler.unlink(missing_ok=True)
        for warning in transcript.take_warnings():
            say("warned", warning)
    if any(misplaced(transcript, turn) for turn in saved):
        say("misplaced", transcript.readable_path)
    say("session", transcript.session_id, digest(transcript))
    transcript.close()


if __name__ == "__main__":
    main()
