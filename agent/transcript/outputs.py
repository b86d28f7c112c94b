"""The folder of a session: whole tool outputs, and what images it has seen."""

from __future__ import annotations

import base64
import re
from dataclasses import replace
from pathlib import Path

from agent.messages import MediaBlock
from agent.transcript.files import private_folder, replace_private, transcripts_folder

_MAX_NAME = 80


def save_output(folder: Path, name: str, content: bytes) -> Path:
    """Write a new private file in a session's folder and return its path.

    It is named ``NNNN-<name>``, the name made safe and the number the next free one.

    :raises TranscriptError: ``folder``, or the folder above it, is a symbolic link or
        cannot be made.
    :raises OSError: the file cannot be written; there is none then.
    """
    transcripts_folder(folder.parent)
    private_folder(folder)
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-")[-_MAX_NAME:] or "output"
    numbers = (re.match(r"\d{4,}(?=-)", entry.name) for entry in folder.iterdir())
    number = max((int(found[0]) for found in numbers if found), default=0) + 1
    path = folder / f"{number:04d}-{safe}"
    replace_private(path, content)
    return path


def keep_media(media: MediaBlock, folder: Path, label: str) -> MediaBlock:
    """The image or document with its address, saved in a session's folder unless it has one.

    ``label`` is the transcripts folder as the model is told it.

    :raises TranscriptError: as :func:`save_output` does.
    :raises OSError: likewise.
    """
    if media.address:
        return media
    name = media.media_type.replace("/", ".")
    file = save_output(folder, name, base64.b64decode(media.data))
    return replace(media, address=f"{label}/{folder.name}/{file.name}")
