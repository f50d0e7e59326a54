"""Loads the input messages and expected messages of a case (agentv-formats 1.4, 1.7, 1.9)."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final
from weakref import WeakValueDictionary

from pytest_agentv.loading.cases.references import ReferencedFile, References
from pytest_agentv.loading.cases.written_messages import WrittenMessage
from pytest_agentv.loading.places import Place, text_at
from pytest_agentv.loading.problems import did_you_mean
from pytest_agentv.models.base import ABSENT, Json, JsonObject
from pytest_agentv.models.messages import (
    ContentPart,
    FilePart,
    InputMessage,
    ObjectPart,
    OtherPart,
    Role,
    TextPart,
)
from pytest_agentv.models.text import pretty_json

_KNOWN_PARTS: Final[WeakValueDictionary[str, FilePart]] = WeakValueDictionary()
"""The last part made from each file, while its case exists."""


def load_input_message(message: WrittenMessage, references: References) -> InputMessage:
    return InputMessage(message.role, tuple(_parts(message, references)))


def _parts(message: WrittenMessage, references: References) -> Iterator[ContentPart]:
    content = message.content
    if isinstance(content, str):
        _refuse_address(content, message.place, is_asked=True)
        yield TextPart(content)
    elif isinstance(content, dict):
        yield ObjectPart(content)
    for index, item in enumerate(content if isinstance(content, list) else ()):
        part = _load_part(item, message.role, message.place.at("content", index), references)
        if part is not None:
            yield part


def _refuse_address(text: Json, place: Place, *, is_asked: bool) -> None:
    """Note a text that is only `file://…`, because no file is read for it."""
    if isinstance(text, str) and "file://" in text:
        from pytest_agentv.loading.file_words import note_in_message  # noqa: PLC0415 - most texts name no file

        note_in_message(text, place, is_asked=is_asked)


def _load_part(item: Json, role: Role, place: Place, references: References) -> ContentPart | None:
    if isinstance(item, str):
        _refuse_address(item, place, is_asked=True)
        return TextPart(item)
    if not isinstance(item, dict):
        place.expected("a text or a mapping with type and value", item)
        return None
    match item.get("type"):
        case "text":
            text = _value_of(item, place)
            _refuse_address(text, place.at("value"), is_asked=True)
            return None if text is None else TextPart(text)
        case "file" | "image":
            return _load_file(item, role, place, references)
        case kind:
            _warn_of_unshown_item(kind, place)
            return OtherPart(item)


def _load_file(item: JsonObject, role: Role, place: Place, references: References) -> FilePart | None:
    from pytest_agentv.loading.cases.media import is_picture  # noqa: PLC0415 - only for cases with files

    file = _read_file(item, place, references)
    if file is None or (item["type"] == "image" and not is_picture(file.path, file.media, role, place)):
        return None
    return _file_part(file, references)


def _warn_of_unshown_item(kind: Json, place: Place) -> None:
    hint = did_you_mean(kind, ("text", "file", "image")) if isinstance(kind, str) else None
    what = "without a type" if kind is None else f"of type {kind!r}"
    place.warn(f"an item {what} is not sent to the target; only text, file and image items are", hint)


def _value_of(item: JsonObject, place: Place) -> str | None:
    """Return the `value` of a text or file item. Notes an error if it is not a text."""
    value = item.get("value")
    if isinstance(value, str):
        return value
    if "value" in item:
        place.at("value").expected("a text", value)
    else:
        near = next((key for key in item if key in ("text", "path", "content", "file", "image", "url")), None)
        place.error(f"the {item['type']} item has no value", near and f"rename {near!r} to 'value'")
    return None


def _read_file(item: JsonObject, place: Place, references: References) -> ReferencedFile | None:
    from pytest_agentv.loading.cases.media import is_address  # noqa: PLC0415 - only for cases with files

    value = _value_of(item, place)
    if value is not None and not value.strip():
        place.at("value").expected("the path of a file", value)
        return None
    return None if value is None or is_address(value, place) else references.read(value, place.at("value"))


def _file_part(file: ReferencedFile, references: References) -> FilePart:
    is_guideline = file.media is None and references.is_guideline(file.path)
    path, text = str(file.path), file.text
    known = _KNOWN_PARTS.get(path)
    if known is not None and known.text == text:
        text = known.text  # cases that use the same file share its text
    part = FilePart(file.value, file.display_path, path, text, is_guideline, media=file.media)
    _KNOWN_PARTS[path] = part
    return part


def load_expected_message(message: WrittenMessage, references: References) -> JsonObject:
    """Return an expected message as judges see it: as written, with its files read (agentv-formats 1.7)."""
    name = text_at(message.value, "name", message.place)
    parts = {
        "role": message.role,
        "name": ABSENT if name is None else name,
        "content": _expected_content(message, references),
        "tool_calls": _expected_calls(message),
    }
    return {key: part for key, part in parts.items() if part is not ABSENT}


def _expected_content(message: WrittenMessage, references: References) -> Json:
    content = message.content
    if content is None:
        return ABSENT
    if not isinstance(content, list):
        _refuse_address(content, message.place, is_asked=False)
        return content
    place = message.place.at("content")
    return [_expected_item(item, place.at(index), references) for index, item in enumerate(content)]


def _expected_item(item: Json, place: Place, references: References) -> Json:
    """Return an item as written. A file item becomes its content, under AgentV's keys."""
    kind = item.get("type") if isinstance(item, dict) else None
    if kind == "text" or isinstance(item, str):
        text = item if isinstance(item, str) else _value_of(item, place)
        _refuse_address(text, place, is_asked=False)
    if kind != "file":
        return item
    file = _read_file(item, place, references)
    return file and _file_part(file, references).to_item()


