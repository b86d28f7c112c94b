"""A process that writes records and says which are saved: ``python -m tests.faults.writer``."""

from __future__ import annotations

import sys
from pathlib import Path

from agent.errors import SessionError
from agent.messages import TextBlock
from agent.transcript.records import BlockRecord, SessionRecord, UserRecord
from agent.transcript.store import Transcript

SESSION = SessionRecord("s-1", "/", "test-model", "Be brief.", ())


def main() -> None:
    """Append until killed; each number on stdout is a record that counts as saved."""
    folder = Path(sys.argv[1])
    try:
        if (folder / "s-1.jsonl").exists():
            transcript = Transcript.open(folder, "s-1", str(folder))
        else:
            transcript = Transcript.start(folder, str(folder), SESSION)
    except SessionError:
        sys.stdout.write("refused\n")
        return
    while True:
        turn = transcript.next_turn
        transcript.append(UserRecord(turn, f"message {turn} " + "x" * (turn * 37 % 4_000)))
        sys.stdout.write(f"{turn}\n")
        sys.stdout.flush()
        transcript.append(BlockRecord(TextBlock("answer " * (turn % 50))))


if __name__ == "__main__":
    main()
