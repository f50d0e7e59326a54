"""What APIs of models share: pictures and PDFs, parts of requests and replies, and the records of both."""

import json
import re
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import groupby
from pathlib import Path, PurePath
from typing import Any, Final

from pytest_agentv.cases.prompts import ChatMessage
from pytest_agentv.errors import ProviderError
from pytest_agentv.model.base import Json, JsonObject, Record, is_measure, is_number, mapping
from pytest_agentv.model.messages import FilePart, TokenUsage, ToolCall


@dataclass(frozen=True, slots=True)
class Encoded(Record):
    """A file in the form in which it is sent."""

    media_type: str
    name: str
    """The name of the file, without its folder."""
    data: str
    """The bytes as base64."""
    is_image: bool

    @property
    def url(self) -> str:
        """The file as a `data:` URL."""
        return f"data:{self.media_type};base64,{self.data}"


def encoded(file: FilePart) -> Encoded:
    """Read a picture or a PDF. Raises `ProviderError` for other files, and for one that changed during the run."""
    fault = "is a text" if file.media is None else file.media.fault
    if file.media is None or fault is not None:
        raise ProviderError(f"{file.path} cannot be sent to a model: it {fault}", "config")
    try:
        content = Path(file.resolved_path).read_bytes()
    except OSError as error:
        raise ProviderError(f"{file.path} cannot be read: {error.strerror or error}", "config") from None
    if sha256(content).hexdigest() != file.media.sha256:
        raise ProviderError(f"{file.path} was changed while the run was going on", "config")
    data = b64encode(content).decode("ascii")
    return Encoded(file.media.media_type, PurePath(file.path).name, data, file.media.is_image)


def chat_content(message: ChatMessage) -> Any:
    """Return the content of a message of OpenAI's chat completions: a text, or a list of parts."""
    if message.parts is None:
        return message.content
    found: list[JsonObject] = []
    for part in message.parts:
        if isinstance(part, str):
            found.append({"type": "text", "text": part})
        elif (sent := encoded(part)).is_image:
            found.append({"type": "image_url", "image_url": {"url": sent.url}})
        else:
            found.append({"type": "file", "file": {"filename": sent.name, "file_data": sent.url}})
    return found


# Reads parts of replies, any of which may be missing, and builds parts of requests.


def split_query(url: str) -> tuple[str, str]:
    """Return a base URL without slashes at its end, and its query with the question mark. Paths go between the two."""
    place, mark, query = url.partition("?")
    return place.rstrip("/"), mark + query


def count(value: Json) -> int:
    """Return a number of tokens; 0 for any other value."""
    return int(value) if is_count(value) else 0


def is_count(value: Json) -> bool:
    """Whether a value is a number of tokens: a whole number, which some servers write as 30.0."""
    return is_number(value) and value >= 0 and (isinstance(value, int) or value.is_integer())


def entries(value: Json) -> Sequence[JsonObject]:
    """Return the mappings of a list; empty for any other value."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def text_of(value: Json) -> str:
    """Return a text unchanged, and an empty one for any other value."""
    return value if isinstance(value, str) else ""


def name_of(value: Json) -> str | None:
    """Return a text unchanged; None for an empty one and for any other value."""
    return text_of(value) or None


def parsed(value: Json) -> Json:
    """Return the input of a tool call. Parses a text that is JSON."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def function_of(tool: JsonObject) -> JsonObject | None:
    """Return the function of a tool in the shape of OpenAI; None for a tool that only the API knows."""
    function = tool.get("function")
    return function if tool.get("type") == "function" and isinstance(function, dict) else None


def schema_of(response_format: JsonObject | None) -> JsonObject | None:
    """Return the JSON Schema of a format in the shape of OpenAI; None if it has none."""
    schema = mapping(mapping(response_format).get("json_schema")).get("schema")
    return schema if isinstance(schema, dict) else None


def form_of(schema: JsonObject) -> JsonObject:
    """Return the format, in the shape of OpenAI, that binds the reply of a judge to a schema."""
    return {"type": "json_schema", "json_schema": {"name": "judgement", "schema": schema, "strict": True}}


