"""Hypothesis strategies for conversations, as records."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from agent.messages import TextBlock, ThinkingBlock, ToolUseBlock, Usage
from agent.transcript.records import (
    AssistantEndRecord,
    BlockRecord,
    CompactionRecord,
    DiscardedRecord,
    InterruptedRecord,
    ModelRecord,
    PartialRecord,
    Record,
    RewindRecord,
    SessionRecord,
    ThinkingDroppedRecord,
    ToolResultRecord,
    ToolStartRecord,
    UnknownRecord,
    UserRecord,
)
from tests.harness import PICTURE

SESSION = SessionRecord("s-1", "/tmp", "test-model", "Be brief.", ())

texts = st.text(min_size=1, max_size=60).filter(lambda text: bool(text.strip()))
any_text = st.text(max_size=60)


@dataclass
class Story:
    """Writes records that a loop could have written; ``records`` grows."""

    records: list[Record] = field(default_factory=lambda: [SESSION])
    turn: int = 0
    calls: int = 0
    kept_from: int = 1

    def user(self, text: str, images: int = 0) -> None:
        self.turn += 1
        media = tuple(
            replace(PICTURE, address=f".transcripts/s-1/{self.turn}-{n}.png") for n in range(images)
        )
        attached = ("[Attached: notes.txt]\nbuy walnuts",) if images else ()
        self.records.append(UserRecord(self.turn, text, media, attached))

    def blocks(self, thinking: bool, text: str, count: int) -> list[str]:
        if text and len(text) % 3 == 0:
            self.records.append(PartialRecord(text[: len(text) // 2]))
        if thinking:
            self.records.append(BlockRecord(ThinkingBlock("hm", "sig")))
        if text:
            self.records.append(BlockRecord(TextBlock(text)))
        ids = []
        for _ in range(count):
            self.calls += 1
            ids.append(f"toolu_{self.calls}")
            self.records.append(BlockRecord(ToolUseBlock(ids[-1], "shell", {"command": "ls"})))
        return ids

    def end(self, stop_reason: str) -> None:
        usage = Usage(1_000 + len(self.records), 20)
        self.records.append(
            AssistantEndRecord(stop_reason, "test-model", usage, prompt_tokens=usage.prompt_tokens)
        )

    def result(self, call_id: str, text: str) -> None:
        self.records.append(ToolStartRecord(call_id))
        media = (replace(PICTURE, address=f".transcripts/s-1/{call_id}.png"),)
        shown = media if len(text) % 5 == 0 else ()
        self.records.append(ToolResultRecord(call_id, text, is_error=False, media=shown))

    def compaction(self, keep: int, stub: bool, shed: int) -> None:
        cut = max(self.turn - keep + 1, self.kept_from)
        results = [r for r in self.records if isinstance(r, ToolResultRecord)]
        replaced = {r.tool_use_id: "[stub]" for r in results} if stub else {}
        self.kept_from = cut
        summary = "what happened before" if cut > 1 else ""
        self.records.append(
            CompactionRecord("auto", "summary", cut, summary, summary, replaced=replaced, shed=shed)
        )


@st.composite
def stories(draw: st.DrawFn) -> list[Record]:
    """Records of a session that may be interrupted at any point."""
    story = Story()
    for _ in range(draw(st.integers(1, 6))):
        story.user(draw(texts), draw(st.integers(0, 2)))
        for _ in range(draw(st.integers(0, 3))):
            text = draw(any_text)
            ids = story.blocks(draw(st.booleans()), text, draw(st.integers(0, 3)))
            if draw(st.booleans()) and ids:
                story.records.append(UnknownRecord("telemetry", {"x": 1}))
            if draw(st.integers(0, 9)) == 0:
                story.records.append(DiscardedRecord("cut off"))
                continue
            paused = not ids and draw(st.integers(0, 5)) == 0
            story.end("tool_use" if ids else "pause_turn" if paused else "end_turn")
            if paused:
                continue
            answered = ids[: draw(st.integers(0, len(ids)))] if draw(st.booleans()) else ids
            for call_id in answered:
                story.result(call_id, draw(any_text))
            if not ids or len(answered) < len(ids):
                break
        story.records.extend(
            draw(
                st.lists(
                    st.sampled_from(
                        [
                            InterruptedRecord("by the user"),
                            ModelRecord("other-model"),
                            ThinkingDroppedRecord("refused"),
                        ]
                    ),
                    max_size=1,
                )
            )
        )
        if draw(st.integers(0, 3)) == 0:
            story.compaction(draw(st.integers(0, 3)), draw(st.booleans()), draw(st.integers(0, 3)))
        if draw(st.integers(0, 5)) == 0:
            story.records.append(RewindRecord(draw(st.integers(1, story.turn))))
    return story.records


@st.composite
def damaged_stories(draw: st.DrawFn) -> list[Record]:
    """Records of a session from which damage on the disk has taken some."""
    records = draw(stories())
    lost = draw(st.sets(st.integers(1, max(len(records) - 1, 1)), max_size=5))
    return [record for position, record in enumerate(records) if position not in lost]
