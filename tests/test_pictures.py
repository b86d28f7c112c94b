"""The README's picture is there, shows what it is for, and loads nothing."""

from __future__ import annotations

import re
from pathlib import Path
from xml.parsers import expat

PICTURE = Path(__file__).parents[1] / "docs" / "agent-chat.svg"


def words_of(svg: str) -> str:
    """The text of an image, styles included. Raises ``ExpatError`` for what is no XML."""
    texts: list[str] = []
    parser = expat.ParserCreate()
    parser.CharacterDataHandler = texts.append
    parser.Parse(svg, True)
    return "".join(texts).replace("\N{NO-BREAK SPACE}", " ")


def test_the_picture_shows_a_conversation_that_was_folded() -> None:
    svg = PICTURE.read_text(encoding="utf-8")
    assert svg.startswith("<svg ")
    words = words_of(svg)
    for part in ("agent chat", "📦 folded", "read_file", "shell", "context ~"):
        assert part in words
    assert not re.search(r"/(?:tmp|home|root|Users|var|private)\b", words)


def test_the_picture_loads_nothing() -> None:
    svg = PICTURE.read_text(encoding="utf-8")
    assert "@font-face" not in svg
    assert "@import" not in svg
    addresses = re.findall(r"""(?:url\(|href=)\s*["']?([^"')\s]*)""", svg)
    assert addresses
    assert [address for address in addresses if not address.startswith("#")] == []
