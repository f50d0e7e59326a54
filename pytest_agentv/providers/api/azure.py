"""Chat completions and responses of Azure OpenAI."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Final, Literal
from urllib.parse import parse_qs, quote, urlsplit

from pydantic import AfterValidator

from pytest_agentv.cases.prompts import ChatMessage
from pytest_agentv.model.base import JsonObject
from pytest_agentv.model.kind import spelled
from pytest_agentv.providers.api.base import (
    ApiRequest,
    Embeddings,
    ModelReply,
    ModelSettings,
    query_without_version,
)
from pytest_agentv.providers.api.model import API_FORMAT, REASONING, SEED, DirectModel
from pytest_agentv.providers.api.openai import asked, read_answer, read_data
from pytest_agentv.targets.fields import DefaultText, Flag, OptionalText, Whole

DEFAULT_VERSION: Final = "2024-10-01-preview"
_UNVERSIONED: Final = ("v1", "preview", "latest")
"""Versions of the newer API, whose URL has neither version nor deployment."""

_PORTAL_PATH: Final = re.compile(
    r"/openai(/v1|/deployments/[^/]+)?(/chat/completions|/completions|/embeddings|/responses)?$"
)
"""The rest of a URL that Azure's portal shows after a resource."""


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
    api_version: Annotated[
        DefaultText, AfterValidator(lambda version: re.sub(r"(?i)^\s*api[-_]?version=", "", version))
    ] = spelled(
        *("version", "api_version", "apiVersion"), default=DEFAULT_VERSION, description="the version of the API"
    )

    seed: Whole | None = SEED
    reasoning: Flag | None = REASONING
    api_format: Literal["chat", "responses"] | None = API_FORMAT

    @property
    def api_settings(self) -> ModelSettings:
        """The settings for the API. A URL of Azure's portal sets the version, unless the target does."""
        settings = super().api_settings
        if self.api_version != DEFAULT_VERSION:
            return settings
        query = parse_qs(urlsplit(settings.base_url or "").query)
        version = next((values[0] for name, values in query.items() if name.lower() == "api-version"), None)
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
        if version in _UNVERSIONED or settings.api_format == "responses":
            self._place = f"{endpoint}/openai/v1"
        else:
            self._place = f"{endpoint}/openai/deployments/{quote(deployment, safe='')}"
            query = "&".join(filter(None, (f"api-version={version}", query)))
        self._query = f"?{query}" if query else ""
        self._headers = {"api-key": settings.api_key} if settings.api_key else {}
        self._settings = settings

    def request(self, messages: Sequence[ChatMessage], schema: JsonObject | None = None) -> ApiRequest:
        path, body = asked(self._settings.bound(schema), messages, "max_completion_tokens")
        return ApiRequest(f"{self._place}{path}{self._query}", self._headers, body)

    def read(self, reply: JsonObject) -> ModelReply | None:
        return read_answer(reply)

    def embed(self, texts: Sequence[str]) -> ApiRequest:
        url = f"{self._place}/embeddings{self._query}"
        return ApiRequest(url, self._headers, {"model": self._settings.model, "input": list(texts)})

    def read_embeddings(self, reply: JsonObject) -> Embeddings | None:
        return read_data(reply)


def resource_url(text: str) -> str:
    """Return the URL of a resource, given as a URL, host name or name."""
    text = text.partition("?")[0].strip().rstrip("/")
    if not re.match(r"(?i)https?://", text):
        return f"https://{text}" if "." in text else f"https://{text}.openai.azure.com"
    return _PORTAL_PATH.sub("", text)
