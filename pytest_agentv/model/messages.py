"""Messages and steps: the input of a case, the answer of a target, and its way to that answer."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, TypeGuard

from pytest_agentv.model.base import ABSENT, Json, JsonObject, Record, compact_json, is_amount, is_number, mapping

Role = Literal["system", "user", "assistant", "tool"]
"""Who says a message of a case's input."""

ROLES: tuple[Role, ...] = ("system", "user", "assistant", "tool")
WORDS_FOR_ROLES = {role: role for role in (*ROLES, "developer", "function")}
WORDS_FOR_ROLES |= {"human": "user", "ai": "assistant", "model": "assistant"}
"""The roles of messages of a target, by the words of all APIs."""


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class ObjectPart(Record):
    """A message whose content is a mapping."""

    value: JsonObject
    """The mapping as written."""
    type: Literal["object"] = "object"
    """Always `object`."""


@dataclass(frozen=True, slots=True)
class OtherPart(Record):
    """An item of any other type, kept as written. Prompts do not show it."""

    item: JsonObject
    """The item as written, its own `type` included."""
    type: Literal["other"] = "other"
    """Always `other`."""


_TEXT_PARTS: Final = ("text", "output_text")
_OTHER_PARTS: Final = (
    *("thinking", "redacted_thinking", "reasoning", "refusal", "tool_use", "tool_call", "tool-call", "tool_result"),
    *("tool-result", "image", "image_url", "input_image", "output_image", "audio", "file"),
)

_CALL: Final = re.compile(r"(tool|function)[-_]?(use|call)$", re.IGNORECASE)
_RESULT: Final = re.compile(r"(tool|function)[-_]?(result|response|output)$", re.IGNORECASE)
CALL: Final = "tool-call"
RESULT: Final = "tool-result"


def kind_of(part: object) -> str:
    """Return the type of a part of a message: of tools, `tool-call` or `tool-result` for the words of all APIs."""
    if isinstance(part, Mapping):  # of Bedrock, the only key tells the type
        kind = next(iter(part)) if len(part) == 1 else part.get("type")
    else:
        kind = getattr(part, "type", None)
    kind = str(getattr(kind, "value", kind))
    return CALL if _CALL.search(kind) else RESULT if _RESULT.search(kind) else kind


def text_of_parts(content: Json) -> str | None:
    """Return the text of a content that is a list of parts, as many APIs have it; None for other data."""
    parts = content if isinstance(content, list | tuple) else ()
    kinds = [part.get("type") if isinstance(part, dict) else None for part in parts]
    if not all(isinstance(kind, str) and kind in (*_TEXT_PARTS, *_OTHER_PARTS) for kind in kinds):
        return None
    texts = [
        part.get("text", part.get("value")) for part, kind in zip(parts, kinds, strict=True) if kind in _TEXT_PARTS
    ]
    return "".join(texts) if texts and all(isinstance(text, str) for text in texts) else None


ContentPart: TypeAlias = TextPart | FilePart | ObjectPart | OtherPart
"""A part of a message of a case's input."""


@dataclass(frozen=True, slots=True)
class InputMessage(Record):
    """One message of a case's input, with its files read."""

    role: Role
    """Who says it."""
    parts: tuple[ContentPart, ...] = ()
    """What it says, in order."""


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
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


_CUT: Final = "it was cut at the token limit"
_BROKEN: Final = "an error of the server broke it off"
_REASONS: Final = {
    _CUT: "length max_tokens max_output_tokens model_context_window_exceeded incomplete model_length max_length "
    "token_limit continuation",
    "a content filter stopped it": "content_filter content_filtered guardrail_intervened sensitive safety recitation "
    "blocklist prohibited_content spii language image_safety image_prohibited_content image_recitation model_armor "
    "error_toxic escalation jailbreak",
    _BROKEN: "error insufficient_system_resource abort aborted cancelled canceled",
    "the API stopped it before its end": "pause_turn malformed_function_call malformed_response unexpected_tool_call "
    "too_many_tool_calls other image_other no_image missing_thought_signature time_limit compaction "
    "pup_limited_disabled",
    "the model refused": "refusal",
}
_INCOMPLETE: Final = {word: reason for reason, words in _REASONS.items() for word in words.split()}


