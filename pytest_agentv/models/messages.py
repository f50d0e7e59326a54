"""Messages: the input of a case and the answer of a target."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from pytest_agentv.models.base import ABSENT, Json, JsonObject, Record
from pytest_agentv.models.records import record

Role = Literal["system", "user", "assistant", "tool"]
"""Who says a message of a case's input."""

ROLES: tuple[Role, ...] = ("system", "user", "assistant", "tool")


@record
class TextPart(Record):
    """Text of a message: its string content, or a `type: text` item."""

    value: str
    """The text."""
    type: Literal["text"] = "text"
    """Always `text`."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class FilePart(Record):
    """A `type: file` item whose file was found and read."""

    value: str
    """The reference as written in the eval file."""
    path: str
    """The reference without leading slashes, as prompts show it."""
    resolved_path: str
    """The absolute path."""
    text: str
    """The file's text, CRLF turned into LF, not trimmed."""
    is_guideline: bool = False
    """Whether the file matches a guideline pattern."""
    type: Literal["file"] = "file"
    """Always `file`."""


@record
class ObjectPart(Record):
    """A message whose content is a mapping."""

    value: JsonObject
    """The mapping as written."""
    type: Literal["object"] = "object"
    """Always `object`."""


@record
class OtherPart(Record):
    """An item of any other type, kept as written. Prompts do not show it."""

    item: JsonObject
    """The item as written, its own `type` included."""
    type: Literal["other"] = "other"
    """Always `other`."""


ContentPart: TypeAlias = TextPart | FilePart | ObjectPart | OtherPart
"""A part of a message of a case's input."""


@record
class InputMessage(Record):
    """One message of a case's input, with its files read."""

    role: Role
    """Who says it."""
    parts: tuple[ContentPart, ...] = ()
    """What it says, in order."""


@record
class ToolCall(Record):
    """A tool call of the target under test. `input` and `output` are as the target reported them."""

    tool: str
    """The name of the tool."""
    input: Json = ABSENT
    """The arguments, any JSON; `ABSENT`: not reported."""
    output: Json = ABSENT
    """The result, any JSON; `ABSENT`: not reported."""
    id: str | None = None
    """The id that the target gave to the call."""
    timestamp: str | None = None
    """When the call began, as the target wrote it."""
    duration_ms: float | None = None
    """Milliseconds; None: not reported."""


@record
class Message(Record):
    """One message of a target's answer. Content may be null; without any content it is `ABSENT`."""

    role: str
    """`assistant`, `user`, `tool`, or as the target wrote it."""
    content: Json = ABSENT
    """A text or other JSON; `ABSENT`: there is none."""
    tool_calls: tuple[ToolCall, ...] = ()
    """The calls of this message, in order."""
    name: str | None = None
    """The name of the speaker."""
    timestamp: str | None = None
    """When it was written, as the target wrote it."""
    metadata: JsonObject | None = None
    """Whatever else the target reported."""
