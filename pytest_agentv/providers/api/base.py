"""What APIs of models share: pictures and PDFs, parts of requests and replies, and the records of both."""

import importlib
import json
import re
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import groupby
from pathlib import Path, PurePath
from typing import Any, Final, Protocol, runtime_checkable

from pytest_agentv.cases.prompts import ChatMessage
from pytest_agentv.errors import ProviderError
from pytest_agentv.model.base import Json, JsonObject, Record, is_amount, is_measure, is_number, mapping
from pytest_agentv.model.cases import RetryPolicy
from pytest_agentv.model.messages import UNNAMED, FilePart, TokenUsage, ToolCall
from pytest_agentv.model.secrets import Secret
from pytest_agentv.runtime.user_code import run_in_thread

# No other module reads the bytes of pictures and PDFs.


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
    """Return a file in the form in which it is sent. Raises `ProviderError` like `read_media`. Blocks."""
    content = b64encode(read_media(file)).decode("ascii")
    assert file.media is not None
    return Encoded(file.media.media_type, PurePath(file.path).name, content, file.media.is_image)


def read_media(file: FilePart) -> bytes:
    """Return the bytes of a picture or a PDF. Blocks.

    Raises `ProviderError` for a file of another type, and for one that changed during the run.
    """
    fault = "is a text" if file.media is None else file.media.fault
    if file.media is None or fault is not None:
        raise ProviderError(f"{file.path} cannot be sent to a model: it {fault}", "config")
    try:
        content = Path(file.resolved_path).read_bytes()
    except OSError as error:
        raise ProviderError(f"{file.path} cannot be read: {error.strerror or error}", "config") from None
    if sha256(content).hexdigest() != file.media.sha256:
        raise ProviderError(f"{file.path} was changed while the run was going on", "config")
    return content


def parts_of(message: ChatMessage) -> tuple[str | FilePart, ...]:
    """Return the texts, pictures and PDFs of a message, in order."""
    return (message.content,) if message.parts is None else message.parts


def chat_content(message: ChatMessage) -> Any:
    """Return the content of a message of OpenAI's chat completions: a text, or a list of parts."""
    if message.parts is None:
        return message.content
    return [_chat_part(part) for part in message.parts]


def _chat_part(part: str | FilePart) -> JsonObject:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    sent = encoded(part)
    if sent.is_image:
        return {"type": "image_url", "image_url": {"url": sent.url}}
    return {"type": "file", "file": {"filename": sent.name, "file_data": sent.url}}


# Reads parts of replies, any of which may be missing, and builds parts of requests.


def split_query(url: str) -> tuple[str, str]:
    """Return a base URL without slashes at its end, and its query with the question mark. Paths go between the two."""
    place, mark, query = url.partition("?")
    return place.rstrip("/"), mark + query


def query_without_version(url: str) -> str:
    """Return the rest of a URL's query unchanged, for example the key of a gateway."""
    parts = url.strip().partition("?")[2].split("&")
    return "&".join(part for part in parts if part and part.partition("=")[0].lower() != "api-version")


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


def call_of(name: Json, given: Json, call_id: Json) -> ToolCall:
    """Return a tool call of a reply."""
    return ToolCall(text_of(name) or UNNAMED, given, id=name_of(call_id))


def name_of_tool(kind: Json) -> str:
    """Return the name of a tool that Google ran, as requests declare it: `google_search`, `url_context`."""
    word = text_of(kind).lower()
    return "google_search" if word.startswith("google_search") else word or UNNAMED


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
        (role, [part for message in group for part in parts_of(message)]) for role, group in groupby(messages, role_of)
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


def usage_of(total_in: int, total_out: int, cached: int) -> TokenUsage | None:
    """Return the tokens of a reply. `total_in` includes the cached ones, the record does not."""
    if not total_in and not total_out:
        return None
    return TokenUsage(max(0, total_in - cached), total_out, cached or None)


def told_cost(usage: JsonObject) -> float | None:
    """Return the US dollars that a gateway reports: OpenRouter a number, Perplexity parts and their sum.

    With a user's own key at OpenRouter (`is_byok`), the model's vendor is paid as well.
    """
    cost = usage.get("cost")
    parts = [cost.get("total_cost") if isinstance(cost, dict) else cost]
    if usage.get("is_byok") is True:
        parts.append(mapping(usage.get("cost_details")).get("upstream_inference_cost"))
    found = [float(part) for part in parts if is_amount(part)]
    return sum(found) or None if len(found) == len(parts) else None


_USUAL_TIERS: Final = ("", "default", "standard", "auto", "on_demand", "standard_only", "unspecified")


def terms_of(tier: Json) -> dict[str, str]:
    """Return the terms of a service tier for `Billing.context`; empty for the usual tiers."""
    word = text_of(tier).strip().lower()
    return {} if word in _USUAL_TIERS else {"processing": word} if word == "batch" else {"service_tier": word}


def vectors_of(values: Sequence[Json]) -> tuple[tuple[float, ...] | None, ...] | None:
    """Return vectors; None for a value that is not a list of numbers or has no direction, and without any vector.

    Broken servers send zeros or NaN. A negated `similar` would pass then.
    """
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
    body: JsonObject
    is_large: bool = False
    """Whether it holds pictures or PDFs, so that writing it as JSON takes a while."""


