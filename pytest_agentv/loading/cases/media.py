"""Recognizes the type of a file by its first bytes, not by its name."""

import re
from hashlib import sha256
from pathlib import Path
from typing import Final

from pytest_agentv.errors import locate
from pytest_agentv.loading.file_words import alone
from pytest_agentv.loading.places import Place
from pytest_agentv.models.messages import OTHER_MEDIA, PDF, Media, Role

_PDF_WITHIN: Final = 1024
"""A PDF begins within so many bytes. Readers allow other bytes before it."""

_ADDRESS: Final = re.compile(r"(?i)(https?|data|file|gs|s3):(?=//|.*,)")

_STARTS: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


def media_of(data: bytes) -> Media | None:
    """Return the media of a picture, a PDF, or another binary file; None for a text."""
    kind = _media_type(data)
    return None if kind is None else Media(kind, sha256(data).hexdigest(), len(data))


def _media_type(data: bytes) -> str | None:
    for start, kind in _STARTS:
        if data.startswith(start):
            return kind
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    if data.startswith(b"%PDF-") or (b"%PDF-" in data[:_PDF_WITHIN] and b"\0" in data):
        return PDF
    return OTHER_MEDIA if b"\0" in data else None


def is_address(value: str, place: Place) -> bool:
    """Whether a value is a URL instead of a path. Notes an error if it is."""
    scheme = _ADDRESS.match(value)
    if scheme is None:
        return False
    what = "the path of a file: what lies elsewhere may change, and no result would tell"
    place.at("value").expected(what, f"{scheme[0]}…", alone(value) or "download it, and write its path")
    return True


def is_picture(path: Path, media: Media | None, role: Role, place: Place) -> bool:
    """Whether the file of an image item can be sent. Notes an error if not."""
    file, value = locate(path, None), place.at("value")
    if media is None or media.media_type == PDF:
        what = "a text" if media is None else "a PDF"
        value.error(f"expected a picture (PNG, JPEG, GIF or WebP), but {file} is {what}", "write type: file")
    elif media.fault is not None:
        value.error(f"{file} {media.fault}")
    elif role != "user":
        place.error(f"models take pictures in messages of the user only, and the role of this one is {role}")
    else:
        return True
    return False
