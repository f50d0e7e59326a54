"""Cuts the messages of a target to the length that a results file may hold."""

from collections.abc import Sequence
from typing import Final

from pytest_agentv.models.base import Json, JsonObject
from pytest_agentv.models.text import compact_json
from pytest_agentv.reporting.conversations.images import holds_images, without_images

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
    kept["tool_calls"] = [_bounded_call(call, budget) for call in calls[:MOST_CALLS]]
    if len(calls) > MOST_CALLS:
        kept["tool_calls"].append({"tool": f"… {len(calls) - MOST_CALLS} calls are left out …"})
    return kept


def _bounded_call(call: JsonObject, budget: _Budget) -> JsonObject:
    kept = {key: call[key] for key in _CALL_KEYS if key in call}
    return kept | {key: budget.cut(call[key]) for key in ("input", "output") if key in call}
