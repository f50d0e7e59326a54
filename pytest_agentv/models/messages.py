"""Messages: the input of a case and the answer of a target."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from pytest_agentv.models.base import ABSENT, Json, JsonObject, Record

Role = Literal["system", "user", "assistant", "tool"]

ROLES: tuple[Role, ...] = ("system", "user", "assistant", "tool")


@dataclass(frozen=True, slots=True)
class TextPart(Record):
    """Text of a message: its string content, or a `type: text` item."""

    value: str
    type: Literal["text"] = "text"


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
    type: Literal["file"] = "file"


@dataclass(frozen=True, slots=True)
class ObjectPart(Record):
    """A message whose content is a mapping."""

    value: JsonObject
    type: Literal["object"] = "object"


@dataclass(frozen=True, slots=True)
class OtherPart(Record):
    """An item of any other type, kept as written. Prompts do not show it."""

    item: JsonObject
    type: Literal["other"] = "other"


ContentPart: TypeAlias = TextPart | FilePart | ObjectPart | OtherPart


@dataclass(frozen=True, slots=True)
class InputMessage(Record):
    """One message of a case's input, with its files read."""

    role: Role
    parts: tuple[ContentPart, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolCall(Record):
    """A tool call of the target under test. `input` and `output` are as the target reported them."""

    tool: str
    input: Json = ABSENT
    output: Json = ABSENT
    id: str | None = None
    timestamp: str | None = None
    duration_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Message(Record):
    """One message of a target's answer. Content None means `null`; content `ABSENT` means no key `content`."""

    role: str
    content: Json = ABSENT
    tool_calls: tuple[ToolCall, ...] = ()
    name: str | None = None
    timestamp: str | None = None
    metadata: JsonObject | None = None
