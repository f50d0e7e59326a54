"""The shared part of models behind an API: their keys, and the policy for failed requests."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BeforeValidator, Field, ValidationInfo, WithJsonSchema, field_validator

from pytest_agentv.model.kind import Items, Text, expected, spelled
from pytest_agentv.providers.api.base import Api, ModelSettings, query_without_version
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
"""The field of models that take a seed."""
ORGANIZATION: Final[Any] = Field(default=None, description="the organization that pays")
REASONING: Final[Any] = Field(default=None, description="whether it is a reasoning model, which gets no temperature")
API_FORMAT: Final[Any] = spelled(
    *("api_format", "apiFormat"),
    default=None,
    description="the API: chat completions, or Responses, which newer models need for tools (default: `chat`)",
)
"""Fields of models with a key of the same name."""

_SHARED: Final = (
    *("base_url", "api_version", "temperature", "max_output_tokens", "thinking_budget", "top_p", "seed", "stop"),
    *("reasoning_effort", "organization", "base_model", "reasoning", "api_format"),
)
"""Keys that the API gets unchanged."""


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
    api_key: SecretText = spelled("api_key", "apiKey", default=None, description="the key of the API")
    base_url: ServerUrl = spelled(
        *("base_url", "baseUrl", "baseURL", "endpoint"), default=None, description="another server that speaks the API"
    )
    temperature: Number | None = Field(default=None, description="how freely the model chooses its words")
    max_output_tokens: PositiveCount | None = spelled(
        *("max_output_tokens", "maxOutputTokens", "maxTokens"),
        default=None,
        description="the longest answer, in tokens",
    )
    top_p: Share | None = spelled("top_p", "topP", default=None, description="the share of likely words to choose from")
    stop: Stops | None = Field(default=None, description="a text, or a list of texts, at which the answer ends")
    reasoning_effort: OptionalText = spelled(
        *("reasoning_effort", "reasoningEffort"),
        default=None,
        description="how much the model thinks: `low`, `medium`, `high`, or another word of its API",
    )
    response_format: FreeMapping | None = spelled(
        *("response_format", "responseFormat"),
        default=None,
        description="the shape of the answer, as OpenAI writes it: `{type: json_schema, json_schema: …}`",
    )
    tools: Items[Tool] | None = Field(
        default=None,
        description="functions that the model may call, each with `name`, `description` and `parameters`, a JSON "
        "Schema; the calls of its reply are recorded, not executed",
    )
    headers: Headers = Field(default={}, description="sent with each request")
    extra_body: FreeMapping = spelled(
        *("extra_body", "extraBody"), default={}, description="merged into the body of each request"
    )
    base_model: OptionalText = spelled(
        *("base_model", "baseModel"),
        default=None,
        description="the model behind a name that does not reveal it, for prices",
    )

    @property
    def uses_litellm(self) -> bool:
        """Whether litellm asks the model, instead of `api`."""
        return False

    @property
    def api_settings(self) -> ModelSettings:
        """The settings for the API, including keys of single kinds."""
        key = self.api_key.reveal() if self.api_key else None
        told: dict[str, Any] = {name: getattr(self, name, None) for name in _SHARED}
        told |= {name: reveal(getattr(self, name)) for name in ("headers", "extra_body", "response_format")}
        return ModelSettings(
            self.model, key, **told, tools=None if self.tools is None else tuple(map(reveal, self.tools))
        )

    def api(self, variables: Mapping[str, str]) -> Api:
        """Return the API that is asked directly."""
        raise NotImplementedError

    def open(self, environment: TargetEnvironment) -> Adapter:
        from pytest_agentv.providers.api.provider import LlmProvider  # noqa: PLC0415 - files are checked without it

        return LlmProvider(self, environment)


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

    @property
    def uses_litellm(self) -> bool:
        return self.client == "litellm"


class Litellm(Model):
    """Any model string of litellm."""

    kind = "litellm"

    api_version: OptionalText = spelled(
        *("api_version", "apiVersion", "version"), default=None, description="the version of the API"
    )

    seed: Whole | None = SEED
    organization: OptionalText = ORGANIZATION

    @property
    def uses_litellm(self) -> bool:
        return True
