"""The command that searches past sessions, printed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime

from rich.console import Console
from rich.text import Text

from agent.transcript.search import Hit
from agent.ui.sanitize import sanitize


def print_hits(hits: Sequence[Hit], words: str, *, as_json: bool) -> None:
    """Print where words were found, best places first; or one JSON object a line."""
    console = Console(highlight=False)
    if as_json:
        for hit in hits:
            console.out(json.dumps(asdict(hit), ensure_ascii=False))
        return
    for hit in hits:
        when = datetime.fromtimestamp(hit.when).astimezone()
        place = Text(sanitize(hit.address), "bold")
        place.append(f" · {hit.kind} · {when:%Y-%m-%d %H:%M}", "dim not bold")
        console.print(place, soft_wrap=True)
        console.print(Text(f"  {sanitize(hit.excerpt)}"), soft_wrap=True)
    if not hits:
        console.print(Text(f"nothing found for {sanitize(words)!r} in this folder's sessions"))
