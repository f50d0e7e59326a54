"""Finds the data of the expected messages, with which `field_accuracy` compares an answer."""

from collections.abc import Mapping, Sequence

from pytest_agentv.evaluators.comparing.answer_data import parse_answer, read_path
from pytest_agentv.models.base import ABSENT, Absent, Json, JsonObject


def expected_data(messages: Sequence[JsonObject], paths: Sequence[str] = ()) -> Json | Absent:
    """Return the mapping or list of the last assistant message that has one; `ABSENT` if none has.

    `paths` are those that are compared. Parts without JSON are data themselves if they have all of these paths.
    """
    for message in reversed(messages):
        data = _data_of(message.get("content", ABSENT), paths) if message["role"] == "assistant" else ABSENT
        if isinstance(data, Mapping | list | tuple):
            return data
    return ABSENT


def has_parts(messages: Sequence[JsonObject]) -> bool:
    """Whether the content of an assistant message is a list of text and file parts."""
    return any(message["role"] == "assistant" and _is_of_parts(message.get("content")) for message in messages)


def _data_of(content: Json, paths: Sequence[str]) -> Json | Absent:
    """Return the data of a content: that in its text, in its parts together, or the content itself."""
    if isinstance(content, str):
        return parse_answer(content)
    texts = content if isinstance(content, list | tuple) and all(isinstance(item, str) for item in content) else ()
    if _is_of_parts(content):
        found = parse_answer("\n".join(map(_text_of, content)))
        return content if found is ABSENT and _has_all(content, paths) else found
    found = parse_answer("\n".join(texts)) if texts else ABSENT
    return content if found is ABSENT else found  # a list of texts is data, unless they hold JSON


def _has_all(content: Json, paths: Sequence[str]) -> bool:
    return bool(paths) and all(read_path(content, path) is not ABSENT for path in paths)


def _is_of_parts(content: Json) -> bool:
    """Whether a content is a list of texts and parts, with a part at least. Other lists are data."""
    items = content if isinstance(content, list | tuple) else ()
    return any(map(_is_part, items)) and all(isinstance(item, str) or _is_part(item) for item in items)


def _is_part(item: Json) -> bool:
    """Whether an item is a part. Those of files have the keys under which the loader puts what it has read."""
    if not isinstance(item, Mapping):
        return False
    key = {"text": "value", "image": "value", "file": "resolvedPath"}.get(str(item.get("type")))
    return key is not None and isinstance(item.get(key), str)


def _text_of(item: Json) -> str:
    """Return the text of an item; that of a picture, or of another file that is no text, is empty."""
    if isinstance(item, str):
        return item
    text = {"text": item.get("value"), "file": item.get("text")}.get(item["type"])
    return text if isinstance(text, str) else ""
