"""What a session tells the model first."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from agent.config import Settings
from agent.context.prompts import load_prompt
from agent.errors import ConfigError
from agent.messages import ToolSpec, scrub
from agent.tools.registry import ToolBox


@dataclass(frozen=True)
class Form:
    """What a model can take: ``short`` instructions only, and ``tools`` or none."""

    short: bool = False
    tools: bool = True


Instructions: TypeAlias = tuple[str, tuple[ToolSpec, ...]]
"""A system prompt and the tools' descriptions."""


def instructions(
    settings: Settings, cwd: Path, transcripts: str, box: ToolBox
) -> Mapping[Form, Instructions]:
    """What a new session in ``cwd`` may tell its model first, in every form.

    ``transcripts`` is the transcripts folder as the model is told it.

    :raises ConfigError: the file with another prompt cannot be read.
    """
    forms = [Form(short, tools) for short in (False, True) for tools in (False, True)]
    return {
        form: (
            _system_prompt(settings, cwd, transcripts, form),
            (box.short_specs if form.short else box.specs) if form.tools else (),
        )
        for form in forms
    }


def _system_prompt(settings: Settings, cwd: Path, transcripts: str, form: Form) -> str:
    """One system prompt; empty where none is wanted. See :func:`instructions`.

    The short form serves models without tools, too.
    """
    by_flag = settings.sources.get("system_file", "").startswith("flag")
    if settings.no_system and not by_flag:
        return ""
    if settings.system_file is not None:
        try:
            return scrub(settings.system_file.read_text(encoding="utf-8")).strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"cannot read the system prompt {settings.system_file}: {error}"
            ) from error
    return load_prompt(
        "system" if form.tools and not form.short else "system_short",
        tools=load_prompt("system_tools", transcripts=transcripts) if form.tools else "",
        cwd=scrub(str(cwd)),
        platform=f"{platform.system()} {platform.machine()}",
        transcripts=transcripts,
    )
