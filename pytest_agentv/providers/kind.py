"""What a kind of target is: its keys, what it opens, and how the answers of that are read."""

from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import chain, islice
from types import SimpleNamespace
from typing import Annotated, Any, ClassVar, Final, Self, TypeAlias

from pydantic import (
    AliasChoices,
    AliasGenerator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import from_json, to_json

from pytest_agentv.errors import ProviderError
from pytest_agentv.files.kind_reader import WORDING
from pytest_agentv.files.places import show_key
from pytest_agentv.files.problems import did_you_mean
from pytest_agentv.model.base import ABSENT, Json, JsonObject, Record, compact_json, json_fault
from pytest_agentv.model.cases import RetryPolicy
from pytest_agentv.model.kind import Items, Kind, Part
from pytest_agentv.model.messages import (
    CALL,
    UNNAMED,
    WORDS_FOR_ROLES,
    Message,
    TokenUsage,
    ToolCall,
    is_answer,
    kind_of,
)
from pytest_agentv.model.secrets import masked
from pytest_agentv.providers.api.base import known
from pytest_agentv.providers.api.base import parsed as parsed_text
from pytest_agentv.providers.base import ProviderResponse, TargetEnvironment, parse_events
from pytest_agentv.targets.fields import Count, Factor, Milliseconds, StatusCode

# The base of all kinds of targets. Importing this costs pydantic: `providers.base` does it without.


@dataclass(frozen=True, slots=True)
class Sources(Record):
    """Where the code of a target may lie within the project."""

    words: tuple[str, ...] = ()
    """Words of its command line; those that name a file count."""
    callable: str | None = None
    """`package.module:function` or `file.py:function`."""
    folder: str | None = None
    """What they are relative to; None: the folder of the targets file."""


def _either_case(name: str) -> str | AliasChoices:
    """Return the spellings of a key: in snake_case and in camelCase."""
    return AliasChoices(name, to_camel(name)) if "_" in name else name


_SPELLINGS: Final = AliasGenerator(validation_alias=_either_case)


class Settings(Part):
    """A mapping within a target. Its keys may be in camelCase as well."""

    model_config = ConfigDict(populate_by_name=True, arbitrary_types_allowed=True, alias_generator=_SPELLINGS)

    def replace(self, **changes: object) -> Self:
        """Return a copy with some keys changed."""
        return self.model_copy(update=changes)

    def to_plain(self) -> dict[str, Json]:
        """Return the keys that have a value, by their names; secrets stay `Secret`."""
        return {name: _plain(value) for name, value in self if value is not None}


def _plain(value: object) -> Json:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value.to_plain() if isinstance(value, Settings) else value


class Provider(Settings, Kind):
    """A kind of target. Its fields are the keys of the YAML, and `open` returns what is called for its cases.

    A target is checked twice: when its file is read, where `${{ VAR }}` may stand for any value, and again when its
    variables are filled in. The common keys of targets (`name`, `workers`, …) are not fields of the class.
    """

    needs: ClassVar[Mapping[str, str]] = {}
    """The required fields, each with the variable that replaces it if it is left out."""
    stand_ins: ClassVar[Mapping[str, str]] = {}
    """The same for fields that have a default."""
    takes_system_prompt: ClassVar[bool] = False
    """`request.system_prompt` is honoured; otherwise a judge's instructions come before its question."""
    judges_itself: ClassVar[bool] = False
    """It may judge its own answers when no `judge_target` is named."""
    is_agent: ClassVar[bool] = False
    """Results record its requests as `agent_provider_request`."""
    leaves_files: ClassVar[bool] = False
    """Its work lies in files, which evaluators may look at: later runs do not have them."""
    takes_workspace: ClassVar[bool] = False
    """It works in the folder `request.workspace`, if there is one."""
    costs_money: ClassVar[bool] = False
    """Its calls cost money: with `agentv_run = asked-if-paid`, its cases have to be asked for."""
    is_one_by_one: ClassVar[bool] = False
    """One case at a time in the whole run, whatever `workers` says."""
    answers_by_id: ClassVar[bool] = False
    """With `provider_batching`, only the ids of cases tell which answer is whose, so cases must not share one."""

    @abstractmethod
    def open(self, environment: TargetEnvironment) -> Any:
        """Return what is called for each case: an object with `invoke(request)`, sync or async.

        `invoke` returns a text, a mapping as Python targets do, or a `ProviderResponse`. The object may have the other
        parts of an `Adapter` as well. Raises `ProviderError`.
        """
        raise NotImplementedError

    @classmethod
    def needed(cls, written: Collection[str]) -> Mapping[str, str]:
        """Return `needs` for a target that has these fields."""
        del written
        return cls.needs

    @property
    def is_probed(self) -> bool:
        """Whether the processes of a run share one health check."""
        return False

    @property
    def sources(self) -> Sources:
        """Where its code is: if the code changes, earlier results are no longer valid."""
        return Sources()

    @property
    def own_code(self) -> type[Any] | None:
        """The user's code that is called, for the same purpose; None for a built-in kind."""
        return None if type(self).__module__.startswith("pytest_agentv.") else type(self)


def kind_of_any_keys(word: str) -> type[Provider]:
    """Return what takes the place of a kind of the project whose code is not here."""

    class Missing(Provider):
        model_config = ConfigDict(extra="allow")
        kind = word

        def open(self, environment: TargetEnvironment) -> Any:
            raise ProviderError(f"{environment.where}: the kind {word!r} is one of the project's", "config")

    return Missing


class RetryKeys(Provider):
    """A target with a retry policy (agentv-formats 4.7)."""

    max_retries: Count | None = Field(default=None, description="how often a failed request is retried (default: 3)")
    retry_initial_delay_ms: Milliseconds | None = Field(
        default=None, description="the wait before the first retry (default: 1000)"
    )
    retry_max_delay_ms: Milliseconds | None = Field(default=None, description="the longest wait (default: 60000)")
    retry_backoff_factor: Factor | None = Field(
        default=None, description="the factor from each wait to the next (default: 2)"
    )
    retry_status_codes: Items[StatusCode] | None = Field(
        default=None,
        description="the HTTP status codes to retry, besides network errors (default: 408, 409, 429, "
        "500, 502, 503, 504, 520, 522, 524, 529)",
    )

    @property
    def retry(self) -> RetryPolicy:
        """The policy for repeating failed requests."""
        written = {name.removeprefix("retry_"): getattr(self, name) for name in RetryKeys.model_fields}
        return RetryPolicy().replace(**known(written))


# The JSON shape in which commands and Python functions report their answer, and what may be wrong with it.

_DEEPEST: Final = 200
"""The most levels of lists and mappings. Answers are written by recursion."""

_LONGEST_KEY: Final = 80
"""The most characters of an unknown key, or of an invalid metric, in a warning."""

_MOST_WARNINGS: Final = 8

_BATCH_KEY: Final = "id"
"""The id in each line of a batch. Programs may write it in single answers as well."""

EXPECTED_KEYS: Final = "'text' or 'output_messages'"


class WireError(ValueError):
    """The data has another shape. The text names the key and its fault."""


class _Wire(BaseModel):
    """Keys may be in snake_case or camelCase, and null means "not reported"."""

    model_config = ConfigDict(strict=True, extra="ignore", alias_generator=_SPELLINGS)


def _or_nothing(value: Any, read: ValidatorFunctionWrapHandler, info: "ValidationInfo[list[str]]") -> Any:
    """Leave out a metric of a wrong type, so that the answer is not lost. Source: "Metrics schema validation"."""
    try:
        return read(value)
    except ValidationError:
        expected = "the numbers 'input' and 'output'" if info.field_name == "token_usage" else "a number"
        shown = masked(compact_json(value))[:_LONGEST_KEY]
        info.context.append(f"the answer's {info.field_name} is {shown} and was left out: expected {expected}")
        return None


_Number: TypeAlias = int | float

_Metric: TypeAlias = Annotated[_Number | None, WrapValidator(_or_nothing)]


class _Named(_Wire):
    """Keys that are not read cause a warning. Messages may have keys of their API."""

    model_config = ConfigDict(extra="allow")


class _ToolCall(_Named):
    tool: str
    input: Any = ABSENT
    output: Any = ABSENT
    id: str | None = None
    timestamp: str | None = None
    duration_ms: _Metric = None


class _Message(_Wire):
    role: str
    name: str | None = None
    content: Any = ABSENT
    tool_calls: list[_ToolCall] | None = None
    timestamp: str | None = None
    metadata: dict[str, Any] | None = None


class _TokenUsage(_Named):
    input: _Number
    output: _Number
    cached: _Metric = None
    reasoning: _Metric = None


class _Response(_Named):
    text: Any = ABSENT
    output_messages: list[_Message] | None = None
    trace: list[Any] | None = None
    trace_ref: str | None = None
    token_usage: Annotated[_TokenUsage | None, WrapValidator(_or_nothing)] = None
    cost_usd: _Metric = None
    duration_ms: _Metric = None
    finish_reason: str | None = None
    retrieved_context: list[str] | None = None


def parse_response(data: Json) -> ProviderResponse:
    """Read a response. `output_messages` with an answer override `text`. Without both, it has no messages.

    A `text` that is none is its JSON. A metric or an event of a wrong type is left out with a warning. Raises
    `WireError` if another value has a wrong type, or if the data is nested too deeply, and `ProviderError` for an
    invalid event that may be a call.
    """
    if fault := json_fault(data, _DEEPEST, with_texts=True):
        raise WireError(f"its values {fault}")
    said = data.get("output") if isinstance(data, dict) else None
    if isinstance(said, list) and said and all(isinstance(item, dict) and "role" in item for item in said):
        data = {"output_messages": said, **data}  # AgentV 4 has them under `output`
        del data["output"]
    odd: list[str] = []
    try:
        wire = _Response.model_validate(data, context=odd)
    except ValidationError as error:
        raise WireError(_describe(error)) from None
    events = parse_events(((f"the answer's trace[{at}]", event) for at, event in enumerate(wire.trace or ())), odd)
    return ProviderResponse(
        output_messages=_messages(wire, is_traced=any(event.type == "tool_call" for event in events)),
        trace=None if wire.trace is None else events,
        trace_ref=wire.trace_ref,
        token_usage=None if wire.token_usage is None else TokenUsage(**vars(wire.token_usage)),
        cost_usd=wire.cost_usd,
        duration_ms=wire.duration_ms,
        is_text_only=not wire.output_messages and wire.trace is None and wire.trace_ref is None,
        finish_reason=wire.finish_reason,
        retrieved_context=None if wire.retrieved_context is None else tuple(wire.retrieved_context),
        warnings=tuple(islice(dict.fromkeys(chain(odd, _unknown_keys(wire))), _MOST_WARNINGS)),
    )


def _messages(wire: _Response, *, is_traced: bool) -> tuple[Message, ...] | None:
    messages = tuple(map(_message, wire.output_messages or ()))
    if any(map(is_answer, messages)) or wire.text is ABSENT or (messages and wire.text is None):
        return messages or None
    if wire.text is None:
        # As in a message, null beside calls means an empty answer. A trace file is read later, and may hold calls.
        return (Message("assistant", content=None),) if wire.trace_ref or is_traced else None
    return (*messages, answer_message(wire.text if isinstance(wire.text, str) else compact_json(wire.text)))


def _message(wire: _Message) -> Message:
    calls = tuple(ToolCall(**vars(call)) for call in wire.tool_calls or ())
    parts = wire.content if isinstance(wire.content, list) else ()
    calls = calls or tuple(read_call(part) for part in parts if kind_of(part) == CALL)
    fields: JsonObject = {**vars(wire), "role": WORDS_FOR_ROLES.get(wire.role, wire.role), "tool_calls": calls}
    return Message(**fields)


def answer_message(text: str) -> Message:
    """Return an answer that is only a text."""
    return Message(role="assistant", content=text)


def _unknown_keys(wire: _Response) -> Iterator[str]:
    parts: list[tuple[str, _Named | None]] = [("", wire), ("token_usage.", wire.token_usage)]
    parts += [("tool_calls[].", call) for said in wire.output_messages or () for call in said.tool_calls or ()]
    for where, part in parts:
        names = type(part).model_fields if part is not None else {}
        for key in (part and part.model_extra) or ():
            if where or key != _BATCH_KEY:
                hint = did_you_mean(key, names) or f"known keys: {', '.join(names)}"
                shown = masked(f"{where}{key}")[:_LONGEST_KEY]
                yield f"the answer has a key that is not read: {shown!r} ({hint})"  # `repr`, against escape sequences


def _describe(error: ValidationError) -> str:
    first, *others = error.errors(include_url=False)
    what = first["msg"]
    if first["type"] in WORDING:
        what = f"expected {WORDING[first['type']]}, got a value of type {type(first['input']).__name__}"
    where = f"{show_key(first['loc'])}: " if first["loc"] else ""
    return f"{where}{what}{f' (and {len(others)} more)' if others else ''}"


def checked(response: object) -> ProviderResponse:
    """Return a response of users' code, whose metrics and kind of error are checked later. Raises `WireError`."""
    if not isinstance(response, ProviderResponse):
        raise WireError(f"a value of type {type(response).__name__}: expected a ProviderResponse")
    unread = {"token_usage": None, "cost_usd": None, "duration_ms": None, "error_kind": "crash"}
    try:
        found = ProviderResponse.from_plain(response.replace(**unread))  # type: ignore[arg-type]
    except ValidationError as error:
        raise WireError(f"an invalid ProviderResponse: {_describe(error)}") from None
    return found.replace(**{name: getattr(response, name) for name in unread})


# Messages of other packages and APIs: objects or mappings.


def get(value: object, *names: str) -> Any:
    """Return the first of some attributes, or keys of a mapping, that is not None; None if there is none."""
    for name in names:
        found = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
        if found is not None:
            return found
    return None


def items(value: object) -> Sequence[Any]:
    """Return a list or a tuple unchanged; empty for any other value."""
    return value if isinstance(value, list | tuple) else ()


def text(value: object) -> str | None:
    """Return a text unchanged, the text of an enum member, and None for any other value."""
    value = value.value if isinstance(value, Enum) else value
    return value if isinstance(value, str) else None


def plain(value: object, *, as_sent: bool = False) -> Any:
    """Return plain JSON data for any value; `as_sent`: with the names of an API, and without nulls."""
    data = to_json(
        value,
        by_alias=as_sent,
        exclude_none=as_sent,
        bytes_mode="base64",
        inf_nan_mode="strings",
        fallback=lambda other: vars(other) if isinstance(other, SimpleNamespace) else str(other),
    )
    return from_json(data)


def parsed(value: object) -> Json:
    """Return plain data. Parses a text that is JSON, because most APIs send the arguments of tools as text."""
    return parsed_text(value) if isinstance(value, str) else plain(value)


def text_content(content: object) -> Json:
    """Return the text of a message's content, which may have parts; `ABSENT` if it has no text."""
    if isinstance(content, str):
        return str(content)
    parts = ({"type": "text", "text": part} if isinstance(part, str) else part for part in items(content))
    found = [get(part, "text") for part in parts if kind_of(part) in ("text", "output_text", "input_text")]
    texts = [each for each in found if isinstance(each, str)]
    return "".join(texts) if texts else ABSENT


def output_of(value: object) -> Json:
    """Return the output of a tool, which may have parts. Without a type, they are data."""
    is_data = any(isinstance(part, Mapping) and "type" not in part for part in items(value))
    found = ABSENT if is_data else text_content(value)
    return plain(value) if found is ABSENT else parsed(found)


def read_call(call: object) -> ToolCall:
    """Return a call in the words of any API. The input of a `custom` tool is a free text."""
    called = get(call, "function", "custom", "toolUse") or call
    arguments, free = get(called, "arguments", "args"), get(called, "input")
    given = plain(free) if arguments is None else parsed(arguments)
    name = text(get(called, "name", "toolName", "tool_name", "tool")) or UNNAMED
    call_id = text(get(call, "id", "toolCallId", "tool_call_id")) or text(get(called, "toolUseId"))
    none: Json = ABSENT if get(call, "function") is None else {}
    return ToolCall(name, none if given is None else given, id=call_id)
