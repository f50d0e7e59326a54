"""Finds images in messages and answers of any API. Replaces their bytes by a name, a type and a size."""

import re
from collections.abc import Callable, Mapping
from typing import Final

from pytest_agentv.models.base import Json, JsonObject, Record
from pytest_agentv.models.records import record

_URI: Final = re.compile(
    r"data:(image/[a-z0-9.+-]+)(?:;[a-z-]+=[^;,\s]*)*;base64,([A-Za-z0-9+/]{8,}={0,2})", re.IGNORECASE
)
_TYPES: Final = ("image", "image_url", "input_image", "output_image")
_LONGEST_NAME: Final = 200


@record
class Image(Record):
    """An image of a message or an answer."""

    name: str
    type: str
    """For example `image/png`; empty if unknown."""
    size: int | None = None
    """Bytes."""
    data: str = ""
    """base64; empty if there are no bytes."""

    @property
    def text(self) -> str:
        """`photo.png (image/png, 12.3 kB)`."""
        size = "" if self.size is None else f"{self.size / 1000:,.1f} kB"
        about = ", ".join(filter(None, (self.type, size)))
        return f"{self.name} ({about})" if about else self.name

    def to_part(self) -> dict[str, Json]:
        """Return the image as a part of a message, without its bytes."""
        known = {"name": self.name, "media_type": self.type, "size": self.size}
        return {"type": "image", **{key: value for key, value in known.items() if value}}


Seen = Callable[[Image], None]
"""Called with each image whose bytes are replaced."""


def holds_images(text: str) -> bool:
    """Whether a text, or the JSON of a value, may hold images."""
    return "image" in text.lower()


def without_images(value: Json, seen: Seen) -> Json:
    """Return a text, or other JSON, with names in place of the bytes of images."""
    if isinstance(value, str):
        return named_in(value, seen)
    if isinstance(value, list | tuple):
        return [without_images(each, seen) for each in value]
    if not isinstance(value, Mapping):
        return value
    image = image_of(value)
    if image is None:
        return {key: without_images(each, seen) for key, each in value.items()}
    seen(image)
    return image.to_part()


def named_in(text: str, seen: Seen) -> str:
    """Return a text with names in place of the images in it."""
    if "data:image/" not in text:
        return text

    def name(match: re.Match[str]) -> str:
        image = _of_base64("image", match[1].lower(), match[2])
        seen(image)
        return f"[{image.text}]"

    return _URI.sub(name, text)


def image_of(part: JsonObject) -> Image | None:
    """Return the image of a message's part; None: the part is no image."""
    inline = part.get("inline_data", part.get("inlineData"))
    if isinstance(inline, Mapping):  # Gemini
        kind = _first(inline, "mime_type", "mimeType")
        return _of_base64("image", kind, _first(inline, "data")) if kind.startswith("image/") else None
    if part.get("type") not in _TYPES:
        return None
    source, link = part.get("source"), part.get("image_url")
    bytes_of = source if isinstance(source, Mapping) else part  # Anthropic, MCP
    if isinstance(bytes_of.get("data"), str):
        return _of_base64(_name(part), _first(bytes_of, "media_type", "mimeType"), bytes_of["data"])
    holder = next((each for each in (link, source) if isinstance(each, Mapping)), part)  # OpenAI
    where = _first(holder, "url", "value", "path", "image_url")
    match = _URI.fullmatch(where)
    if match is not None:
        return _of_base64(_name(part), match[1].lower(), match[2])
    size = part.get("size")
    kind = _first(part, "media_type", "mime_type", "mimeType")
    return Image(_name(part, where[:_LONGEST_NAME]), kind, size if isinstance(size, int) else None)


def _name(part: JsonObject, other: str = "") -> str:
    return _first(part, "name") or other or "image"


def _of_base64(name: str, kind: str, data: str) -> Image:
    clean = "".join(data.split())
    return Image(name, kind, len(clean) * 3 // 4 - clean[-2:].count("="), clean)


def _first(value: JsonObject, *keys: str) -> str:
    return next((found for key in keys if isinstance(found := value.get(key), str)), "")
