"""Thumbnails: the images in results, up to a limit of bytes, and only types that are safe in a browser."""

import base64
import binascii
from collections.abc import Callable
from typing import Final

from pytest_agentv.models.base import Json, JsonObject
from pytest_agentv.reporting.conversations.images import Image, named_in, without_images

MOST_BYTES: Final = 100_000
"""The limit of one image."""
MOST_IN_ALL: Final = 3_000_000
"""The limit of all images of a report. Later ones are shown by name only."""
MOST_PIXELS: Final = 16_000_000
"""A small file can hold an image that fills the memory of a browser."""


class Gallery:
    """The images of a report."""

    def __init__(self) -> None:
        self._left = MOST_IN_ALL
        self.is_used = False
        """Whether any image is shown."""

    def take_out(self, value: Json) -> tuple[Json, list[JsonObject]]:
        """Return a text, or other JSON, with names in place of images; and these images."""
        found: list[JsonObject] = []
        return without_images(value, lambda image: found.append(self._shown(image))), found

    def take_out_of_text(self, text: str) -> tuple[str, list[JsonObject]]:
        """Return a text with names in place of images; and these images."""
        found: list[JsonObject] = []
        return named_in(text, lambda image: found.append(self._shown(image))), found

    def _shown(self, image: Image) -> JsonObject:
        """Return an image's name, type and size, and its bytes if they fit into the limit."""
        size = image.size or 0
        kind = _drawable(image.data) if 0 < size <= min(MOST_BYTES, self._left) else None
        if kind is None:
            return {"text": image.text}
        self._left -= size
        self.is_used = True
        return {"text": image.text, "source": f"data:{kind};base64,{image.data}"}


def _drawable(data: str) -> str | None:
    """Return the type of an image by its bytes; None: not safe to draw."""
    try:
        found = base64.b64decode(data, validate=True)
        for mark, kind, measure in _KINDS:
            if found.startswith(mark):
                width, height = measure(found)
                return kind if 0 < width * height <= MOST_PIXELS else None
    except (binascii.Error, ValueError, IndexError):
        pass
    return None


def _png(data: bytes) -> tuple[int, int]:
    return int.from_bytes(data[16:20]), int.from_bytes(data[20:24])


def _gif(data: bytes) -> tuple[int, int]:
    return int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")


def _jpeg(data: bytes) -> tuple[int, int]:
    """Return the size in the frame header of a JPEG; 0, 0 without one."""
    at = 2
    while data[at] == 0xFF:
        marker, length = data[at + 1], int.from_bytes(data[at + 2 : at + 4])
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return int.from_bytes(data[at + 7 : at + 9]), int.from_bytes(data[at + 5 : at + 7])
        at += 2 + length
    return 0, 0


_KINDS: Final[tuple[tuple[bytes, str, Callable[[bytes], tuple[int, int]]], ...]] = (
    (b"\x89PNG\r\n\x1a\n", "image/png", _png),
    (b"GIF8", "image/gif", _gif),
    (b"\xff\xd8\xff", "image/jpeg", _jpeg),
)
"""Other types, such as SVG, are shown by name only."""
