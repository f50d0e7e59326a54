"""The shared part of models behind an API: their keys, and the policy for failed requests."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final, Literal, Self, TypeAlias

from pydantic import BeforeValidator, Field, ValidationInfo, WithJsonSchema, field_validator

from pytest_agentv.cases.prompts import ChatMessage
from pytest_agentv.errors import ProviderError
from pytest_agentv.model.base import JsonObject
from pytest_agentv.model.kind import Items, Text, expected, spelled
from pytest_agentv.providers.api.base import ApiRequest, Embeddings, ModelReply, merged
from pytest_agentv.providers.base import Adapter, TargetEnvironment
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
    def uses_litellm(self) -> bool:
        """Whether litellm asks the model."""
        return getattr(self, "client", "litellm") == "litellm"

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

    def embed(self, texts: Sequence[str]) -> ApiRequest:
        """Build the request for the vectors of some texts. Raises `ProviderError` if the API has none."""
        del texts
        what = f"model {self.model!r} ({self.kind}) gives no embeddings: openai, azure and gemini targets do"
        raise ProviderError(what, "config")

    def read_embeddings(self, reply: JsonObject) -> Embeddings | None:
        """Read the JSON of a successful reply; None if it has no vectors."""
        raise NotImplementedError

    def post(self, url: str, headers: Mapping[str, str], body: JsonObject) -> ApiRequest:
        """Return a request of the API with the target's own headers and body, which override those of the API."""
        all_headers = {name.lower(): str(text) for name, text in {**headers, **self.headers}.items()}
        return ApiRequest(url, all_headers, merged(body, self.extra_body))

    def open(self, environment: TargetEnvironment) -> Adapter:
        if self.uses_litellm:
            from pytest_agentv.providers.api.litellm import LitellmProvider  # noqa: PLC0415 - not to check files

            return LitellmProvider(self, environment)
        from pytest_agentv.providers.api.provider import DirectProvider  # noqa: PLC0415 - as above

        return DirectProvider(self, environment)


def query_without_version(url: str) -> str:
    """Return the query of a URL of Azure without the version of the API, for example the key of a gateway."""
    parts = url.strip().partition("?")[2].split("&")
    return "&".join(part for part in parts if part and part.partition("=")[0].lower() != "api-version")


class DirectModel(Model):
    """A model whose API is asked directly, unless the target says otherwise."""

    client: Literal["direct", "litellm"] = Field(default="direct", description="`litellm` asks through litellm")

    @field_validator("client")
    @classmethod
    def _refuse_query(cls, client: str, info: ValidationInfo) -> str:
        """Refuse the query of a URL, which litellm drops or puts before the path. It gets Azure's version otherwise."""
        url = info.data.get("base_url") or ""
        query = query_without_version(url) if cls.kind == "azure" else url.partition("?")[2]
        if client == "litellm" and query:
            raise ValueError("litellm does not send the query of a URL (what follows `?`): leave out `client`")
        return client


class Litellm(Model):
    """Any model string of litellm."""

    kind = "litellm"

    api_version: OptionalText = spelled(
        *("api_version", "apiVersion", "version"), default=None, description="the version of the API"
    )

    seed: Whole | None = SEED
    organization: OptionalText = ORGANIZATION
