"""Chat completions of Azure OpenAI."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final
from urllib.parse import quote

from pydantic import AfterValidator

from pytest_agentv.loading.targets.fields import DefaultText, Flag, OptionalText, Whole
from pytest_agentv.models.base import JsonObject
from pytest_agentv.models.kind import spelled
from pytest_agentv.prompts.prompt import ChatMessage
from pytest_agentv.providers.apis.base import ApiRequest, Embeddings, ModelReply, ModelSettings
from pytest_agentv.providers.apis.model import REASONING, SEED, DirectModel
from pytest_agentv.providers.apis.model_names import (
    is_reasoning_deployment,
    query_without_version,
    resource_url,
    version_in_url,
)
from pytest_agentv.providers.apis.openai import chat_body, read_chat, read_data

DEFAULT_VERSION: Final = "2024-10-01-preview"
_VERSION_PREFIX: Final = re.compile(r"(?i)^\s*api[-_]?version=")

_UNVERSIONED: Final = ("v1", "preview", "latest")
"""Versions of the newer API, whose URL has neither version nor deployment."""


def _bare_version(version: str) -> str:
    return _VERSION_PREFIX.sub("", version)


class Azure(DirectModel):
    """A deployment of Azure OpenAI."""

    kind = "azure"
    needs: ClassVar = {
        "base_url": "AZURE_OPENAI_ENDPOINT",
        "api_key": "AZURE_OPENAI_API_KEY",
        "model": "AZURE_DEPLOYMENT_NAME",
    }

    base_url: OptionalText = spelled(
        *("endpoint", "resource", "resourceName", "base_url", "baseUrl", "baseURL"),
        default=None,
        description="the URL, the host or the name of the resource",
    )
    model: DefaultText = spelled(
        *("deployment", "deploymentName", "model"), default="", description="the name of the deployment"
    )
    api_version: Annotated[DefaultText, AfterValidator(_bare_version)] = spelled(
        *("version", "api_version", "apiVersion"), default=DEFAULT_VERSION, description="the version of the API"
    )

    seed: Whole | None = SEED
    reasoning: Flag | None = REASONING

    @property
    def api_settings(self) -> ModelSettings:
        """The settings for the API. A URL of Azure's portal sets the version, unless the target does."""
        settings = super().api_settings
        version = version_in_url(settings.base_url or "") if self.api_version == DEFAULT_VERSION else None
        return settings.replace(api_version=version) if version else settings

    def api(self, variables: Mapping[str, str]) -> "AzureApi":
        return AzureApi(self.api_settings, variables)


class AzureApi:
    """A deployment."""

    price_provider = "azure"

    def __init__(self, settings: ModelSettings, _environment: Mapping[str, str]) -> None:
        endpoint = resource_url(settings.base_url or "")
        deployment, version = settings.model, settings.api_version
        query = query_without_version(settings.base_url or "")
        if version in _UNVERSIONED:
            self._place = f"{endpoint}/openai/v1"
        else:
            self._place = f"{endpoint}/openai/deployments/{quote(deployment, safe='')}"
            query = "&".join(filter(None, (f"api-version={version}", query)))
        self._query = f"?{query}" if query else ""
        self._headers = {"api-key": settings.api_key} if settings.api_key else {}
        self._settings = settings
        self._is_reasoning = is_reasoning_deployment(settings)

    def request(self, messages: Sequence[ChatMessage]) -> ApiRequest:
        role = "developer" if self._is_reasoning else "system"
        return ApiRequest(
            f"{self._place}/chat/completions{self._query}",
            self._headers,
            chat_body(self._settings, messages, role, self._limits()),
        )

    def read(self, reply: JsonObject) -> ModelReply | None:
        return read_chat(reply)

    def embed(self, texts: Sequence[str]) -> ApiRequest:
        url = f"{self._place}/embeddings{self._query}"
        return ApiRequest(url, self._headers, {"model": self._settings.model, "input": list(texts)})

    def read_embeddings(self, reply: JsonObject) -> Embeddings | None:
        return read_data(reply)

    def _limits(self) -> dict[str, Any]:
        tokens = self._settings.max_output_tokens
        if self._is_reasoning:
            return {"max_completion_tokens": tokens}
        name = "max_completion_tokens" if self._settings.known_as.startswith("gpt-5") else "max_tokens"
        return {"temperature": self._settings.temperature, name: tokens}
