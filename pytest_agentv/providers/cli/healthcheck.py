"""Health checks of command line targets, by a URL or a command."""

import asyncio
import http.client
import ssl
import tempfile
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias
from urllib.parse import unquote, urlsplit

from pydantic import BeforeValidator, Field

from pytest_agentv.errors import ErrorKind, ProviderError
from pytest_agentv.loading.problems import describe_value
from pytest_agentv.loading.targets.fields import OptionalText, RealSeconds, Url, path_in
from pytest_agentv.models.kind import spelled
from pytest_agentv.models.text import format_number
from pytest_agentv.providers.apis.proxies import certificate_variable, find_proxy, is_loopback, shown_url
from pytest_agentv.providers.cli.output import describe_exit, report_output
from pytest_agentv.providers.cli.placeholders import CommandTemplate
from pytest_agentv.providers.cli.template import CallValues, render_command
from pytest_agentv.providers.kind import Settings
from pytest_agentv.runtime.processes.process import ProcessStartError, run_process
from pytest_agentv.runtime.threads import run_in_thread

DEFAULT_TIMEOUT_SECONDS: Final = 60.0
"""The default limit. Without one, a check that hangs would block the whole run."""


class HttpHealthcheck(Settings):
    """GET a URL; 2xx is healthy."""

    type: Literal["http"] = Field(default="http", description="`http`")
    url: Url = Field(description="the URL to GET")
    timeout_seconds: RealSeconds | None = spelled(
        *("timeout_seconds", "timeoutSeconds"), default=None, description="limit of the probe"
    )


class CommandHealthcheck(Settings):
    """Run a command; exit code 0 is healthy."""

    type: Literal["command"] = Field(default="command", description="`command`")
    command_template: CommandTemplate = spelled(
        *("command_template", "commandTemplate"), description="the command to run, with placeholders such as {PROMPT}"
    )
    cwd: Annotated[OptionalText, path_in("eval_dir", is_default=True)] = Field(
        default=None, validate_default=True, description="where it runs, relative to the eval file's folder"
    )
    timeout_seconds: RealSeconds | None = spelled(
        *("timeout_seconds", "timeoutSeconds"), default=None, description="limit of the probe"
    )


def _healthcheck(value: object) -> object:
    if isinstance(value, Settings):
        return value
    if not isinstance(value, dict):
        raise ValueError(f"expected a mapping with the key type, got {describe_value(value)}")  # noqa: TRY004
    if value.get("type") not in ("http", "command"):
        raise ValueError(f"type must be 'http' or 'command', got {describe_value(value.get('type'))}")
    return {key: item for key, item in value.items() if item is not None}


Healthcheck: TypeAlias = Annotated[
    Annotated[HttpHealthcheck | CommandHealthcheck, Field(discriminator="type")], BeforeValidator(_healthcheck)
]


async def run_healthcheck(
    healthcheck: HttpHealthcheck | CommandHealthcheck,
    *,
    target_name: str,
    environment: Mapping[str, str],
    timeout_seconds: float | None,
    kind: str = "CLI",
) -> None:
    """Probe a target; `timeout_seconds` is the target's own limit, `kind` its name in messages.

    Raises `ProviderError` if it is not healthy. Source: "Optional health check".
    """
    limit = healthcheck.timeout_seconds or timeout_seconds or DEFAULT_TIMEOUT_SECONDS
    try:
        if isinstance(healthcheck, HttpHealthcheck):
            await _probe_url_within(healthcheck.url, limit, environment)
        else:
            await _probe_command(healthcheck, environment, limit)
    except _UnhealthyError as fault:
        raise ProviderError(f"{kind} healthcheck failed for '{target_name}': {fault}", fault.kind) from fault


class _UnhealthyError(Exception):
    def __init__(self, reason: str, kind: ErrorKind) -> None:
        super().__init__(reason)
        self.kind: ErrorKind = kind


async def _probe_url_within(url: str, limit: float, environment: Mapping[str, str]) -> None:
    """Probe a URL within the limit.

    Without this, a server that sends single bytes would never exceed its limit per read.
    """
    try:
        async with asyncio.timeout(limit):
            await run_in_thread(lambda: probe_url(url, limit, environment), "agentv-healthcheck")
    except TimeoutError as error:
        raise _too_late(url, limit) from error


def _too_late(url: str, limit: float) -> _UnhealthyError:
    return _UnhealthyError(f"GET {shown_url(url)} did not answer within {format_number(limit)}s", "timeout")


def probe_url(url: str, timeout_seconds: float, environment: Mapping[str, str]) -> None:
    """GET a URL and expect 2xx. Uses the proxies and certificates of models."""
    shown = shown_url(url)
    try:
        with _opener(url, environment).open(_request(url), timeout=timeout_seconds):
            return
    except urllib.error.HTTPError as error:
        error.close()
        raise _UnhealthyError(f"GET {shown} answered {_status(error.code)}, expected 2xx", "network") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        if isinstance(reason, TimeoutError):
            raise _too_late(url, timeout_seconds) from error
        raise _UnhealthyError(f"GET {shown} failed: {reason}", "network") from error


def _opener(url: str, environment: Mapping[str, str]) -> urllib.request.OpenerDirector:
    proxy = None if is_loopback(url) else find_proxy(url, environment)
    scheme = urlsplit(url).scheme
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({scheme: proxy} if proxy else {})]
    if scheme == "https":
        variable = certificate_variable(environment)
        trust = ssl.create_default_context(cafile=environment[variable] if variable else None)
        handlers.append(urllib.request.HTTPSHandler(context=trust))
    return urllib.request.build_opener(*handlers)


def _request(url: str) -> urllib.request.Request:
    """Return the request for a URL. Moves its login into a header, because urllib takes it for a part of the host."""
    parts = urlsplit(url)
    login, at, host = parts.netloc.rpartition("@")
    request = urllib.request.Request(parts._replace(netloc=host).geturl())  # noqa: S310 - `Url` has been checked
    if at:
        request.add_unredirected_header("Authorization", f"Basic {b64encode(unquote(login).encode()).decode()}")
    return request


async def _probe_command(healthcheck: CommandHealthcheck, environment: Mapping[str, str], limit: float) -> None:
    values = CallValues("healthcheck", Path(tempfile.gettempdir(), "agentv-healthcheck.json")).for_shell()
    command = render_command(healthcheck.command_template, {**values, "PROMPT_FILE": "/dev/null"})
    try:
        result = await run_process(
            ["/bin/sh", "-c", command], cwd=healthcheck.cwd or str(Path.cwd()), env=environment, timeout_seconds=limit
        )
    except ProcessStartError as error:
        raise _UnhealthyError(str(error), "process") from error
    if result.timed_out:
        raise _UnhealthyError(f"the command `{command}` timed out after {format_number(limit)}s", "timeout")
    if result.exit_code != 0:
        said = report_output(result)
        text = f"the command `{command}` ended with {describe_exit(result.exit_code)}"
        raise _UnhealthyError(f"{text}: {said}" if said else text, "process")


def _status(code: int) -> str:
    try:
        return f"{code} {HTTPStatus(code).phrase}"
    except ValueError:
        return str(code)
