"""The prompts, as Markdown files."""

from __future__ import annotations

from importlib.resources import files


def load_prompt(name: str, **values: str) -> str:
    """The prompt ``<name>.md`` with ``{placeholders}`` filled in."""
    text = files(__name__).joinpath(f"{name}.md").read_text(encoding="utf-8")
    for key, value in values.items():
        text = text.replace(f"{{{key}}}", value)
    return text.strip()
