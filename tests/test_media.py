"""Images and documents: checked, made small, and refused with the reason."""

from __future__ import annotations

import base64
import io
import random
import struct
import zlib

import pytest
from PIL import Image

from agent.errors import MediaError
from agent.media import LONGEST_EDGE, MOST_IMAGE_BYTES, MOST_PDF_BYTES, load_media
from agent.messages import Message, TextBlock
from agent.wire import message_to_wire
from tests.server.media import media_tokens, media_violations
from tests.server.wire import JsonObject


def picture(width: int, height: int, kind: str = "PNG", mode: str = "RGB") -> bytes:
    target = io.BytesIO()
    Image.new(mode, (width, height), "teal" if mode == "RGB" else 7).save(target, kind)
    return target.getvalue()


def noise(width: int, height: int) -> bytes:
    """A picture that no lossless format makes small."""
    pixels = random.Random(3).randbytes(width * height * 3)
    target = io.BytesIO()
    Image.frombytes("RGB", (width, height), pixels).save(target, "PNG")
    return target.getvalue()


def wire(content: bytes, media_type: str) -> JsonObject:
    message = Message("user", (TextBlock("look"), load_media(content, media_type)))
    sent = message_to_wire(message)
    assert list(media_violations([sent])) == []
    content_field = sent["content"]
    assert isinstance(content_field, list)
    block = content_field[1]
    assert isinstance(block, dict)
    return block


def size(block: JsonObject) -> tuple[int, int]:
    with Image.open(io.BytesIO(base64.b64decode(block["source"]["data"]))) as image:
        return image.size


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
def test_a_small_image_is_sent_as_it_is(kind: str) -> None:
    content = picture(300, 200, kind)
    block = wire(content, "image/png")
    assert base64.b64decode(block["source"]["data"]) == content
    assert block["source"]["media_type"] == f"image/{kind.lower()}"
    assert load_media(content, "image/png").tokens == media_tokens(block) == 11 * 8


@pytest.mark.parametrize(("width", "height"), [(9_000, 300), (300, 9_000), (2_500, 2_500)])
def test_a_large_image_is_scaled_down(width: int, height: int) -> None:
    assert max(size(wire(picture(width, height), "image/png"))) == LONGEST_EDGE


def test_what_stays_too_large_becomes_a_jpeg() -> None:
    block = wire(noise(1_500, 1_500), "image/png")
    assert block["source"]["media_type"] == "image/jpeg"
    assert len(block["source"]["data"]) <= MOST_IMAGE_BYTES * 4 / 3
    assert size(block) == (1_500, 1_500)


def test_other_formats_and_colours_become_png() -> None:
    assert wire(picture(50, 40, "TIFF"), "image/png")["source"]["media_type"] == "image/png"
    assert max(size(wire(picture(2_000, 40, "PNG", "P"), "image/png"))) == LONGEST_EDGE


def test_a_photograph_is_turned_upright() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    target = io.BytesIO()
    Image.new("RGB", (3_000, 1_000)).save(target, "JPEG", exif=exif)
    assert size(wire(target.getvalue(), "image/jpeg")) == (523, LONGEST_EDGE)


def bomb() -> bytes:
    """A file of some hundred bytes that says it has 10,000 million pixels."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        )

    head = struct.pack(">IIBBBBB", 100_000, 100_000, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 99))


DAMAGED = {
    "empty": b"",
    "text": b"not an image",
    "cut off": picture(300, 300)[:-40],
    "head only": picture(300, 300)[:40],
    "bomb": bomb(),
    "altered": picture(40, 40)[:60] + b"\0" * 40,
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_image_is_refused(content: bytes) -> None:
    with pytest.raises(MediaError, match="cannot be read as an image"):
        load_media(content, "image/png")


def document(pages: int) -> bytes:
    return b"%PDF-1.4\n" + b"<< /Type /Pages >>\n" + b"<< /Type /Page /Parent 1 0 R >>\n" * pages


def test_a_document_costs_its_pages() -> None:
    block = wire(document(3), "application/pdf")
    assert block["type"] == "document"
    assert load_media(document(3), "application/pdf").tokens == 3 * 2_250
    packed = b"%PDF-1.7\n" + b"x" * 120_000
    assert load_media(packed, "application/pdf").tokens == 3 * 2_250


def test_a_document_that_is_none_or_too_large_is_refused() -> None:
    with pytest.raises(MediaError, match="not a PDF"):
        load_media(b"<html>", "application/pdf")
    with pytest.raises(MediaError, match="take some pages"):
        load_media(b"%PDF-1.4" + b"x" * MOST_PDF_BYTES, "application/pdf")
