"""The `http` provider: a service, asked over the network, and the keys that all services share."""

import asyncio
import json
import re
import time
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Literal, Protocol, TypeAlias
from urllib.parse import quote

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from pytest_agentv.cases.prompts import PromptMode
from pytest_agentv.cases.variables import TemplateFault, as_text, has_template, render
from pytest_agentv.errors import ProviderError
from pytest_agentv.files.problems import describe_value
from pytest_agentv.model.base import Json, JsonObject
from pytest_agentv.model.kind import spelled
from pytest_agentv.providers.api.base import HttpReply, HttpRequest, encoded, is_success, open_client
from pytest_agentv.providers.api.failures import Repeater, refused
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse, TargetEnvironment, shortest
from pytest_agentv.providers.cli import Healthcheck, run_healthcheck
from pytest_agentv.providers.cli_template import KNOWN_PLACEHOLDER
from pytest_agentv.providers.kind import RetryKeys
from pytest_agentv.providers.python_calls import conversation, prompt_text, require_no_media
from pytest_agentv.providers.service_reply import JsonPath, Paths, asks_for_html, parse_path, read_reply
from pytest_agentv.runtime.retry import RequestError
from pytest_agentv.targets.fields import SHIELDED, Headers, RealSeconds, Url, filled_text, reveal

NAMES: Final = ("prompt", "messages", "files", "eval_id", "attempt")
"""The names for templates."""

_REFERENCE: Final = re.compile(r"\$\{\{.*?\}\}")
_SHOWING: Final = re.compile(r"\{[{%][^}]*\b(?:messages|files)\b")
_SAMPLE: Final[JsonObject] = dict.fromkeys(NAMES, "")

_TOKENS: Final = ("input", "output", "cached", "reasoning")

_HINTS: Final = {
    401: "check the headers of",
    403: "check the headers of",
    404: "check the URL of",
    405: "check the method of",
    422: "check the body of",
}


def _template(value: Any) -> Any:
    check_templates(value)
    return value


TEMPLATE: Final = AfterValidator(_template)
"""A field for data with `{{ prompt }}` and the like."""


def _path(value: object) -> str:
    text = filled_text(value)
    parse_path(text)
    return text


PathText: TypeAlias = Annotated[str, BeforeValidator(_path)]


def _token_paths(value: object) -> object:
    if not isinstance(value, dict):
        return _path(value)
    if unknown := [key for key in value if key not in _TOKENS]:
        raise ValueError(f"expected paths for {', '.join(_TOKENS)}, got {describe_value(unknown[0])}")
    return {key: _path(item) for key, item in value.items()}


_PATH_SCHEMA: Final = {"type": "string"}
TokenPaths: TypeAlias = Annotated[
    str | dict[str, str],
    BeforeValidator(_token_paths),
    WithJsonSchema({"anyOf": [_PATH_SCHEMA, {"type": "object", "additionalProperties": _PATH_SCHEMA}]}),
]


class Service(RetryKeys):
    """A service that answers requests over HTTP."""

    is_strict = True

    method: Literal["GET", "POST", "PUT", "PATCH"] = Field(default="POST", description="the method of the request")
    headers: Annotated[Headers, TEMPLATE] = Field(default={}, description="sent with each request")
    body: Annotated[Any, TEMPLATE, SHIELDED] = Field(
        default=None,
        description="what is sent, as JSON, or a text as it is (default: the prompt as `prompt`; none for GET)",
    )
    answer: PathText | None = Field(
        default=None, description="where the answer is in the reply (default: the reply, in one of the known shapes)"
    )
    tokens: TokenPaths | None = Field(
        default=None, description="where the tokens are: a path, or paths for `input`, `output`, `cached`, `reasoning`"
    )
    tool_calls: PathText | None = spelled(
        *("tool_calls", "toolCalls"), default=None, description="where the list of tool calls is"
    )
    context: PathText | None = Field(default=None, description="where the list of retrieved texts is")
    stream: Literal["sse"] | None = Field(
        default=None, description="`sse`: the reply is a stream of events; the paths apply to each"
    )
    timeout_seconds: RealSeconds | None = spelled(
        *("timeout_seconds", "timeoutSeconds"),
        default=None,
        description="limit of one call; `--agentv-timeout` applies as well, the shorter one counts",
    )

    @property
    def content(self) -> Json:
        """The body with templates to fill in; None: there is none."""
        if self.body is None:
            return None if self.method == "GET" else {"prompt": "{{ prompt }}"}
        return reveal(self.body)

    @property
    def paths(self) -> Paths:
        """The paths of the parts of an answer."""
        tokens = self.tokens
        return Paths(
            _parsed(self.answer),
            {name: parse_path(path) for name, path in tokens.items()}
            if isinstance(tokens, Mapping)
            else _parsed(tokens),
            _parsed(self.tool_calls),
            _parsed(self.context),
        )


