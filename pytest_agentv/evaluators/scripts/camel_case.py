"""Messages under AgentV's camelCase key names, as its templates and its target proxy show them."""

from collections.abc import Mapping

from pytest_agentv.models.base import Json
from pytest_agentv.models.messages import Message


def camel_case_message(message: Message) -> dict[str, Json]:
    """Return a message as plain JSON data; user data within keeps its own key names."""
    plain = message.to_plain()
    calls = plain.pop("tool_calls")
    if calls:
        plain["toolCalls"] = [_renamed(call, "duration_ms", "durationMs") for call in calls]
    return plain


def _renamed(plain: Mapping[str, Json], old: str, new: str) -> dict[str, Json]:
    return {new if key == old else key: value for key, value in plain.items()}
