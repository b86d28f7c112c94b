"""What a session tells the model first."""

from __future__ import annotations

import platform
from pathlib import Path

from agent.config import Settings
from agent.context.prompts import load_prompt
from agent.errors import ConfigError
from agent.folders import user_folder
from agent.instruction_files import Instructions, read_instructions
from agent.messages import scrub


class SystemPrompts:
    """The system prompts of the sessions of a folder, which instruction files are part of.

    A session keeps the one that it began with, whatever happens to the files.
    ``transcripts`` is the transcripts folder as the model is told it.
    """

    def __init__(self, settings: Settings, cwd: Path, transcripts: str) -> None:
        self._settings = settings
        self._cwd = cwd
        self._transcripts = transcripts
        self._notices: list[str] = []
        self._told: set[str] = set()

    def new(self) -> str:
        """The system prompt of a session that begins now; empty where none is wanted.

        :raises ConfigError: the file with another prompt cannot be read.
        """
        text = _prompt(self._settings, self._cwd, self._transcripts)
        if not text:
            return ""
        instructions = self._instructions()
        self._notices += instructions.notices
        return "\n\n".join(filter(None, (text, instructions.text)))

    def take_notices(self, system: str) -> list[str]:
        """What of the files could not be used and was not told yet, a line each.

        So is, once, that they have changed since a session with the prompt ``system`` began.
        """
        notices, self._notices = self._notices, []
        if not system or system in self._told:
            return notices
        if changed := self._instructions().differences(system):
            self._told.add(system)
            notices.append(
                f"{', '.join(changed)} changed since this session began: it goes on with the "
                "old text, /reset takes up the new one"
            )
        return notices

    def _instructions(self) -> Instructions:
        return read_instructions(self._cwd, user_folder())


def _prompt(settings: Settings, cwd: Path, transcripts: str) -> str:
    """The text before the instructions."""
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
