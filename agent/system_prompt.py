"""What a session tells the model first."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from agent.config import Settings
from agent.context.prompts import load_prompt
from agent.errors import ConfigError
from agent.folders import user_folder
from agent.instruction_files import Instructions, read_instructions
from agent.messages import ToolSpec, scrub
from agent.tools.registry import ToolBox


@dataclass(frozen=True)
class Form:
    """What a model can take: ``short`` instructions only, and ``tools`` or none."""

    short: bool = False
    tools: bool = True


Frame: TypeAlias = tuple[str, tuple[ToolSpec, ...]]
"""A system prompt and the tools' descriptions."""


class SystemPrompts:
    """The system prompts of the sessions of a folder, which instruction files are part of.

    A session keeps the one that it began with, whatever happens to the files.
    ``transcripts`` is the transcripts folder as the model is told it.
    """

    def __init__(self, settings: Settings, cwd: Path, transcripts: str, box: ToolBox) -> None:
        self._settings = settings
        self._cwd = cwd
        self._transcripts = transcripts
        self._box = box
        self._notices: list[str] = []
        self._told: set[str] = set()

    def new(self, form: Form) -> Frame:
        """What a session that begins now tells its model; no prompt where none is wanted.

        :raises ConfigError: the file with another prompt cannot be read.
        """
        specs = self._box.short_specs if form.short else self._box.specs
        tools = specs if form.tools else ()
        text = _prompt(self._settings, self._cwd, self._transcripts, form)
        if not text:
            return "", tools
        instructions = self._instructions()
        self._notices += instructions.notices
        return "\n\n".join(filter(None, (text, instructions.text))), tools

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


def _prompt(settings: Settings, cwd: Path, transcripts: str, form: Form) -> str:
    """The text before the instructions. The short one serves models without tools, too."""
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
