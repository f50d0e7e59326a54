"""Cuts conversations to what a results file holds, and takes the images out of them."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pytest_agentv.model.base import Json, JsonObject, Record
from pytest_agentv.model.text import compact_json

_URI: Final = re.compile(
    r"data:(image/[a-z0-9.+-]+)(?:;[a-z-]+=[^;,\s]*)*;base64,([A-Za-z0-9+/]{8,}={0,2})", re.IGNORECASE
)
_TYPES: Final = ("image", "image_url", "input_image", "output_image")

MOST_MESSAGES: Final = 60
"""A longer conversation keeps its first and last messages."""
MOST_CALLS: Final = 40
"""Tool calls of one message."""
LONGEST_TEXT: Final = 4_000
"""Characters of a message, and of a tool's input or output as JSON."""
MOST_TEXT: Final = 48_000
"""Characters of a whole conversation."""

_SHORTEST: Final = 200
"""Characters of each text after the conversation has reached its limit."""
_MESSAGE_KEYS: Final = ("role", "name", "timestamp")
_CALL_KEYS: Final = ("tool", "id", "timestamp", "duration_ms")


@dataclass(frozen=True, slots=True)
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
    return Image(_name(part, where[:200]), kind, size if isinstance(size, int) else None)


def named_in(text: str, seen: Seen) -> str:
    """Return a text with names in place of the images in it."""
    if "data:image/" not in text:
        return text

    def name(match: re.Match[str]) -> str:
        image = _of_base64("image", match[1].lower(), match[2])
        seen(image)
        return f"[{image.text}]"

    return _URI.sub(name, text)


def _of_base64(name: str, kind: str, data: str) -> Image:
    clean = "".join(data.split())
    return Image(name, kind, len(clean) * 3 // 4 - clean[-2:].count("="), clean)


def _name(part: JsonObject, other: str = "") -> str:
    return _first(part, "name") or other or "image"


def _first(value: JsonObject, *keys: str) -> str:
    return next((found for key in keys if isinstance(found := value.get(key), str)), "")


def bounded_messages(messages: Sequence[JsonObject]) -> list[JsonObject]:
    """Return messages of which each text is cut, and says so. Call it with masked texts."""
    budget = _Budget()
    half = MOST_MESSAGES // 2
    if len(messages) <= MOST_MESSAGES:
        return [_bounded(message, budget) for message in messages]
    left_out = f"… {len(messages) - 2 * half} messages are left out …"
    first, last = messages[:half], messages[-half:]
    gap = {"role": "note", "content": left_out, "tool_calls": []}
    return [*(_bounded(each, budget) for each in first), gap, *(_bounded(each, budget) for each in last)]


class _Budget:
    """The characters that a conversation may still use."""

    def __init__(self) -> None:
        self._left = MOST_TEXT

    def cut(self, value: Json) -> Json:
        """Return a value, or the head of its text if it is too long."""
        text = value if isinstance(value, str) else compact_json(value)
        limit = max(_SHORTEST, min(LONGEST_TEXT, self._left))
        if len(text) > limit and holds_images(text):  # words are worth more than the head of an image
            value = without_images(value, lambda _: None)
            text = value if isinstance(value, str) else compact_json(value)
        self._left -= min(len(text), limit)
        return value if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit:,} more characters)"


def _bounded(message: JsonObject, budget: _Budget) -> JsonObject:
    kept = {key: message[key] for key in _MESSAGE_KEYS if key in message}
    if "content" in message:
        kept["content"] = budget.cut(message["content"])
    calls = message.get("tool_calls") or ()
    kept["tool_calls"] = [
        {key: call[key] for key in _CALL_KEYS if key in call}
        | {key: budget.cut(call[key]) for key in ("input", "output") if key in call}
        for call in calls[:MOST_CALLS]
    ]
    if len(calls) > MOST_CALLS:
        kept["tool_calls"].append({"tool": f"… {len(calls) - MOST_CALLS} calls are left out …"})
    return kept
