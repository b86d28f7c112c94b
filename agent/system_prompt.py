"""What a session tells the model first."""

from __future__ import annotations

import platform
from pathlib import Path

from agent.config import Settings
from agent.context.prompts import load_prompt
from agent.errors import ConfigError
from agent.messages import scrub


def system_prompt(settings: Settings, cwd: Path, transcripts: str) -> str:
    """The system prompt of a new session in ``cwd``; empty where none is wanted.

    ``transcripts`` is the transcripts folder as the model is told it.

    :raises ConfigError: the file with another prompt cannot be read.
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
        "system",
        cwd=scrub(str(cwd)),
        platform=f"{platform.system()} {platform.machine()}",
        transcripts=transcripts,
    )