def incomplete_reason(finish_reason: str | None) -> str | None:
    """Return the reason why an answer is incomplete; None for a complete answer."""
    # Some libraries write `content-filter`, some APIs upper case.
    return _INCOMPLETE.get((finish_reason or "").lower().replace("-", "_"))


def is_cut(finish_reason: str | None) -> bool:
    """Whether the token limit cut the answer."""
    return incomplete_reason(finish_reason) == _CUT


def is_broken(finish_reason: str | None) -> bool:
    """Whether an error of the model's server ended the answer: it says nothing about the model."""
    return incomplete_reason(finish_reason) == _BROKEN


UNNAMED: Final = "(unnamed tool)"

TraceEventType = Literal["model_step", "tool_call", "tool_result", "message", "error"]
"""What kind of step it is."""


@dataclass(frozen=True, slots=True)
class TraceEvent(Record):
    """One step of a target's work. The order is that of the list; timestamps do not change it."""

    type: TraceEventType
    """What kind of step it is."""
    timestamp: str | None = None
    """When it happened, as the target wrote it."""
    id: str | None = None
    """The id that the target gave to the step."""
    name: str | None = None
    """The name of the tool, where there is one."""
    input: Json = ABSENT
    """What went in, any JSON; `ABSENT`: not reported."""
    output: Json = ABSENT
    """What came out, any JSON; `ABSENT`: not reported."""
    text: str | None = None
    """The text of a message or an error."""
    metadata: JsonObject | None = None
    """Whatever else the target reported."""


@dataclass(frozen=True, slots=True)
class TokenUsage(Record):
    """Tokens of one answer, as the target reported them."""

    input: float
    """Tokens of the prompt."""
    output: float
    """Tokens of the answer."""
    cached: float | None = None
    """Tokens that the API had cached; None: not reported."""
    reasoning: float | None = None
    """Those of the output tokens that were spent on reasoning; None: not reported."""

    @property
    def total(self) -> float:
        """Return the sum of all tokens."""
        return self.input + self.output + (self.cached or 0)


@dataclass(frozen=True, slots=True)
class TraceSummary(Record):
    """Counts over the steps to an answer, and the metrics that the target reported."""

    event_count: int
    """The number of steps."""
    tool_names: tuple[str, ...]
    """The names of the tools that were called, sorted, each once."""
    tool_calls_by_name: Mapping[str, int]
    """The number of calls of each tool, in the order of first use."""
    error_count: int
    """The number of errors among them."""
    token_usage: TokenUsage | None = None
    """Tokens; None: not reported."""
    cost_usd: float | None = None
    """US dollars."""
    duration_ms: float | None = None
    """Milliseconds; None: not reported."""


@dataclass(frozen=True, slots=True)
class ExecutionMetrics(Record):
    """Duration, tokens and cost of an answer. None means unknown."""

    token_usage: TokenUsage | None = None
    """Tokens."""
    cost_usd: float | None = None
    """US dollars."""
    duration_ms: float | None = None
    """Milliseconds that the target took."""
    tool_durations: Mapping[str, tuple[float, ...]] | None = None
    """Milliseconds of each call by tool."""
    exploration_ratio: float | None = None
    """Calls of exploring tools (read, grep, …) / all calls; 0 to 1."""
    tokens_per_tool: float | None = None
    """Output tokens / tool calls."""