def _parsed(text: str | None) -> JsonPath | None:
    return None if text is None else parse_path(text)


class Http(Service):
    """A service, asked over the network."""

    kind = "http"

    url: Annotated[Url, TEMPLATE] = Field(description="the URL to ask; filled-in values are percent-encoded")
    healthcheck: Healthcheck | None = Field(
        default=None, description="a probe, once per run, before the first case; if it fails, the run ends"
    )

    def open(self, environment: TargetEnvironment) -> "ServiceProvider":
        return ServiceProvider(self, self.url, environment, NetworkTransport(self, environment))

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
        async with self._lock:
            if self._client is None:
                name, where = self._environment.name, self._environment.where
                self._client = await open_client(f"the service of target {name!r}", where, self._environment.variables)
        reply: HttpReply = await self._client.exchange(request)
        return reply

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.close()


class Transport(Protocol):
    """Carries requests to a service."""

    async def check(self) -> None:
        """Check that the service is available. Raises `ProviderError`."""

    async def send(self, request: HttpRequest) -> HttpReply:
        """Send one request. Raises `RequestError`, and `ProviderError` if a retry could not help."""
        ...

    async def close(self) -> None:
        """Release resources."""


class ServiceProvider:
    """A service. Its requests are repeated by the target's retry policy."""

    mode: PromptMode = "lm"
    keeps_limits = True

    def __init__(
        self,
        settings: Service,
        address: str,
        environment: TargetEnvironment,
        transport: Transport,
        *,
        reads_environ: bool = False,
    ) -> None:
        self._settings = settings
        self._address = address
        self._where = environment.where
        self._label = f"{settings.kind} service of target {environment.name!r}"
        self._transport = transport
        self._paths = settings.paths
        self._headers: dict[str, str] = reveal(settings.headers)
        self._content = settings.content
        self._shows_files = shows_files(settings.content)
        self._repeater = Repeater(settings.retry, self._label)
        self.reads_environ = reads_environ

    async def check(self) -> None:
        await self._transport.check()

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        """Ask, with repetitions by the retry policy. The time limit covers all requests."""
        built = await asyncio.to_thread(self._build, request) if request.prompt.media else self._build(request)

        async def send_timed() -> tuple[HttpReply, int]:
            started = time.perf_counter()
            reply = await self._send(built)
            return reply, round((time.perf_counter() - started) * 1000)

        limit = shortest(self._settings.timeout_seconds, request.timeout_seconds)
        (reply, duration), log = await self._repeater.ask(send_timed, limit)
        is_stream = self._settings.stream is not None
        html = asks_for_html(built.headers)
        response = await read_reply(reply, self._paths, self._label, is_stream=is_stream, takes_html=html)
        raw = {**response.raw, "status": reply.status, **log.to_raw()}
        return response.replace(raw=raw, duration_ms=duration if response.duration_ms is None else response.duration_ms)

    async def close(self) -> None:
        await self._transport.close()

    def _build(self, request: ProviderRequest) -> HttpRequest:
        """Build a request. Reads pictures and PDFs."""
        if not self._shows_files:
            require_no_media(request, f"the body of {self._where}", "write {{ messages }} or {{ files }} into it")
        values = values_of(request)
        try:
            url = fill_url(self._address, values)
            headers = {name.lower(): as_text(fill_data(text, values)) for name, text in self._headers.items()}
            content = fill_data(self._content, values)
        except TemplateFault as fault:
            raise ProviderError(f"{self._where}: {fault}", "config") from None
        accept = "text/event-stream" if self._settings.stream else "application/json"
        type_ = {"content-type": "text/plain; charset=utf-8" if isinstance(content, str) else "application/json"}
        known = {"accept": accept, **({} if content is None else type_)}
        headers = {name: " ".join(text.splitlines()) for name, text in headers.items()}
        body = None
        if content is not None:
            text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
            body = text.encode("utf-8", "surrogatepass")
        return HttpRequest(self._settings.method, url, {**known, **headers}, body)

    async def _send(self, request: HttpRequest) -> HttpReply:
        reply = await self._transport.send(request)
        if not is_success(reply.status):
            failure = refused(
                reply.status, reply.headers, reply.text, self._label, self._where, url=request.url, hints=_HINTS
            )
            raise RequestError(failure)
        return reply


