"""The prompts, as Markdown files."""

from __future__ import annotations

import re
from pathlib import Path


def load_prompt(name: str, **values: str) -> str:
    """The prompt ``<name>.md`` with ``{placeholders}`` filled in."""
    text = Path(__file__).with_name(f"{name}.md").read_text(encoding="utf-8")
    # In one pass: what is filled in may contain braces of its own.
    return re.sub(r"\{(\w+)\}", lambda found: values.get(found[1], found[0]), text).strip()