@dataclass(frozen=True, slots=True)
class Costs(Record):
    """What calls took, added up. Calls that failed count too: they may have been paid for."""

    calls: int = 0
    """The calls that were made."""
    cost_usd: float = 0.0
    """US dollars of the calls that report them."""
    cost_known: int = 0
    """How many of the calls report their US dollars."""
    input: float = 0
    """Tokens of the prompts."""
    output: float = 0
    """Tokens of the answers."""
    tokens_known: int = 0
    """How many of the calls report their tokens."""
    cached: float | None = None
    """Tokens that the API had cached; None: not reported."""
    reasoning: float | None = None
    """Those of the output tokens that were spent on reasoning; None: not reported."""

    @classmethod
    def of_call(cls, usage: object, cost_usd: object) -> "Costs":
        """Return the costs of one call. Users' code may report anything: what is no amount is not known."""
        costs = cls(1)
        if is_amount(cost_usd):
            costs = costs.replace(cost_usd=float(cost_usd), cost_known=1)
        if not isinstance(usage, TokenUsage) or not is_known(usage):
            return costs
        tokens = {name: getattr(usage, name) for name in ("input", "output", "cached", "reasoning")}
        return costs.replace(**tokens, tokens_known=1)

    @classmethod
    def added(cls, parts: "Iterable[Costs | None]") -> "Costs":
        """Add up costs. None counts as nothing."""
        known = [part for part in parts if part is not None]
        if len(known) < 2:  # as of most cases
            return known[0] if known else cls()
        priced = [part for part in known if part.cost_known]
        metered = [part for part in known if part.tokens_known]
        return cls(
            sum([part.calls for part in known]),
            math.fsum([part.cost_usd for part in priced]),
            sum([part.cost_known for part in priced]),
            sum([part.input for part in metered]),
            sum([part.output for part in metered]),
            sum([part.tokens_known for part in metered]),
            _sum([part.cached for part in metered]),
            _sum([part.reasoning for part in metered]),
        )

    @property
    def cost(self) -> float | None:
        """US dollars; None: no call reports them."""
        return self.cost_usd if self.cost_known else None

    @property
    def usage(self) -> TokenUsage | None:
        """Tokens; None: no call reports them."""
        return TokenUsage(self.input, self.output, self.cached, self.reasoning) if self.tokens_known else None


def traced_calls(events: Sequence[TraceEvent]) -> Iterator[ToolCall]:
    """Yield the calls of a trace, each once, with the output and the duration that its events report.

    Some targets count ids from 1 again in each turn: after a result, or with another name, an id is another call, so
    that no call escapes a limit.
    """
    calls: list[list[TraceEvent]] = []
    latest: dict[str, list[TraceEvent]] = {}
    for event in events:
        known = latest.get(event.id) if event.id else None
        if event.type == "tool_call":
            names = {part.name for part in (*(known or ()), event) if part.name}
            if known is None or known[-1].type == "tool_result" or len(names) > 1:
                calls.append([event])
                if event.id:
                    latest[event.id] = calls[-1]
                continue
        if known is not None and event.type in ("tool_call", "tool_result"):
            known.append(event)
    return map(_joined, calls)


def _joined(parts: Sequence[TraceEvent]) -> ToolCall:
    """Return the call of some events: of its start, of updates, which may know more, and of its result."""
    told = [part for part in reversed(parts) if part.type == "tool_call"]
    name = next((part.name for part in told if part.name), UNNAMED)
    given = next((part.input for part in told if part.input is not ABSENT and part.input is not None), told[-1].input)
    ends = [*told, *(part for part in parts if part.type == "tool_result")]
    output = next((part.output for part in ends if part.output is not ABSENT), ABSENT)
    metadata = [mapping(part.metadata) for part in ends]
    durations = [each.get("duration_ms", each.get("durationMs")) for each in metadata]
    duration = next(filter(is_number, durations), None)
    return ToolCall(name, input=given, output=output, id=told[0].id, duration_ms=duration)


def added_usage(usages: Iterable[TokenUsage | None]) -> TokenUsage | None:
    """Add up the tokens that are known; None if none are."""
    return Costs.added(Costs.of_call(usage, None) for usage in usages).usage


def is_known(usage: TokenUsage | None) -> TypeGuard[TokenUsage]:
    """Whether tokens are reported, and are amounts."""
    return usage is not None and all(map(is_amount, (usage.input, usage.output, usage.cached or 0)))


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if is_amount(value)]
    return math.fsum(known) if known else None


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
