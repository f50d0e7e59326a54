"""Finds the messages of a case: what the target is asked, and what it is expected to say."""

from pytest_agentv.loading.cases.messages import WrittenMessage, attach_files, check_messages
from pytest_agentv.loading.cases.written import WrittenCase
from pytest_agentv.loading.keys import EXPECTED_KEYS, INPUT_KEYS
from pytest_agentv.loading.places import first_key
from pytest_agentv.models.messages import Role


def load_asked(written: WrittenCase) -> tuple[WrittenMessage, ...]:
    """Return the messages to the target, with the `input_files` of the case, else those of its file.

    The files are attached to the first message of the user.
    """
    if first_key(written.value, INPUT_KEYS) is None:
        written.missing(INPUT_KEYS[0], "a list of messages")
    messages = _messages(written, INPUT_KEYS, "user")
    value, place = written.value.get("input_files"), written.place.at("input_files")
    if value is None:
        place = written.header_place().at("input_files")
        value = written.fill(written.suite.header.get("input_files"), place)
    return messages if value is None else attach_files(messages, value, place)


def load_expected(written: WrittenCase) -> tuple[WrittenMessage, ...]:
    """Return the messages that the target is expected to answer with."""
    return _messages(written, EXPECTED_KEYS, "assistant")


def _messages(written: WrittenCase, keys: tuple[str, ...], role: Role) -> tuple[WrittenMessage, ...]:
    """Return the messages under a key. A text, or data of an answer, means one message of the role."""
    key = first_key(written.value, keys)
    if key is None:
        return ()
    value, place = written.value[key], written.place.at(key)
    if isinstance(value, str) or (isinstance(value, dict) and role == "assistant"):
        return (WrittenMessage(role, {"role": role, "content": value}, place),)
    return check_messages(value, place)
