"""Images and PDF documents as a request may carry them.

Servers refuse images that are too large in bytes or pixels, and with more than twenty
in a request already those of over 2,000 pixels; a refused image would be sent again with
every later request. So each is checked and made small before it comes into a conversation.
"""

from __future__ import annotations

import base64
import io
import math
import re
import warnings
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING

from agent.errors import MediaError
from agent.messages import MediaBlock
from agent.wire import PDF

if TYPE_CHECKING:
    from PIL.Image import Image

MEDIA_TYPES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".pdf": PDF,
}
"""What may be sent, by the ending of a file's name in lower case."""

MOST_SOURCE_BYTES = 50_000_000
"""Larger files are not read at all."""

LONGEST_EDGE = 1_568
"""Pixels. Servers scale larger images down to about this themselves."""

MOST_IMAGE_BYTES = 3_700_000
"""In base64, under the 5 MB that the Messages API allows for one image."""

MOST_PDF_BYTES = 10_000_000
"""A request may have 32 MB in all, base64 included."""

_PATCH = 28
"""A model sees an image in squares of so many pixels, a token for each."""

_TOKENS_PER_PAGE = 2_250
_BYTES_PER_PAGE = 50_000
"""A page of a PDF costs 1,500 to 3,000 tokens; pages that cannot be counted are guessed."""

_PAGE = re.compile(rb"/Type\s*/Page(?![a-zA-Z])")


def load_media(content: bytes, media_type: str) -> MediaBlock:
    """An image, scaled down where servers want it smaller, or a PDF document.

    Takes some hundred milliseconds for a large image.

    :raises MediaError: it is damaged, or too large and cannot be made smaller.
    """
    if media_type != PDF:
        return _load_image(content)
    if not content.startswith(b"%PDF-"):
        raise MediaError("it is not a PDF document")
    if len(content) > MOST_PDF_BYTES:
        raise MediaError(
            f"it has {len(content):,} bytes, and {MOST_PDF_BYTES:,} can be sent; "
            "take some pages, or its text"
        )
    pages = len(_PAGE.findall(content)) or math.ceil(len(content) / _BYTES_PER_PAGE)
    return _block(content, PDF, pages * _TOKENS_PER_PAGE)


def _load_image(content: bytes) -> MediaBlock:
    pillow = _pillow()
    try:
        with pillow.open(io.BytesIO(content)) as opened:
            opened.load()
            if _fits(opened, content):
                image, data, kind = opened, content, str(opened.format)
            else:
                image = _scaled(opened)
                data, kind = _encoded(image, str(opened.format))
            width, height = image.size
    # Pillow's readers of formats raise many kinds of errors for files that are damaged.
    except (
        OSError,
        SyntaxError,
        ValueError,
        TypeError,
        EOFError,
        pillow.DecompressionBombError,
        pillow.DecompressionBombWarning,
    ) as error:
        raise MediaError(f"it cannot be read as an image: {error}") from error
    tokens = math.ceil(width / _PATCH) * math.ceil(height / _PATCH)
    return _block(data, f"image/{kind.lower()}", tokens)


def _fits(image: Image, content: bytes) -> bool:
    known = f"image/{str(image.format).lower()}" in MEDIA_TYPES.values()
    return known and max(image.size) <= LONGEST_EDGE and len(content) <= MOST_IMAGE_BYTES


def _scaled(image: Image) -> Image:
    """The image upright, the first frame of an animation, within the longest edge."""
    from PIL import ImageOps

    upright = ImageOps.exif_transpose(image)
    upright.thumbnail((LONGEST_EDGE, LONGEST_EDGE))
    return upright


def _encoded(image: Image, format_name: str) -> tuple[bytes, str]:
    """The image as a file, and the name of its format: PNG, or JPEG where that is too large."""
    if format_name != "JPEG":
        target = io.BytesIO()
        image.save(target, "PNG")
        if target.tell() <= MOST_IMAGE_BYTES:
            return target.getvalue(), "PNG"
    target = io.BytesIO()
    image.convert("RGB").save(target, "JPEG", quality=85)
    return target.getvalue(), "JPEG"


def _block(content: bytes, media_type: str, tokens: int) -> MediaBlock:
    return MediaBlock(media_type, base64.b64encode(content).decode("ascii"), tokens)


@lru_cache(maxsize=1)
def _pillow() -> ModuleType:
    """Pillow's ``Image`` module, imported when the first image is read."""
    from PIL import Image

    # A small file of billions of pixels is an attack, not a picture.
    warnings.filterwarnings("error", category=Image.DecompressionBombWarning)
    return Image
