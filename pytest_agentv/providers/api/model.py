"""Models behind an API: their keys, what they are told, what a reply means and costs, and the retried requests."""

import asyncio
import functools
import re
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final, Literal, Self, TypeAlias

from pydantic import BeforeValidator, Field, WithJsonSchema

from pytest_agentv.cases.prompts import ChatMessage, PromptMode, guidelines_section
from pytest_agentv.errors import ErrorKind
from pytest_agentv.model.base import JsonObject, is_amount, trim
from pytest_agentv.model.kind import Items, Text, expected, spelled
from pytest_agentv.model.messages import Message, TokenUsage, incomplete_reason, is_broken, is_cut
from pytest_agentv.providers.api.base import ApiRequest, Billing, Embeddings, ModelReply, merged, without
from pytest_agentv.providers.api.client import (
    HttpClient,
    RequestError,
    begin,
    import_aiohttp,
    loaded,
    refuses_form,
    repeated,
    shorten,
    without_choice,
)
from pytest_agentv.providers.base import Adapter, ProviderRequest, ProviderResponse, TargetAdapter, TargetEnvironment
from pytest_agentv.providers.kind import RetryKeys
from pytest_agentv.targets.fields import (
    SHIELDED,
    FreeMapping,
    Headers,
    Number,
    OptionalText,
    PositiveCount,
    SecretText,
    ServerUrl,
    Share,
    Whole,
    reveal,
)

SEED: Final[Any] = Field(default=None, description="asks the model to give the same answer each time")
ORGANIZATION: Final[Any] = Field(default=None, description="the organization that pays")
REASONING: Final[Any] = Field(default=None, description="whether it is a reasoning model, which gets no temperature")
"""Fields of models with a key of the same name."""


def _tool(value: object) -> object:
    """Return a tool in the shape of OpenAI. The API's own tools stay unchanged."""
    if not isinstance(value, dict):
        raise expected("a mapping with name, description and parameters")
    return {"type": "function", "function": value} if "name" in value and "type" not in value else value


