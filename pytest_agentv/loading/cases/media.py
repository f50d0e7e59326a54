"""Tells what a file holds by its first bytes, whatever its name says."""

from typing import Final

from pytest_agentv.models.messages import OTHER_MEDIA, PDF

_PDF_WITHIN: Final = 1024
"""Where a PDF begins: readers allow so many bytes of something else before it."""

_STARTS: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


def media_type(data: bytes) -> str | None:
    """Return the media type of a picture, a PDF, or another file that is no text; None for a text."""
    for start, kind in _STARTS:
        if data.startswith(start):
            return kind
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    if data.startswith(b"%PDF-") or (b"%PDF-" in data[:_PDF_WITHIN] and b"\0" in data):
        return PDF
    return OTHER_MEDIA if b"\0" in data else None
