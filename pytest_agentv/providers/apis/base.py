"""What an API is: it builds requests and reads replies, both plain data."""

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
    """It holds pictures or PDFs, so that writing it as JSON takes a while."""


@record
class ModelSettings(Record):
    """The settings of a target that APIs know, texts trimmed and variables filled in."""

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
    """In the shape of OpenAI's chat completions, or in that of the API."""
    organization: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Sent with each request, beside those of the API."""
    extra_body: JsonObject = field(default_factory=dict, repr=False)
    """Merged into the body of each question."""
    base_model: str | None = None
    """The model behind the name, where the name does not tell."""
    reasoning: bool | None = None
    """Whether it is a reasoning model; None: its name tells."""

    @property
    def known_as(self) -> str:
        """The name that tells what the model can do and what it costs."""
        return self.base_model or self.model


@record
class Billing(Record):
    """What the price of a reply depends on, beside the model and the tokens."""

    cost_usd: float | None = None
    """US dollars, where the reply tells them itself."""
    context: Mapping[str, str] = field(default_factory=dict)
    """Terms other than the usual ones, in the words of genai-prices: `{"service_tier": "flex"}`."""
    written: int = 0
    """Those of the input tokens that were written into a cache."""
    written_for_hour: int = 0
    """Those of them that stay there for an hour."""
    web_searches: int = 0
    is_unknown: bool = False
    """Something else was paid for, which no table of prices tells."""


@record
class ModelReply(Record):
    """What a model replied, in whatever API."""

    text: str
    """Empty where the reply has no text."""
    model: str | None = None
    """The model that replied, as the API names it."""
    finish_reason: str | None = None
    """Why the model stopped, in the words of the API."""
    refusal: str | None = None
    """The words of a refusal that stands in place of the text."""
    tools: tuple[ToolCall, ...] = ()
    """The tools that the model wants to be called."""
    usage: TokenUsage | None = None
    reasoning_tokens: int | None = None
    """Those of the output tokens that were spent on reasoning."""
    billing: Billing = field(default_factory=Billing)


@record
class Embeddings(Record):
    """What a model returned for some texts."""

    vectors: tuple[tuple[float, ...], ...]
    """One for each text, in order."""
    tokens: int = 0
    """Those of all texts; 0: not reported."""
    cost_usd: float | None = None
    """US dollars for all texts; None: the price is not known."""
    model: str | None = None
    """The model, as the API names it."""


@runtime_checkable
class EmbeddingApi(Protocol):
    """An API that turns texts into vectors."""

    def embed(self, texts: Sequence[str]) -> ApiRequest:
        """Build the request for the vectors of some texts."""

    def read_embeddings(self, reply: JsonObject) -> Embeddings | None:
        """Read the JSON of a successful reply; None where it holds no vectors."""


class Api(Protocol):
    """One API, with the settings of one target. Immutable, so that any number of requests share it."""

    price_provider: str
    """The API's name in price tables."""

    def request(self, messages: Sequence[ChatMessage]) -> ApiRequest:
        """Build the request for the next message of a conversation, whose system message, if any, comes first.

        Reads pictures and PDFs. Raises `ProviderError` for those that cannot be sent.
        """

    def read(self, reply: JsonObject) -> ModelReply | None:
        """Read the JSON of a successful reply; None where it holds no message at all."""


def extended(request: ApiRequest, settings: ModelSettings) -> ApiRequest:
    """Return a question with the headers and the body that the target adds; both replace those of the API."""
    headers = {name.lower(): text for name, text in {**request.headers, **settings.headers}.items()}
    return request.replace(headers=headers, body=merged(request.body, settings.extra_body))


class AskedModel(Protocol):
    """What asking a model needs of its target, whatever its kind."""

    @property
    def kind(self) -> str:
        """The word after `provider:`."""

    @property
    def model(self) -> str:
        """The model, or the deployment."""

    @property
    def api_key(self) -> Secret | None:
        """The key; None: the server needs none, or litellm finds it."""

    @property
    def max_output_tokens(self) -> int | None:
        """The longest answer, in tokens."""

    @property
    def retry(self) -> RetryPolicy:
        """How failed requests are repeated."""

    @property
    def uses_litellm(self) -> bool:
        """Whether litellm asks the model, instead of `api`."""

    @property
    def api_settings(self) -> ModelSettings:
        """What the API is told."""

    @property
    def secrets(self) -> Collection[str]:
        """The values that no message may show."""

    def api(self, variables: Mapping[str, str]) -> Api:
        """Return the API that is asked directly."""