Stops: TypeAlias = Annotated[
    Items[str],
    BeforeValidator(lambda value: value if isinstance(value, list | tuple) else [value]),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
Tool: TypeAlias = Annotated[dict[str, Any], BeforeValidator(_tool), SHIELDED, WithJsonSchema({"type": "object"})]


class Model(RetryKeys):
    """A model behind an API (agentv-formats 4.5, 4.7)."""

    takes_system_prompt = True
    judges_itself = True
    costs_money = True

    model: Text = spelled("model", "deployment", "variant", description="the name of the model")
    api_key: SecretText = Field(default=None, description="the key of the API")
    base_url: ServerUrl = spelled(
        *("base_url", "baseUrl", "baseURL", "endpoint"), default=None, description="another server that speaks the API"
    )
    temperature: Number | None = Field(default=None, description="how freely the model chooses its words")
    max_output_tokens: PositiveCount | None = spelled(
        *("max_output_tokens", "maxOutputTokens", "maxTokens"),
        default=None,
        description="the longest answer, in tokens",
    )
    top_p: Share | None = Field(default=None, description="the share of likely words to choose from")
    stop: Stops | None = Field(default=None, description="a text, or a list of texts, at which the answer ends")
    reasoning_effort: OptionalText = Field(
        default=None, description="how much the model thinks: `low`, `medium`, `high`, or another word of its API"
    )
    response_format: FreeMapping | None = Field(
        default=None, description="the shape of the answer, as OpenAI writes it: `{type: json_schema, json_schema: …}`"
    )
    tools: Items[Tool] | None = Field(
        default=None,
        description="functions that the model may call, each with `name`, `description` and `parameters`, a JSON "
        "Schema; the calls of its reply are recorded, not executed",
    )
    headers: Headers = Field(default={}, description="sent with each request")
    extra_body: FreeMapping = Field(default={}, description="merged into the body of each request")
    base_model: OptionalText = Field(
        default=None, description="the model behind a name that does not reveal it, for prices"
    )

    price_provider: ClassVar[str] = ""
    """The API's name in price tables."""

    @property
    def key(self) -> str | None:
        """The value of the key; None: the server needs no key, or litellm finds it."""
        return self.api_key.reveal() if self.api_key else None

    def api(self, variables: Mapping[str, str]) -> Self:
        """Return the settings that the API gets: with the values of secrets, and what variables add."""
        del variables
        names = ("headers", "extra_body", "response_format", "tools")
        return self.replace(**{name: reveal(getattr(self, name)) for name in names})

    def request(self, messages: Sequence[ChatMessage], schema: JsonObject | None = None) -> ApiRequest:
        """Build the request for the next message of a conversation. A system message comes first, if there is one.

        Reads pictures and PDFs. Raises `ProviderError` for those that cannot be sent. The reply is bound to the schema.
        """
        raise NotImplementedError

    def read(self, reply: JsonObject) -> ModelReply | None:
        """Read the JSON of a successful reply; None if it has no message."""
        raise NotImplementedError

    embed: ClassVar[Any] = None
    """Builds the request for the vectors of some texts; None: the API has none."""
    read_embeddings: ClassVar[Any] = None
    """Reads the JSON of a successful reply; returns None if it has no vectors."""

    def post(self, url: str, headers: Mapping[str, str], body: JsonObject) -> ApiRequest:
        """Return a request of the API with the target's own headers and body, which override those of the API."""
        all_headers = {name.lower(): str(text) for name, text in {**headers, **self.headers}.items()}
        return ApiRequest(url, all_headers, merged(body, self.extra_body))

    def open(self, environment: TargetEnvironment) -> Adapter:
        if getattr(self, "client", "litellm") == "litellm":
            from pytest_agentv.providers.api.litellm import LitellmProvider  # noqa: PLC0415 - needs this module

            return LitellmProvider(self, environment)
        return DirectProvider(self, environment)


class DirectModel(Model):
    """A model whose API is asked directly, unless the target says otherwise."""

    client: Literal["direct", "litellm"] = Field(default="direct", description="`litellm` asks through litellm")


class Litellm(Model):
    """Any model string of litellm."""

    kind = "litellm"

    api_version: OptionalText = spelled(
        *("api_version", "apiVersion", "version"), default=None, description="the version of the API"
    )

    seed: Whole | None = SEED
    organization: OptionalText = ORGANIZATION


# Prices answers by the tables of genai-prices.

PRICES: Final = "genai-prices"
"""The source of these prices."""
_USUAL: Final = Billing()
_OPEN_WEIGHTS: Final = re.compile(r"(openai/)?gpt-oss")
"""Models that OpenAI gives away. Their price depends on the server, which may be the user's own machine."""

_FEE_PER_ANSWER: Final = re.compile(r"-search-(preview|api)\b")
"""Models of OpenAI that search before each answer, for a fee that no table has."""


@functools.cache
def load_tables() -> Any:
    """Return genai-prices with its tables loaded; None without it. Takes up to half a second: call it in a thread."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the user's run must not show warnings of another package's import
            import genai_prices  # noqa: PLC0415 - only for runs with models
        usage = genai_prices.Usage(input_tokens=1, output_tokens=1)
        genai_prices.calc_price(usage, "gpt-4o", provider_id="openai")  # the first price takes 30 ms for any model
    except Exception:  # noqa: BLE001 - a missing price must not lose a paid answer
        return None
    return genai_prices


def price(model: str, provider: str, usage: TokenUsage | None, billing: Billing = _USUAL) -> float | None:
    """Return the US dollars of an answer; None if they are unknown. May import a table: call it first in a thread."""
    if usage is None or billing.is_unknown or _FEE_PER_ANSWER.search(model):
        return None
    if provider == "openai" and _OPEN_WEIGHTS.match(model):
        return None
    try:
        genai_prices = load_tables()
        cached = int(usage.cached or 0)
        counts = genai_prices.Usage(
            input_tokens=int(usage.input) + cached,
            cache_read_tokens=cached,
            cache_write_tokens=billing.written or None,
            output_tokens=int(usage.output),
        )
        found = genai_prices.calc_price(counts, model, provider_id=provider).total_price
    except Exception:  # noqa: BLE001 - a missing price must not lose a paid answer
        return None
    return float(found) or None


def read_cost(reply: Any) -> float | None:
    """Return the US dollars by litellm's price map. Without a price for the model, it returns None or 0."""
    cost = getattr(reply, "_hidden_params", {}).get("response_cost")
    return float(cost) if is_amount(cost) and cost > 0 else None


# Turns a request into messages, and a model's reply into a response.


def build_response(reply: ModelReply, model: str, settings: Model) -> ProviderResponse:
    """Return the response for a reply. Without a text, or calls of the target's own tools, it has an `error`."""
    response = ProviderResponse(
        output_messages=(Message("assistant", reply.text, reply.tools),),
        token_usage=reply.usage,
        finish_reason=reply.finish_reason,
        raw={"model": reply.model},
    )
    reason = incomplete_reason(reply.finish_reason)
    if reply.text.strip() or (settings.tools and len(reply.tools) > reply.ran and reason is None):
        return response
    if is_cut(reply.finish_reason):
        limit = settings.max_output_tokens
        why = "the answer was cut at " + (f"max_output_tokens={limit}" if limit else "the model's token limit")
        if reply.usage is not None and reply.usage.reasoning:
            why += f"; {reply.usage.reasoning:g} of {reply.usage.output:g} output tokens were reasoning"
    elif reply.refusal:
        why = f"the model refused: {shorten(reply.refusal)}"
    elif reply.tools:
        why = f"the model called tools instead of answering: {', '.join(call.tool for call in reply.tools)}"
    else:
        why = f"there is no answer: {reason}" if reason else "the model's answer is empty"
    kind: ErrorKind = "network" if is_broken(reply.finish_reason) else "no_answer"
    return response.replace(error=f"{model}: {why} (finish_reason={reply.finish_reason})", error_kind=kind)


DEFAULT_SYSTEM_PROMPT: Final = (
    "You are a careful assistant: do what the instructions ask, and never invent facts or results."
)


def build_messages(request: ProviderRequest) -> list[ChatMessage]:
    """Return the messages of a request. A conversation keeps its own system message."""
    prompt = request.prompt
    system = request.system_prompt or DEFAULT_SYSTEM_PROMPT
    if prompt.chat_prompt is None:
        system = "\n\n".join(filter(None, (system, guidelines_section(prompt.guidelines))))
        return [ChatMessage("system", system), ChatMessage("user", trim(prompt.question), prompt.parts)]
    if any(message.role == "system" for message in prompt.chat_prompt):
        return list(prompt.chat_prompt)
    return [ChatMessage("system", system), *prompt.chat_prompt]


# Asks models.


class LlmProvider(TargetAdapter):
    """A model. Its requests are repeated by the target's retry policy. A check would cost money."""

    mode: PromptMode = "lm"
    keeps_limits = True

    def __init__(self, settings: Model, environment: TargetEnvironment) -> None:
        self._api = settings.api(environment.variables)
        self._model = f"model {settings.model!r} ({settings.kind})"
        self._target = environment.where
        self._policy = settings.retry
        self._binds = True
        """Whether the server takes a schema of the reply, as far as is known."""

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        """Ask the model, with repetitions by the target's retry policy. The time limit covers all requests.

        Raises `ProviderError`. Its `raw` holds `request_attempts`, `waited_ms` and `last_error`, like a response's.
        """
        messages = build_messages(request)
        await self._ready()  # imports are no part of the time limit, and neither is the look-up of the price
        ask = functools.partial(self._ask_bound, messages, request.schema)
        (response, billing), log = await repeated(ask, self._policy, self._model, request.timeout_seconds)
        response = response.replace(raw={**response.raw, **log.to_raw()})
        if response.cost_usd is not None or response.cost_source is not None:
            return response  # the reply told it, or litellm looked it up
        found = await self._price(response.raw["model"], response.token_usage, billing)
        return response if found is None else response.replace(cost_usd=found, cost_source=PRICES)

    async def _ask_bound(
        self, messages: Sequence[ChatMessage], schema: JsonObject | None
    ) -> tuple[ProviderResponse, Billing]:
        """Ask once. A server that refuses a schema of the reply is asked without one from then on."""
        if schema is not None and self._binds:
            try:
                return await self._ask(messages, schema)
            except RequestError as error:
                if not refuses_form(error):
                    raise
                self._binds = False
        return await self._ask(messages, None)

    async def _ready(self) -> None:
        raise NotImplementedError

    async def _ask(
        self, messages: Sequence[ChatMessage], schema: JsonObject | None
    ) -> tuple[ProviderResponse, Billing]:
        raise NotImplementedError

    async def _price(self, model: str | None, usage: TokenUsage | None, billing: Billing) -> float | None:
        """Return the US dollars of a reply, by the API's name of the model; None if unknown."""
        await loaded(load_tables, "the tables of prices")
        return price(self._api.base_model or model or self._api.model, self._api.price_provider, usage, billing)


_LIMITS: Final = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
"""Names of one parameter. Each is tried if a server refuses the other."""
_SYSTEM: Final = "system_instruction"
"""Gemini's name of the system message."""


class DirectProvider(LlmProvider):
    """A model whose API is asked directly."""

    needs_no_task = True

    def __init__(self, settings: Model, environment: TargetEnvironment) -> None:
        super().__init__(settings, environment)
        self._http = HttpClient(self._model, self._target, environment.variables)
        self._instead: dict[str, JsonObject] = {}
        """What is sent instead of parameters that the model does not take, by their paths."""
        self._warnings: list[str] = []

    def warm_up(self) -> None:
        """Start importing the HTTP client."""
        begin(import_aiohttp)

    async def _ready(self) -> None:
        await self._http.ready()
        begin(load_tables)  # takes longer, and is done while the model answers

    async def _ask(
        self, messages: Sequence[ChatMessage], schema: JsonObject | None
    ) -> tuple[ProviderResponse, Billing]:
        has_files = any(message.parts for message in messages)  # pictures and PDFs, which a thread reads
        build = self._api.request
        request = await asyncio.to_thread(build, messages, schema) if has_files else build(messages, schema)
        raw, duration_ms = await self._post(request, is_bound=schema is not None)
        reply = self._api.read(raw)
        if reply is None:
            raise without_choice(raw, self._model)
        metrics = {"duration_ms": duration_ms, "cost_usd": reply.billing.cost_usd}
        response = build_response(reply, self._model, self._api).replace(**metrics, warnings=tuple(self._warnings))
        return response, reply.billing

    async def _post(self, plain: ApiRequest, *, is_bound: bool) -> tuple[JsonObject, int]:
        """Send a request without what the model does not take, and return the reply and its duration."""
        request = self._adapted(plain)
        while True:
            started = time.perf_counter()
            try:
                reply = await self._http.post(request)
                return reply, round((time.perf_counter() - started) * 1000)
            except RequestError as error:
                if is_bound and refuses_form(error):
                    raise
                self._learn(error, request.body)
                again = self._adapted(plain)
                if again == request:
                    raise
                request = again

    def _learn(self, failure: RequestError, sent: JsonObject) -> None:
        """Note for the run what the model does not take, if a refusal says it."""
        path = failure.refused
        if path is not None and path not in self._instead:
            other = _LIMITS.get(path)
            if other is not None and other not in self._instead:
                self._instead[path] = {other: sent[path]}
                return
            self._instead[path] = {}
            if path != _SYSTEM:
                self._warnings.append(f"it is asked without `{path}` in this run: {failure.message}")

    def _adapted(self, request: ApiRequest) -> ApiRequest:
        body = request.body
        for path, instead in self._instead.items():
            new = instead if path in body else {}
            if path == _SYSTEM and path in body:  # it becomes a part of the first question
                new = {"contents": [{"role": "user", **body[path]}, *body["contents"]]}
            body = {**without(body, path), **new}
        return request.replace(body=body) if self._instead else request

    async def embed(self, texts: Sequence[str], timeout_seconds: float | None) -> Embeddings:
        """Return the vectors of some texts. Raises `ProviderError`."""
        request = self._api.embed(texts)
        await self._ready()
        ask = functools.partial(self._embed, request, len(texts))
        found, _ = await repeated(ask, self._policy, self._model, timeout_seconds)
        cost = await self._price(found.model, TokenUsage(found.tokens, 0) if found.tokens else None, Billing())
        return found.replace(cost_usd=cost)

    async def _embed(self, request: ApiRequest, number: int) -> Embeddings:
        raw = await self._http.post(request)
        found: Embeddings | None = self._api.read_embeddings(raw)
        if found is None and raw.get("error"):
            raise without_choice(raw, self._model)
        if found is None or len(found.vectors) != number:
            raise RequestError(f"{self._model} replied without a vector for each text", "crash")
        return found

    async def close(self) -> None:
        await self._http.close()