def values_of(request: ProviderRequest) -> dict[str, Json]:
    """Return the values for templates. They are data, and need no quotes.

    Reads pictures and PDFs: raises `ProviderError` for those that cannot be sent.
    """
    return {
        "prompt": prompt_text(request),
        "messages": conversation(request),
        "files": [
            {"name": sent.name, "media_type": sent.media_type, "data": sent.data, "url": sent.url}
            for sent in map(encoded, request.prompt.media)
        ],
        "eval_id": request.eval_id,
        "attempt": request.attempt,
    }


def fill_data(value: Json, values: JsonObject) -> Json:
    """Return plain data with its templates filled in. A text that is only one `{{ }}` becomes the value itself.

    Raises `TemplateFault`.
    """
    if isinstance(value, str):
        return render(value, values) if has_template(value) else value
    if isinstance(value, Mapping):
        return {key: fill_data(item, values) for key, item in value.items()}
    return [fill_data(item, values) for item in value] if isinstance(value, list) else value


def fill_url(text: str, values: JsonObject) -> str:
    """Return a URL with its templates filled in, percent-encoded. Raises `TemplateFault`."""
    if not has_template(text):
        return text
    encoded = {name: quote(as_text(value), safe="") if name in text else "" for name, value in values.items()}
    return as_text(render(text, encoded))


def shows_files(value: Json) -> bool:
    """Whether a template of plain data uses the messages or the files, which may be pictures and PDFs."""
    found: list[str] = []
    _each_text(value, lambda text: found.extend(_SHOWING.findall(text)))
    return bool(found)


def check_templates(value: Json) -> None:
    """Raise `ValueError` for a template of plain data that can never be filled."""
    _each_text(value, _check)


def _each_text(value: Json, check: Callable[[str], None]) -> None:
    if isinstance(value, str):
        check(value)
    elif isinstance(value, Mapping | list):
        for item in value.values() if isinstance(value, Mapping) else value:
            _each_text(item, check)


def _check(text: str) -> None:
    text = _REFERENCE.sub("", text)
    if found := KNOWN_PLACEHOLDER.search(text):
        name = found[1].lower() if found[1].lower() in NAMES else "prompt"
        raise ValueError(f"{found[0]} belongs into commands, and would be sent as it is; write {{{{ {name} }}}}")
    if not has_template(text):
        return
    try:
        render(text, _SAMPLE)
    except TemplateFault as fault:
        if str(fault).startswith(("unknown variable", "is no valid template")):
            raise ValueError(f"{fault} ({fault.hint})" if fault.hint else str(fault)) from None
