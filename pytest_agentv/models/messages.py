"""Messages: the input of a case and the answer of a target."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from pytest_agentv.models.base import ABSENT, Json, JsonObject, Record
from pytest_agentv.models.records import record

Role = Literal["system", "user", "assistant", "tool"]
"""Who says a message of a case's input."""

ROLES: tuple[Role, ...] = ("system", "user", "assistant", "tool")
WORDS_FOR_ROLES = {role: role for role in (*ROLES, "developer", "function")}
WORDS_FOR_ROLES |= {"human": "user", "ai": "assistant", "model": "assistant"}
"""The roles of messages of a target, by the words of all APIs."""


@record
class TextPart(Record):
    """Text of a message: its string content, or a `type: text` item."""

    value: str
    """The text."""
    type: Literal["text"] = "text"
    """Always `text`."""


PDF: Final = "application/pdf"
OTHER_MEDIA: Final = "application/octet-stream"
MEDIA_LIMIT: Final = 20 * 2**20
"""Bytes of a picture or a PDF that are sent to a model: few APIs take more."""


@record
class Media(Record):
    """What a file holds that is no text. Its bytes are read when they are sent."""

    media_type: str
    """By the content: `image/png`, `image/jpeg`, `image/gif`, `image/webp`, `application/pdf`; for all others
    `application/octet-stream`."""
    sha256: str
    """The hash of the bytes, in hexadecimal."""
    size: int
    """Bytes."""

    @property
    def is_image(self) -> bool:
        """Whether it is a picture."""
        return self.media_type.startswith("image/")

    @property
    def fault(self) -> str | None:
        """Why it cannot be sent to a model; None: it can."""
        if self.media_type == OTHER_MEDIA:
            return "is neither a text in UTF-8, a picture (PNG, JPEG, GIF or WebP) nor a PDF"
        if self.size > MEDIA_LIMIT:
            return f"has {self.size / 2**20:.1f} MiB, and models are sent at most {MEDIA_LIMIT // 2**20} MiB"
        return None


@dataclass(frozen=True, slots=True, weakref_slot=True)
class FilePart(Record):
    """A `type: file` or `type: image` item whose file was found and read."""

    value: str
    """The reference as written in the eval file."""
    path: str
    """The reference without leading slashes, as prompts show it."""
    resolved_path: str
    """The absolute path."""
    text: str
    """The file's text, CRLF turned into LF, not trimmed; empty for a file that is no text."""
    is_guideline: bool = False
    """Whether the file matches a guideline pattern; one that is no text is none."""
    type: Literal["file"] = "file"
    """Always `file`."""
    media: Media | None = None
    """What a picture, a PDF or another file that is no text holds; None: it is a text."""

    def to_item(self) -> dict[str, Json]:
        """Return it as judges see it, under AgentV's keys."""
        held = {"text": self.text}
        if self.media is not None:
            held = {"mediaType": self.media.media_type, "sha256": self.media.sha256}
        return {"type": "file", "path": self.path, **held, "resolvedPath": self.resolved_path}


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


_TEXT_PARTS: Final = frozenset({"text", "output_text"})
_OTHER_PARTS: Final = frozenset(
    {
        *(
            "thinking",
            "redacted_thinking",
            "reasoning",
            "refusal",
            "tool_use",
            "tool_call",
            "tool-call",
            "tool_result",
            "tool-result",
        ),
        *("image", "image_url", "input_image", "output_image", "audio", "file"),
    }
)

_CALL: Final = re.compile(r"(tool|function)[-_]?(use|call)$", re.IGNORECASE)
_RESULT: Final = re.compile(r"(tool|function)[-_]?(result|response|output)$", re.IGNORECASE)
CALL: Final = "tool-call"
RESULT: Final = "tool-result"


def kind_of(part: object) -> str:
    """Return the type of a part of a message: of tools, `tool-call` or `tool-result` for the words of all APIs.

    A part of Bedrock has no type: its only key tells it.
    """
    if isinstance(part, Mapping):
        kind = next(iter(part)) if len(part) == 1 else part.get("type")
    else:
        kind = getattr(part, "type", None)
    kind = str(getattr(kind, "value", kind))
    return CALL if _CALL.search(kind) else RESULT if _RESULT.search(kind) else kind


def text_of_parts(content: Json) -> str | None:
    """Return the text of a content that is a list of parts, as many APIs have it; None for other data."""
    parts = content if isinstance(content, list | tuple) else ()
    kinds = [part.get("type") if isinstance(part, dict) else None for part in parts]
    if not all(isinstance(kind, str) and kind in _TEXT_PARTS | _OTHER_PARTS for kind in kinds):
        return None
    texts = [
        part.get("text", part.get("value")) for part, kind in zip(parts, kinds, strict=True) if kind in _TEXT_PARTS
    ]
    return "".join(texts) if texts and all(isinstance(text, str) for text in texts) else None


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
