"""The protocol of APIs: they build requests and read replies, both as plain data."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import Protocol, runtime_checkable

from pytest_agentv.models.base import JsonObject, Record
from pytest_agentv.models.masking.secrets import Secret
from pytest_agentv.models.messages import ToolCall
from pytest_agentv.models.records import record
from pytest_agentv.models.targets import RetryPolicy
from pytest_agentv.models.traces import TokenUsage
from pytest_agentv.prompts.prompt import ChatMessage
from pytest_agentv.providers.apis.data import merged


@record
class ApiRequest(Record):
    """An HTTP POST with a JSON body."""

    url: str
    headers: Mapping[str, str]
    body: JsonObject
    is_large: bool = False
    """Whether it holds pictures or PDFs, so that writing it as JSON takes a while."""


@record
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


@record
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


@record
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


@record
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

    def request(self, messages: Sequence[ChatMessage]) -> ApiRequest:
        """Build the request for the next message of a conversation. A system message comes first, if there is one.

        Reads pictures and PDFs. Raises `ProviderError` for those that cannot be sent.
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

    @property
    def secrets(self) -> Collection[str]:
        """The values that must not appear in messages."""

    def api(self, variables: Mapping[str, str]) -> Api:
        """Return the API that is asked directly."""
