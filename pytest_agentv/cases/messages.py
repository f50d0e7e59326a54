"""Reads and loads the messages of a case, the input and the expected ones. Imports pydantic: import this lazily."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_agentv.cases.keys import Message
from pytest_agentv.cases.references import ReferencedFile, References, WrittenCase, is_address, is_picture
from pytest_agentv.files.kind_reader import read_part
from pytest_agentv.files.places import EXPECTED_KEYS, INPUT_KEYS, Place, first_key
from pytest_agentv.files.problems import did_you_mean
from pytest_agentv.files.source import KeyPath, LayeredSource, Source
from pytest_agentv.model.base import Json, JsonObject, pretty_json
from pytest_agentv.model.messages import (
    ContentPart,
    FilePart,
    InputMessage,
    ObjectPart,
    OtherPart,
    Role,
    TextPart,
)


@dataclass(frozen=True, slots=True)
class WrittenMessage:
    """A message as written, with its shape checked."""

    role: Role
    value: JsonObject
    place: Place

    @property
    def content(self) -> Json:
        return self.value.get("content")


def _check_message(value: Json, place: Place) -> WrittenMessage | None:
    if not isinstance(value, dict):
        place.expected("a message: a mapping with role and content", value)
        return None
    message = read_part(Message, value, place)
    if message is not None and message.content is None and not message.tool_calls:
        place.error("the message has no content")
        return None
    return None if message is None else WrittenMessage(message.role, value, place)


def attach_files(messages: tuple[WrittenMessage, ...], value: Json, place: Place) -> tuple[WrittenMessage, ...]:
    """Return messages with files attached to the first one of the user. Notes faults at the place of the files."""
    files = value if isinstance(value, list) else [value]
    if not all(isinstance(file, str) and file.strip() for file in files):
        place.expected("the path of a file, or a list of paths", value)
        return messages
    first = next((index for index, message in enumerate(messages) if message.role == "user"), None)
    if first is None:
        place.error("there is no message of the user to attach the files to")
        return messages
    message = messages[first]
    content = message.content
    if isinstance(content, dict) and content.get("type") not in ("text", "file", "image"):
        content = pretty_json(content)  # as prompts show it
    items = content if isinstance(content, list) else [] if content is None else [content]
    parts = [{"type": "text", "value": item} if isinstance(item, str) else item for item in items]
    origins: dict[KeyPath, tuple[Source, KeyPath]] = {}
    for index, file in enumerate(files):
        keys = (*place.keys, index) if isinstance(value, list) else place.keys
        origins["content", len(parts), "value"] = place.source, keys
        parts.append({"type": "file", "value": file})
    source = LayeredSource(message.place.source, message.place.keys, origins, message.place.source.row)
    where = Place(source, message.place.keys, message.place.problems)
    attached = WrittenMessage(message.role, {**message.value, "content": parts}, where)
    return (*messages[:first], attached, *messages[first + 1 :])


def load_asked(written: WrittenCase) -> tuple[WrittenMessage, ...]:
    """Return the messages to the target, with the `input_files` of the case, else those of its file.

    The files are attached to the first message of the user.
    """
    messages = _messages(written, INPUT_KEYS, "user")
    own, of_file = written.value.get("input_files"), written.suite.header.get("input_files")
    if own is not None:
        return attach_files(messages, own, written.place.at("input_files"))
    if of_file is None:
        return messages
    place = written.header_place().at("input_files")
    filled = written.fill(of_file, place)
    return messages if filled is None else attach_files(messages, filled, place)


def _messages(written: WrittenCase, keys: tuple[str, ...], role: Role) -> tuple[WrittenMessage, ...]:
    """Return the messages under a key. A text, or the data of an answer, becomes one message of the role."""
    key = first_key(written.value, keys)
    if key is None:
        return ()
    value, place = written.value[key], written.place.at(key)
    is_mapping = isinstance(value, dict)
    messages: tuple[WrittenMessage, ...]
    if is_mapping and "role" in value and not value.keys().isdisjoint(("content", "tool_calls")):
        message = _check_message(value, place)
        messages = () if message is None else (message,)
    elif isinstance(value, str) or (is_mapping and role == "assistant"):
        messages = (WrittenMessage(role, {"role": role, "content": value}, place),)
    elif isinstance(value, list):
        checked = (_check_message(item, place.at(index)) for index, item in enumerate(value))
        messages = tuple(message for message in checked if message is not None)
    else:
        place.expected("a list of messages", value, place.quotes(value))
        messages = ()
    called = next((each for each in messages if role == "user" and each.value.get("tool_calls")), None)
    if called is not None:
        what = "is not sent to the target; only the `content` of a message is"
        called.place.at("tool_calls").warn(what, "write into it what was called, or leave the message out")
    return messages


def load_expected(written: WrittenCase) -> tuple[WrittenMessage, ...]:
    """Return the messages of the expected answer."""
    return _messages(written, EXPECTED_KEYS, "assistant")


# What targets and judges get of the written messages (agentv-formats 1.4, 1.7, 1.9).


def load_input_message(message: WrittenMessage, references: References) -> InputMessage:
    content = message.content
    parts: list[ContentPart] = []
    if isinstance(content, str):
        parts.append(TextPart(content))
    elif isinstance(content, dict):
        parts.append(ObjectPart(content))
    elif isinstance(content, list):
        for index, item in enumerate(content):
            part = _load_part(item, message.role, message.place.at("content", index), references)
            if part is not None:
                parts.append(part)
    return InputMessage(message.role, tuple(parts))


def _load_part(item: Json, role: Role, place: Place, references: References) -> ContentPart | None:
    if isinstance(item, str):
        return TextPart(item)
    if not isinstance(item, dict):
        place.expected("a text or a mapping with type and value", item)
        return None
    match item.get("type"):
        case "text":
            text = _value_of(item, place)
            return None if text is None else TextPart(text)
        case "file" | "image":
            file = _read_file(item, place, references)
            if file is None or (item["type"] == "image" and not is_picture(file.path, file.media, role, place)):
                return None
            return _file_part(file, references)
        case kind:
            hint = did_you_mean(kind, ("text", "file", "image")) if isinstance(kind, str) else None
            what = "without a type" if kind is None else f"of type {kind!r}"
            place.warn(f"an item {what} is not sent to the target; only text, file and image items are", hint)
            return OtherPart(item)


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
    value = _value_of(item, place)
    if value is not None and not value.strip():
        place.at("value").expected("the path of a file", value)
        return None
    return None if value is None or is_address(value, place) else references.read(value, place.at("value"))


def _file_part(file: ReferencedFile, references: References) -> FilePart:
    is_guideline = file.media is None and references.is_guideline(file.path)
    text = sys.intern(file.text)  # cases that use the same file share its text
    return FilePart(file.value, file.display_path, str(file.path), text, is_guideline, media=file.media)


def load_expected_message(message: WrittenMessage, references: References) -> JsonObject:
    """Return an expected message as judges see it: as written, with its files read (agentv-formats 1.7)."""
    content, place = message.content, message.place.at("content")
    if isinstance(content, list):
        content = [_expected_item(item, place.at(index), references) for index, item in enumerate(content)]
    parts = {
        "role": message.role,
        "name": message.value.get("name"),
        "content": content,
        "tool_calls": _expected_calls(message),
    }
    return {key: part for key, part in parts.items() if part is not None}


def _expected_item(item: Json, place: Place, references: References) -> Json:
    """Return an item as written. A file item becomes its content, under AgentV's keys."""
    kind = item.get("type") if isinstance(item, dict) else None
    if kind == "text":
        _value_of(item, place)  # notes a missing text
    if kind != "file":
        return item
    file = _read_file(item, place, references)
    return file and _file_part(file, references).to_item()


def _expected_calls(message: WrittenMessage) -> Json:
    """Return the tool calls as written, in any shape, because AgentV passes them to judges unchanged; None without."""
    calls, place = message.value.get("tool_calls"), message.place.at("tool_calls")
    if calls is not None and not isinstance(calls, list):
        place.expected("a list of tool calls", calls)
        return None
    for index, call in enumerate(calls or ()):
        if not isinstance(call, dict):
            place.at(index).expected("a tool call: a mapping with the name of a tool under the key 'tool'", call)
    return calls or None


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
    content = expected[-1].get("content")
    if isinstance(content, str):
        return content
    return pretty_json(expected[-1].get("tool_calls", []) if content is None else content)
