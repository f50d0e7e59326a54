"""What models behind an API have in common: their keys, and how failed requests are repeated."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from pytest_agentv.loading.targets.fields import (
    Count,
    Factor,
    Items,
    Milliseconds,
    Number,
    OptionalText,
    PositiveCount,
    SecretText,
    StatusCode,
    Text,
)
from pytest_agentv.models.kind import spelled
from pytest_agentv.models.targets import RetryPolicy
from pytest_agentv.providers.apis.base import Api, ModelSettings
from pytest_agentv.providers.base import Adapter, TargetEnvironment
from pytest_agentv.providers.kind import Provider


class Model(Provider):
    """A model behind an API (agentv-formats 4.5, 4.7)."""

    takes_system_prompt = True
    judges_itself = True
    costs_money = True

    model: Text = spelled("model", "deployment", "variant", description="the name of the model")
    api_key: SecretText = spelled("api_key", "apiKey", default=None, description="the key of the API")
    base_url: OptionalText = spelled(
        *("base_url", "baseUrl", "baseURL", "endpoint"), default=None, description="another server that speaks the API"
    )
    temperature: Number | None = Field(default=None, description="handed on to models that take it")
    max_output_tokens: PositiveCount | None = spelled(
        *("max_output_tokens", "maxOutputTokens", "maxTokens"),
        default=None,
        description="the longest answer, in tokens",
    )
    max_retries: Count | None = spelled(
        *("max_retries", "maxRetries"), default=None, description="how often a failed request is repeated (default: 3)"
    )
    retry_initial_delay_ms: Milliseconds | None = spelled(
        *("retry_initial_delay_ms", "retryInitialDelayMs"),
        default=None,
        description="the wait before the first repetition (default: 1000)",
    )
    retry_max_delay_ms: Milliseconds | None = spelled(
        *("retry_max_delay_ms", "retryMaxDelayMs"), default=None, description="the longest wait (default: 60000)"
    )
    retry_backoff_factor: Factor | None = spelled(
        *("retry_backoff_factor", "retryBackoffFactor"),
        default=None,
        description="by what each wait is longer than the one before (default: 2)",
    )
    retry_status_codes: Items[StatusCode] | None = spelled(
        *("retry_status_codes", "retryStatusCodes"),
        default=None,
        description="what is repeated beside network errors (default: 408, 429, 500, 502, 503, 504)",
    )

    @property
    def retry(self) -> RetryPolicy:
        """How failed requests are repeated."""
        written = {
            "max_retries": self.max_retries,
            "initial_delay_ms": self.retry_initial_delay_ms,
            "max_delay_ms": self.retry_max_delay_ms,
            "backoff_factor": self.retry_backoff_factor,
            "status_codes": self.retry_status_codes,
        }
        return RetryPolicy().replace(**{name: value for name, value in written.items() if value is not None})

    @property
    def uses_litellm(self) -> bool:
        """Whether litellm asks the model, instead of `api`."""
        return False

    @property
    def api_settings(self) -> ModelSettings:
        """What the API is told, keys of single kinds included."""
        names = ("base_url", "api_version", "temperature", "max_output_tokens", "thinking_budget")
        key = self.api_key.reveal() if self.api_key else None
        return ModelSettings(self.model, key, **{name: getattr(self, name, None) for name in names})

    def api(self, variables: Mapping[str, str]) -> Api:
        """Return the API that is asked directly."""
        raise NotImplementedError

    def open(self, environment: TargetEnvironment) -> Adapter:
        from pytest_agentv.providers.llm.provider import LlmProvider  # noqa: PLC0415 - files are checked without it

        return LlmProvider(self, environment)


class DirectModel(Model):
    """A model whose API is asked directly, unless the target says otherwise."""

    client: Literal["direct", "litellm"] = Field(default="direct", description="`litellm` asks through litellm")

    @property
    def uses_litellm(self) -> bool:
        return self.client == "litellm"
