"""What a compaction saves of the turns that it folds, so that it is not found out again."""

from __future__ import annotations

from dataclasses import replace

from agent.transcript.records import CompactionRecord
from agent.transcript.view import View, apply


def with_facts(view: View, record: CompactionRecord) -> CompactionRecord:
    """The compaction of a view, with the facts of all turns that it folds or shortens."""
    after = apply(view, record)
    earlier = {turn.number: turn.facts for turn in view.turns}
    shortened = tuple(
        turn.facts
        for turn in after.turns
        if turn.facts is not None and turn.facts is not earlier[turn.number]
    )
    return replace(record, facts=after.past[len(view.past) :] + shortened)
