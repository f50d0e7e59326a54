"""The `http` provider: a service, asked over the network."""

import asyncio
import importlib
from collections.abc import Collection
from typing import Annotated, Any

from pydantic import Field

from pytest_agentv.errors import ProviderError
from pytest_agentv.loading.targets.fields import Url
from pytest_agentv.models.masking.secret_rule import secrets_of
from pytest_agentv.providers.apis.exchange import HttpReply, HttpRequest
from pytest_agentv.providers.base import TargetEnvironment
from pytest_agentv.providers.cli.healthcheck import Healthcheck, run_healthcheck
from pytest_agentv.providers.services.provider import ServiceProvider
from pytest_agentv.providers.services.service import TEMPLATE, Service
from pytest_agentv.runtime.threads import run_in_thread


class Http(Service):
    """A service, asked over the network."""

    kind = "http"

    url: Annotated[Url, TEMPLATE] = Field(description="the URL to ask; filled-in values are percent-encoded")
    healthcheck: Healthcheck | None = Field(
        default=None, description="a probe, once per run, before the first case; if it fails, the run ends"
    )

    def open(self, environment: TargetEnvironment) -> ServiceProvider:
        return ServiceProvider(self, self.url, environment, NetworkTransport(self, environment))

    @property
    def secrets(self) -> Collection[str]:
        return {*super().secrets, *secrets_of("url", self.url)}

    @property
    def is_probed(self) -> bool:
        return self.healthcheck is not None


class NetworkTransport:
    """Sends requests over the network."""

    def __init__(self, settings: Http, environment: TargetEnvironment) -> None:
        self._settings = settings
        self._environment = environment
        self._client: Any = None
        self._lock = asyncio.Lock()

    async def check(self) -> None:
        """Run the target's health check. Raises `ProviderError`."""
        if self._settings.healthcheck is not None:
            await run_healthcheck(
                self._settings.healthcheck,
                target_name=self._environment.name,
                environment=self._environment.variables,
                timeout_seconds=self._settings.timeout_seconds,
                kind="HTTP",
            )

    async def send(self, request: HttpRequest) -> HttpReply:
        """Send one request. Raises `RequestError`, and `ProviderError` if the HTTP client cannot be imported."""
        client = await self._opened()
        reply: HttpReply = await client.exchange(request)
        return reply

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.close()

    async def _opened(self) -> Any:
        async with self._lock:
            if self._client is None:
                try:
                    module = await run_in_thread(_import_client, "agentv-import-http")
                except ImportError as error:
                    raise ProviderError(f"the HTTP client cannot be imported: {error}", "config") from error
                name, where = self._environment.name, self._environment.where
                self._client = module.HttpClient(f"the service of target {name!r}", where, self._environment.variables)
        return self._client


def _import_client() -> Any:
    return importlib.import_module("pytest_agentv.providers.apis.client")