def known(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that are not None. Others are left out of a request."""
    return {name: value for name, value in values.items() if value is not None}


def in_turns(
    messages: Sequence[ChatMessage], role_of: Callable[[ChatMessage], str]
) -> list[tuple[str, list[str | FilePart]]]:
    """Return alternating roles, each with the texts, pictures and PDFs of its consecutive messages."""
    return [
        (role, [part for message in group for part in message.parts or (message.content,)])
        for role, group in groupby(messages, role_of)
    ]


def merged(base: JsonObject, extra: JsonObject) -> dict[str, Json]:
    """Merge one mapping into another, at every depth."""
    found = dict(base)
    for key, value in extra.items():
        old = found.get(key)
        found[key] = merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return found


def without(body: JsonObject, path: str) -> dict[str, Json]:
    """Return a body without the value at a path with dots, and without a group that is empty then."""
    name, _, rest = path.partition(".")
    group = body.get(name)
    inner = without(group, rest) if rest and isinstance(group, dict) else {}
    found = {**body, name: inner}
    return found if inner else {key: value for key, value in body.items() if key != name}


_INPUT: Final = ("prompt_tokens", "input", "input_tokens", "inputTokens", "promptTokens")
_OUTPUT: Final = ("completion_tokens", "output", "output_tokens", "outputTokens", "completionTokens")


def has_usage(usage: JsonObject) -> bool:
    """Whether the tokens of question and answer are known. Those of one alone would make the price too low."""
    return is_count(_first(usage, *_INPUT)) and is_count(_first(usage, *_OUTPUT))


def read_usage(usage: JsonObject) -> TokenUsage | None:
    """Return the tokens in the words of any API; None if those of question or answer are missing.

    OpenAI counts cached tokens within the input, Anthropic beside it; here they are beside it. Anthropic counts tokens
    written to a cache beside the input; here they are input. xAI has the tokens of reasoning in the total only.
    """
    if not has_usage(usage):
        return None
    read, written = count(_first(usage, *_INPUT)), count(_first(usage, *_OUTPUT))
    details = mapping(_first(usage, "prompt_tokens_details", "input_tokens_details", "input_token_details"))
    cached = count(_first(details, "cached_tokens", "cache_read"))
    cached = cached or count(_first(usage, "prompt_cache_hit_tokens", "cache_read_tokens"))  # DeepSeek, pydantic-ai
    read = max(0, read - cached)
    if "prompt_tokens" not in usage:
        read += count(usage.get("cache_creation_input_tokens"))
        cached = cached or count(_first(usage, "cached", "cache_read_input_tokens"))
    details = mapping(
        _first(usage, "completion_tokens_details", "output_tokens_details", "output_token_details", "details")
    )
    reasoning = count(_first(details, "reasoning_tokens", "thinking_tokens", "thoughts_tokens", "reasoning"))
    if reasoning and count(usage.get("total_tokens")) == read + cached + written + reasoning:
        written += reasoning
    reasoning = reasoning or count(_first(usage, "reasoning", "reasoning_tokens"))
    return TokenUsage(read, written, cached or None, reasoning or None) if read or written or cached else None


def _first(values: JsonObject, *names: str) -> Json:
    """Return the first of some keys that is there; None if there is none."""
    return next((values[name] for name in names if name in values), None)


_USUAL_TERMS: Final = frozenset(
    ("", "default", "standard", "auto", "on_demand", "standard_only", "unspecified", "traffic_type_unspecified")
)


def is_unusual(term: Json) -> bool:
    """Whether a service tier, a speed or a type of traffic has other prices than the usual one."""
    return text_of(term).strip().lower() not in _USUAL_TERMS


def vectors_of(values: Sequence[Json]) -> tuple[tuple[float, ...] | None, ...] | None:
    """Return vectors; None for a value that is not a list of numbers or has no direction, and without any vector."""
    # Broken servers send zeros or NaN. A negated `similar` would pass then.
    vectors = tuple(
        tuple(map(float, value)) if isinstance(value, list) and any(value) and all(map(is_measure, value)) else None
        for value in values
    )
    return vectors if any(vectors) else None


@dataclass(frozen=True, slots=True)
class ApiRequest(Record):
    """An HTTP POST with a JSON body."""

    url: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: JsonObject


@dataclass(frozen=True, slots=True)
class Billing(Record):
    """The facts that affect the price of a reply, beside the model and the tokens."""

    cost_usd: float | None = None
    """US dollars, if the reply reports them."""
    written: int = 0
    """The input tokens that were written to a cache, for some minutes."""
    is_unknown: bool = False
    """Whether there is more to pay for: another tier, searches, sounds."""
    provider: str | None = None
    """The provider in the price tables, of a reply that a function returns; None: the price is unknown."""


@dataclass(frozen=True, slots=True)
class ModelReply(Record):
    """A model's reply, from any API."""

    text: str
    """Empty if the reply has no text."""
    model: str | None = None
    """The model that replied, as the API names it."""
    finish_reason: str | None = None
    """Why the model stopped, in the words of the API."""
    refusal: str | None = None
    """The words of a refusal in place of a text."""
    tools: tuple[ToolCall, ...] = ()
    """The tools that the model called, in order."""
    usage: TokenUsage | None = None
    billing: Billing = field(default_factory=Billing)
    ran: int = 0
    """How many of the calls the API ran itself. The others are for the client, and are an answer without a text."""


@dataclass(frozen=True, slots=True)
class Embeddings(Record):
    """The vectors of some texts, from a model."""

    vectors: tuple[tuple[float, ...] | None, ...]
    """One vector per text, in order. None: the model gave none, or one without a direction."""
    tokens: int = 0
    """The tokens of all texts; 0: not reported."""
    cost_usd: float | None = None
    """US dollars for all texts; None: the price is unknown."""
    model: str | None = None
    """The model, as the API names it."""


@dataclass(frozen=True, slots=True)
class HttpRequest(Record):
    """Any request."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Names in lower case."""
    content: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class HttpReply(Record):
    """Any reply."""

    status: int
    headers: Mapping[str, str]
    """A mapping that ignores the case of names, or at least has lower-case names."""
    content: bytes = b""

    @property
    def charset(self) -> str | None:
        """The encoding that the reply names; None: none, or one in which no text can be read."""
        found = re.search(r"charset=[\"']?([\w.:-]+)", self.headers.get("content-type") or "", re.IGNORECASE)
        try:
            return found[1] if found and b"-".decode(found[1], "replace") else None
        except (LookupError, UnicodeError):
            return None

    @property
    def text(self) -> str:
        """The content without a byte order mark, in the encoding that it names, else UTF-8. Replaces invalid bytes."""
        return self.content.decode(self.charset or "utf-8", "replace").removeprefix("\ufeff")


def shown_url(url: str) -> str:
    """Return a URL without its login and its query, which may be secrets. The URL may be incomplete."""
    return re.sub(r"(?<=//).*@", "", url, flags=re.DOTALL).partition("?")[0]


def is_success(status: int) -> bool:
    """Whether a status says that the request was answered."""
    return 200 <= status < 300