def _expected_calls(message: WrittenMessage) -> Json:
    """Return the tool calls as written, in any shape, because AgentV passes them to judges unchanged."""
    calls = message.value.get("tool_calls")
    if calls is None:
        return ABSENT
    place = message.place.at("tool_calls")
    if not isinstance(calls, list):
        place.expected("a list of tool calls", calls)
        return ABSENT
    for index, call in enumerate(calls):
        if not isinstance(call, dict):
            place.at(index).expected("a tool call: a mapping with the name of a tool under the key 'tool'", call)
    return calls or ABSENT


def asks_nothing(written: Iterable[JsonObject], messages: Iterable[InputMessage]) -> bool:
    """Whether only blanks are sent to the target, given the messages as written and with files read."""
    has_calls = any(message.get("tool_calls") for message in written)
    return not has_calls and all(_is_blank(part) for message in messages for part in message.parts)


def _is_blank(part: ContentPart) -> bool:
    match part:
        case TextPart(value):
            return not value.strip()
        case FilePart():
            return part.media is None and not part.text.strip()
        case _:
            return False  # an item that is not sent has a warning of its own


def raw_question(messages: Iterable[InputMessage]) -> str:
    """Return the texts of the input without roles and files, as code judges get them (agentv-formats 1.9)."""
    texts = (_question_text(part).strip() for message in messages for part in message.parts)
    return " ".join(text for text in texts if text)


def _question_text(part: ContentPart) -> str:
    match part:
        case TextPart(value):
            return value
        case ObjectPart(value):
            return pretty_json(value)
        case OtherPart(item):
            text = item.get("value")
            return text if isinstance(text, str) else ""
        case FilePart():
            return ""


def reference_answer(expected: Sequence[JsonObject]) -> str:
    """Return the content of the last expected message, else its tool calls (agentv-formats 1.7)."""
    if not expected:
        return ""
    content = expected[-1].get("content", ABSENT)
    if isinstance(content, str):
        return content
    return pretty_json(expected[-1].get("tool_calls", []) if content is ABSENT else content)
