"""What makes an image or a document valid, and what it costs.

The limits are those of the Messages API's documentation; the messages are its own words,
as public reports quote them.
"""

from __future__ import annotations

import base64
import binascii
import io
import math
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from PIL import Image, UnidentifiedImageError

from tests.server.wire import JsonObject, blocks

IMAGE_TYPES = ("image/gif", "image/jpeg", "image/png", "image/webp")
MOST = 100
MANY = 20
MOST_BYTES = 5 * 1024 * 1024
MOST_PIXELS = 8_000
MOST_PIXELS_OF_MANY = 2_000
PAGE_TOKENS = 2_500
PATCH = 28


def media_violations(messages: list[JsonObject]) -> Iterator[str]:
    """The API's messages for images and documents that it refuses."""
    found = list(_placed(messages))
    if len(found) > MOST:
        yield f"Too many images and documents: {len(found)} > {MOST}"
    for where, block in found:
        source = block.get("source")
        if not isinstance(source, dict) or source.get("type") != "base64":
            yield f"{where}.source: Input should be a valid dictionary"
            return
        if block["type"] == "image":
            yield from _image(f"{where}.source.base64", source, many=len(found) > MANY)
        elif source.get("media_type") != "application/pdf":
            yield f"{where}.source.base64.media_type: Input should be 'application/pdf'"
        elif not _decoded(str(source.get("data"))).startswith(b"%PDF-"):
            yield f"{where}.source.base64.data: The PDF specified was not valid."


def has_media(messages: list[JsonObject]) -> bool:
    """Whether a history has an image or a document."""
    return next(_placed(messages), None) is not None


def media_tokens(block: Mapping[str, Any]) -> int:
    """An image's squares of 28 pixels; a document's pages at 2,500 tokens."""
    data = _decoded(str(block["source"]["data"]))
    if block["type"] == "document":
        return PAGE_TOKENS * max(len(re.findall(rb"/Type\s*/Page\b(?!s)", data)), 1)
    width, height = _size(data) or (0, 0)
    return math.ceil(width / PATCH) * math.ceil(height / PATCH)


def _placed(messages: list[JsonObject]) -> Iterator[tuple[str, JsonObject]]:
    for index, message in enumerate(messages):
        for position, block in enumerate(blocks(message["content"])):
            where = f"messages.{index}.content.{position}"
            inner = blocks(block.get("content") or ()) if block["type"] == "tool_result" else ()
            for place, part in ((where, block), *((f"{where}.tool_result", it) for it in inner)):
                if part["type"] in ("image", "document"):
                    yield f"{place}.{part['type']}", part


def _image(where: str, source: JsonObject, *, many: bool) -> Iterator[str]:
    if source.get("media_type") not in IMAGE_TYPES:
        yield f"{where}.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or ..."
        return
    data = str(source.get("data"))
    if len(data) > MOST_BYTES:
        yield f"{where}: image exceeds 5 MB maximum: {len(data)} bytes > {MOST_BYTES} bytes"
    size = _size(_decoded(data))
    if size is None:
        yield "Could not process image"
        return
    if max(size) > MOST_PIXELS:
        yield (
            f"{where}.data: At least one of the image dimensions exceed max allowed size: "
            f"{MOST_PIXELS} pixels"
        )
    if many and max(size) > MOST_PIXELS_OF_MANY:
        yield (
            f"{where}.data: At least one of the image dimensions exceed max allowed size for "
            f"many-image requests: {MOST_PIXELS_OF_MANY} pixels"
        )


def _decoded(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except binascii.Error:
        return b""


@lru_cache(maxsize=512)
def _size(data: bytes) -> tuple[int, int] | None:
    """Width and height in pixels; ``None`` if it is no whole image."""
    try:
        with Image.open(io.BytesIO(data)) as image:
            image.load()
            return image.size
    except (UnidentifiedImageError, OSError, SyntaxError):
        return None
