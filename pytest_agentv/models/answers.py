"""Finds the answer in the messages of a target."""

from collections.abc import Sequence

from pytest_agentv.models.base import ABSENT
from pytest_agentv.models.messages import Message, text_of_parts
from pytest_agentv.models.text import compact_json
from pytest_agentv.models.traces import TraceEvent


def is_answer(message: Message) -> bool:
    """Whether a message has the content of an answer. Null is none."""
    return message.role == "assistant" and message.content is not ABSENT and message.content is not None


def is_null(messages: Sequence[Message] | None, trace: Sequence[TraceEvent] | None = None) -> bool:
    """Whether the assistant said nothing but null. Null beside tool calls only means that it called tools.

    The calls of a trace count if no message reports any: then nobody knows which message they belong to.
    """
    said = [message for message in messages or () if message.role == "assistant"]
    if not said or any(map(is_answer, said)) or said[-1].content is not None or said[-1].tool_calls:
        return False
    return any(message.tool_calls for message in said) or all(event.type != "tool_call" for event in trace or ())


def candidate_answer(messages: Sequence[Message] | None) -> str:
    """Return the content of the last assistant message that has one: the text of its parts, or data as compact JSON.

    Source: agentv-formats 5.0 (no message gives an empty text), but null is no content (decisions 44).
    """
    for message in reversed(messages or ()):
        content = message.content
        if is_answer(message):
            found = content if isinstance(content, str) else text_of_parts(content)
            # Subclasses of str may compare and join differently. The cache returns a plain text.
            return compact_json(content) if found is None else str.__str__(found)
    return ""
