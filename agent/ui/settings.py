"""``agent config`` and ``agent models``: what holds, and what there is to choose from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from urllib.parse import urlsplit

from rich.cells import cell_len
from rich.console import Console

from agent.config import SETTING_KEYS, Settings
from agent.folders import shown_path
from agent.providers.base import OfferedModel
from agent.ui import figures
from agent.ui.sanitize import reveal

_SECRET_KEYS = frozenset({"api_key", "auth_token"})


def print_settings(settings: Settings, file: Path, named: bool) -> None:
    """Print every setting with its value and its source; of a key only that it is set."""
    rows = [
        (key, _value(key, getattr(settings, key)), settings.sources[key]) for key in SETTING_KEYS
    ]
    for name, model in settings.models.items():
        stated = {key: value for key, value in asdict(model).items() if value is not None}
        said = ", ".join(f"{key} {value:g}" for key, value in stated.items())
        rows.append((f"models.{name}", said or "nothing", settings.sources["models"]))
    there = "" if named or file.exists() else " (not there)"
    _print_columns([("configuration file", f"{shown_path(file)}{there}")])
    _print_columns(rows)


def print_models(models: Iterable[OfferedModel], current: str) -> None:
    """Print models with their limits; the one that is set has a mark."""
    rows = [
        (
            f"{'*' if model.id == current else ' '} {model.id}",
            f"window {_tokens(model.window)}",
            f"output {_tokens(model.max_output)}",
        )
        for model in models
    ]
    _print_columns(rows)


def _tokens(limit: int | None) -> str:
    return "not told" if limit is None else figures.tokens(limit)


def _value(key: str, value: object) -> str:
    if value is None:
        return "not set"
    if key in _SECRET_KEYS:
        return "set, not shown"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:g}"
    password = urlsplit(str(value)).password if key == "base_url" else None
    return str(value).replace(f":{password}@", ":***@") if password else str(value)


def _print_columns(rows: Sequence[Sequence[str]]) -> None:
    """Print rows with aligned columns, whole even where they are wider than the screen."""
    cells = [[reveal(cell, one_line=True) for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
    console = Console(highlight=False)
    for row in cells:
        padded = (
            cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)
        )
        console.out("  ".join(padded).rstrip())
