"""Reads the messages of a case as written, the input and the expected ones, and checks their shapes."""

import difflib
from typing import Final

from pytest_agentv.loading.cases.written import WrittenCase
from pytest_agentv.loading.files.source import LayeredSource, Source
from pytest_agentv.loading.files.yaml_values import KeyPath
from pytest_agentv.loading.keys import EXPECTED_KEYS, INPUT_KEYS
from pytest_agentv.loading.places import Place, first_key, misspelling
from pytest_agentv.loading.problems import did_you_mean
from pytest_agentv.models.base import Json, JsonObject
from pytest_agentv.models.messages import ROLES, Role
from pytest_agentv.models.records import record
from pytest_agentv.models.text import pretty_json

_MISSPELT: Final = 0.85
"""From this ratio a role is a misspelling: "asistant" has 0.94, "customer", which is no "user", 0.67."""

_USUAL_KEYS: Final = frozenset({"role", "content", "name"})
_USUAL_ITEM_KEYS: Final = frozenset({"type", "value"})


@record
class WrittenMessage:
    """A message as written, with its shape checked."""

    role: Role
    value: JsonObject
    place: Place

    @property
    def content(self) -> Json:
        return self.value.get("content")


def check_messages(value: Json, place: Place) -> tuple[WrittenMessage, ...]:
    """Check the shapes of a list of messages. Notes each fault as an error at its place."""
    if not isinstance(value, list):
        place.expected("a list of messages", value, place.quotes(value))
        return ()
    messages = (_check_message(item, place.at(index)) for index, item in enumerate(value))
    return tuple(message for message in messages if message is not None)


def _check_message(value: Json, place: Place) -> WrittenMessage | None:
    if not isinstance(value, dict):
        place.expected("a message: a mapping with role and content", value)
        return None
    role = value.get("role")
    if role not in ROLES:
        hint = did_you_mean(role, ROLES) if isinstance(role, str) else None
        place.at("role").expected(f"one of {', '.join(ROLES)}", role, hint)
        return None
    content = value.get("content")
    if isinstance(content, str | list | dict) or (content is None and _has_tool_calls(value)):
        return WrittenMessage(role, value, place)
    if "content" in value:
        place.at("content").expected("a text, a list or a mapping", content)
    else:
        place.error("the message has no content", misspelling("content", value, ("role",)))
    return None


def _is_message(value: JsonObject, default: Role) -> bool:
    """Return whether a mapping is one message, as AgentV reads it.

    Data of an answer may have keys of these names, too, but then its role is none of ours, nor a misspelt one.
    """
    if "role" not in value or value.keys().isdisjoint(("content", "tool_calls")):
        return False
    role = value["role"]
    if default == "user" or role in ROLES:
        return True
    return isinstance(role, str) and bool(difflib.get_close_matches(role.casefold(), ROLES, n=1, cutoff=_MISSPELT))


def _has_tool_calls(message: JsonObject) -> bool:
    return isinstance(message.get("tool_calls"), list) and bool(message["tool_calls"])


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
    parts = _items(message.content)
    origins: dict[KeyPath, tuple[Source, KeyPath]] = {}
    for index, file in enumerate(files):
        keys = (*place.keys, index) if isinstance(value, list) else place.keys
        origins["content", len(parts), "value"] = place.source, keys
        parts.append({"type": "file", "value": file})
    source = LayeredSource(message.place.source, message.place.keys, origins, message.place.source.row)
    where = Place(source, message.place.keys, message.place.problems)
    attached = WrittenMessage(message.role, {**message.value, "content": parts}, where)
    return (*messages[:first], attached, *messages[first + 1 :])


def _items(content: Json) -> list[Json]:
    """Return the content of a message as a list of items, to which others can be added."""
    if isinstance(content, dict) and content.get("type") not in ("text", "file", "image"):
        content = pretty_json(content)  # as prompts show it
    items = content if isinstance(content, list) else [] if content is None else [content]
    return [{"type": "text", "value": item} if isinstance(item, str) else item for item in items]


def load_asked(written: WrittenCase) -> tuple[WrittenMessage, ...]:
    """Return the messages to the target, with the `input_files` of the case, else those of its file.

    The files are attached to the first message of the user.
    """
    if first_key(written.value, INPUT_KEYS) is None:
        written.missing(INPUT_KEYS, "a list of messages")
    messages = _messages(written, INPUT_KEYS, "user")
    own, of_file = written.value.get("input_files"), written.suite.header.get("input_files")
    if own is not None:
        return attach_files(messages, own, written.place.at("input_files"))
    if of_file is None:
        return messages
    place = written.header_place().at("input_files")
    filled = written.fill(of_file, place)
    return messages if filled is None else attach_files(messages, filled, place)


def load_expected(written: WrittenCase) -> tuple[WrittenMessage, ...]:
    """Return the messages of the expected answer."""
    return _messages(written, EXPECTED_KEYS, "assistant")


def _messages(written: WrittenCase, keys: tuple[str, ...], role: Role) -> tuple[WrittenMessage, ...]:
    """Return the messages under a key. A text, or the data of an answer, becomes one message of the role."""
    key = first_key(written.value, keys)
    if key is None:
        return ()
    messages = _checked(written, key, role)
    if not isinstance(written.value[key], str) and not all(map(_is_usual, messages)):
        from pytest_agentv.loading.cases.message_keys import warn_of_unread  # noqa: PLC0415 - few messages have others

        warn_of_unread(((message.value, message.place) for message in messages), is_asked=role == "user")
    return messages


def _is_usual(message: WrittenMessage) -> bool:
    """Whether a message and its items have no keys but those that nearly all have. Every case asks it."""
    if not message.value.keys() <= _USUAL_KEYS:
        return False
    content = message.value.get("content")
    if not isinstance(content, list):
        return True
    return all(not isinstance(item, dict) or item.keys() <= _USUAL_ITEM_KEYS for item in content)


def _checked(written: WrittenCase, key: str, role: Role) -> tuple[WrittenMessage, ...]:
    value, place = written.value[key], written.place.at(key)
    is_mapping = isinstance(value, dict)
    if is_mapping and _is_message(value, role):
        message = _check_message(value, place)
        return () if message is None else (message,)
    if isinstance(value, str) or (is_mapping and role == "assistant"):
        return (WrittenMessage(role, {"role": role, "content": value}, place),)
    return check_messages(value, place)