@dataclass(frozen=True, slots=True)
class ModelSettings(Record):
    """The settings of a target for APIs, with texts trimmed and variables filled in."""

    model: str
    """The model, or the deployment."""
    api_key: str | None = field(default=None, repr=False)
    base_url: str | None = None
    api_version: str | None = None
    temperature: float | None = None
    max_output_tokens: int | None = None
    thinking_budget: int | None = None
    top_p: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] | None = None
    reasoning_effort: str | None = None
    response_format: JsonObject | None = None
    """In the shape of OpenAI's chat completions."""
    tools: tuple[JsonObject, ...] | None = None
    """In the shape of OpenAI's chat completions, or of the API itself."""
    organization: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Sent with each request, in addition to those of the API."""
    extra_body: JsonObject = field(default_factory=dict, repr=False)
    """Merged into the body of each request."""
    base_model: str | None = None
    """The model that prices are looked up for."""
    reasoning: bool | None = None
    """Whether it is a reasoning model, which gets no temperature."""
    api_format: str | None = None
    """`responses`; otherwise OpenAI's chat completions."""

    def bound(self, schema: JsonObject | None) -> "ModelSettings":
        """Return the settings whose format binds the reply to a schema, if there is one."""
        return self if schema is None else self.replace(response_format=form_of(schema))


@dataclass(frozen=True, slots=True)
class Billing(Record):
    """The facts that affect the price of a reply, beside the model and the tokens."""

    cost_usd: float | None = None
    """US dollars, if the reply reports them."""
    context: Mapping[str, str] = field(default_factory=dict)
    """Unusual terms, in the words of genai-prices: `{"service_tier": "flex"}`."""
    written: int = 0
    """The input tokens that were written to a cache."""
    written_for_hour: int = 0
    """The written tokens that the cache keeps for an hour."""
    web_searches: int = 0
    file_searches: int = 0
    is_unknown: bool = False
    """Whether the reply includes paid services that no price table has."""


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
    reasoning_tokens: int | None = None
    """The output tokens that were spent on reasoning."""
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
    is_numbered: bool = False
    """Whether the API says which text each vector is of, so that some may lack."""


@runtime_checkable
class EmbeddingApi(Protocol):
    """An API that turns texts into vectors."""

    def embed(self, texts: Sequence[str]) -> ApiRequest:
        """Build the request for the vectors of some texts."""

    def read_embeddings(self, reply: JsonObject) -> Embeddings | None:
        """Read the JSON of a successful reply; None if it has no vectors."""


class Api(Protocol):
    """One API, with the settings of one target. Immutable, so that any number of requests share it."""

    price_provider: str
    """The API's name in price tables."""

    def request(self, messages: Sequence[ChatMessage], schema: JsonObject | None = None) -> ApiRequest:
        """Build the request for the next message of a conversation. A system message comes first, if there is one.

        Reads pictures and PDFs. Raises `ProviderError` for those that cannot be sent. The reply is bound to the schema.
        """

    def read(self, reply: JsonObject) -> ModelReply | None:
        """Read the JSON of a successful reply; None if it has no message."""


def extended(request: ApiRequest, settings: ModelSettings) -> ApiRequest:
    """Add the headers and the body of the target to a request. Both override those of the API."""
    headers = {name.lower(): text for name, text in {**request.headers, **settings.headers}.items()}
    return request.replace(headers=headers, body=merged(request.body, settings.extra_body))


class AskedModel(Protocol):
    """The settings that a model of any kind is asked with."""

    @property
    def kind(self) -> str:
        """The word after `provider:`."""

    @property
    def model(self) -> str:
        """The model, or the deployment."""

    @property
    def api_key(self) -> Secret | None:
        """The key; None: the server needs no key, or litellm finds it."""

    @property
    def max_output_tokens(self) -> int | None:
        """The longest answer, in tokens."""

    @property
    def retry(self) -> RetryPolicy:
        """The policy for repeating failed requests."""

    @property
    def uses_litellm(self) -> bool:
        """Whether litellm asks the model, instead of `api`."""

    @property
    def api_settings(self) -> ModelSettings:
        """The settings for the API."""

    def api(self, variables: Mapping[str, str]) -> Api:
        """Return the API that is asked directly."""


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
        """The content as a text, in the encoding that it names, else UTF-8. Invalid bytes are replaced.

        A byte order mark is no part of it.
        """
        return self.content.decode(self.charset or "utf-8", "replace").removeprefix("\ufeff")


def shown_url(url: str) -> str:
    """Return a URL without its login and its query, which may be secrets. The URL may be incomplete."""
    return re.sub(r"(?<=//).*@", "", url, flags=re.DOTALL).partition("?")[0]


def is_success(status: int) -> bool:
    """Whether a status says that the request was answered."""
    return 200 <= status < 300


async def open_client(asked: str, where: str, environment: Mapping[str, str]) -> Any:
    """Return an `HttpClient`, which a thread imports. Raises `ProviderError` if it cannot be imported.

    Args:
        asked: The name in messages of what is asked.
        where: The place in messages of its URL.
        environment: The variables that may name proxies.
    """
    name = "pytest_agentv.providers.api.client"
    try:
        module = await run_in_thread(lambda: importlib.import_module(name), "agentv-import-http")
    except ImportError as error:
        raise ProviderError(f"the HTTP client cannot be imported: {error}", "config") from error
    return module.HttpClient(asked, where, environment)
