"""Warns of keys of messages and of their items that nothing reads. Import this lazily: few cases have them."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from pytest_agentv.loading.places import Place
from pytest_agentv.loading.problems import did_you_mean
from pytest_agentv.models.base import Json, JsonObject

_MESSAGE_KEYS: Final = ("role", "content", "name")
_RECORDED: Final = frozenset((*_MESSAGE_KEYS, "tool_calls", "tool_call_id", "timestamp", "metadata", "cache_control"))
"""Keys of messages as agents report them (agentv-formats 5.0) and as APIs take them."""

_ITEM_KEYS: Final = ("type", "value")
_ITEM_TYPES: Final = ("text", "file", "image")
_SAME_ITEM: Final = frozenset(
    (
        *_ITEM_KEYS,
        *("text", "path", "resolvedPath", "resolved_path"),  # a file as judges get it (agentv-formats 1.5)
        *("url", "image_url", "source", "detail", "file", "file_data", "filename", "media_type", "mime_type"),
        *("id", "name", "title", "metadata", "annotations", "cache_control"),
    )
)
"""Keys that say the same to other tools: an item may be written for several of them."""

_FILES: Final = re.compile(r"attach|file|image|picture|document", re.IGNORECASE)


def warn_of_unread(messages: Iterable[tuple[JsonObject, Place]], *, is_asked: bool) -> None:
    """Warn of the keys of a case's messages that are not read, once of each key."""
    warned: set[tuple[str, str]] = set()
    for message, place in messages:
        for key in message:
            if key not in _RECORDED and ("message", key) not in warned:
                warned.add(("message", key))
                place.at(key).warn("unknown key", _hint(key))
        if is_asked and message.get("tool_calls") and ("message", "tool_calls") not in warned:
            warned.add(("message", "tool_calls"))
            what = "is not sent to the target; only the `content` of a message is"
            place.at("tool_calls").warn(what, "write into it what was called, or leave the message out")
        for key, where in _unread_of_items(message.get("content"), place.at("content")):
            if ("item", key) not in warned:
                warned.add(("item", key))
                where.warn("unknown key", did_you_mean(key, _ITEM_KEYS))


def _hint(key: str) -> str | None:
    if _FILES.search(key):
        return "a file is an item of the `content`: {type: file, value: PATH}"
    return did_you_mean(key, _MESSAGE_KEYS)


def _unread_of_items(content: Json, place: Place) -> Iterator[tuple[str, Place]]:
    """Yield the unknown keys of the items. An item of another type has a warning of its own."""
    for index, item in enumerate(content if isinstance(content, list) else ()):
        if isinstance(item, dict) and item.get("type") in _ITEM_TYPES:
            yield from ((key, place.at(index, key)) for key in item if key not in _SAME_ITEM)
