"""The providers `http`, a service that is asked over the network, and `asgi`, an application in this process."""

import asyncio
import functools
import json
import logging
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping, Sequence
from itertools import takewhile
from typing import Annotated, Any, Final, Literal, NamedTuple, Self, TypeAlias
from urllib.parse import quote, unquote, urlsplit
from uuid import uuid4

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from pytest_agentv.cases.prompts import PromptMode
from pytest_agentv.cases.variables import TemplateFault, as_text, has_template, render
from pytest_agentv.errors import ProviderError
from pytest_agentv.files.problems import describe_value, did_you_mean
from pytest_agentv.model.base import ABSENT, Json, JsonObject, compact_json, mapping
from pytest_agentv.model.kind import expected, filled
from pytest_agentv.model.messages import UNNAMED, Message, ToolCall
from pytest_agentv.model.secrets import beginning, masked
from pytest_agentv.providers.api.base import (
    HttpReply,
    HttpRequest,
    encoded,
    has_usage,
    is_success,
    parsed,
    read_usage,
)
from pytest_agentv.providers.api.client import (
    TOO_LARGE,
    HttpClient,
    RequestError,
    describe_no_json,
    read_error_text,
    refused,
    repeated,
    shorten,
)
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse, TargetAdapter, TargetEnvironment, shortest
from pytest_agentv.providers.cli import KNOWN_PLACEHOLDER, Healthcheck, run_healthcheck
from pytest_agentv.providers.kind import RetryKeys, Sources, get, read_call
from pytest_agentv.providers.python import CallableName, read_value
from pytest_agentv.providers.python_calls import Chunks, call_async, conversation, prompt_text, require_no_media
from pytest_agentv.providers.user_modules import import_callable
from pytest_agentv.runtime.files import READ_LIMIT
from pytest_agentv.runtime.user_code import run_in_thread
from pytest_agentv.targets.fields import SHIELDED, Flag, Headers, Seconds, Url, reveal, texts_of

# Paths into JSON, the part of JSONPath (RFC 9535) that names places: `$.choices[0].text`, `$.sources[*].url`.

_STEP: Final = re.compile(
    r"""\.(?P<name>[^\W\d][\w-]*) | \[(?P<index>-?\d{1,9})\] | \[\*\]
    | \['(?P<single>[^']+)'\] | \["(?P<double>[^"]+)"\]""",
    re.VERBOSE,
)
_SHOWN: Final = 100
"""Characters of a value in a message."""
_LONGEST: Final = 200
"""The most characters of a value in a warning."""


class MissingPathError(Exception):
    """Nothing is at a path. The text names the nearest place that exists."""


class JsonPath(NamedTuple):
    """A parsed path."""

    text: str
    steps: tuple[str | int | None, ...]
    """Names, numbers from the start or the end, and None for all entries."""
    is_optional: bool
    """By a `?` at the end, our own extension."""

    def find(self, data: Json) -> list[Json]:
        """Return the value at the path, or any number if it is optional or has `[*]`. Raises `MissingPathError`."""
        found = [("$", data)]
        for step in self.steps:
            before, found = found, []
            for where, value in before:
                if step is None and isinstance(value, list):
                    found += [(f"{where}[{at}]", item) for at, item in enumerate(value)]
                elif isinstance(step, str) and isinstance(value, dict) and step in value:
                    found.append((f"{where}.{step}", value[step]))
                elif isinstance(step, int) and isinstance(value, list) and -len(value) <= step < len(value):
                    found.append((f"{where}[{step}]", value[step]))
                elif not self.is_optional:
                    raise MissingPathError(f"there is no {self.text}: {where} {_without(step, value)}")
        return [value for _, value in found]


def _without(step: str | int | None, value: Json) -> str:
    if not isinstance(value, dict):
        return (
            f"is a list of {len(value)}" if isinstance(value, list) else f"is {beginning(compact_json(value), _SHOWN)}"
        )
    hint = did_you_mean(step, value) if isinstance(step, str) else None
    keys = beginning(", ".join(map(repr, value)), _SHOWN)
    return f"has {f'the keys {keys}' if value else 'no keys'}{f' ({hint})' if hint else ''}"


@functools.lru_cache(maxsize=256)
def parse_path(text: str) -> JsonPath:
    """Read a path. Raises `ValueError`."""
    path = text.strip().removesuffix("?")
    if not path.startswith("$"):
        raise ValueError(f"expected a path such as $.choices[0].text, got {text!r}")
    steps, at = list[str | int | None](), 1
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None:
            raise ValueError(
                f"{path[at:]!r} of the path {text!r} is no step: expected .name, ['name'], [0], [-1] or [*]"
            )
        index = found["index"]
        steps.append(found["name"] or found["single"] or found["double"] or (None if index is None else int(index)))
        at = found.end()
    return JsonPath(path, tuple(steps), text.strip() != path)


# The parts of a reply, at paths or in the words of any API.


async def read_reply(reply: HttpReply, keys: "Service", label: str, *, takes_html: bool = False) -> ProviderResponse:
    """Return the response for a successful reply. Raises `ProviderError`."""
    needs_json = any(place is not None for place in (keys.answer, keys.tokens, keys.tool_calls, keys.context))
    try:
        if keys.stream:
            parts = _read_stream(reply, label, needs_json=needs_json)
        else:
            parts = [read_content(reply, label, needs_json=needs_json, takes_html=takes_html)]
            answer = keys.answer
            is_read = "choices" in mapping(parts[0]) if answer is None else parse_path(answer).steps[:1] == ("error",)
            if _has_error(parts[0]) and not is_read:
                said = read_error_text(json.dumps(parts[0]))
                reason = f"{label} replied with an error: {said} (a reply whose `error` is empty is fine)"
                raise ProviderError(reason, "crash")
        return await _read(parts, keys, label)
    except MissingPathError as error:
        raise ProviderError(f"the reply of {label} cannot be read: {error}", "crash") from None
    except ValueError as error:
        raise ProviderError(f"{label} replied with {error}", "crash") from None


async def _read(parts: list[Json], keys: "Service", label: str) -> ProviderResponse:
    if keys.answer is None:  # in one of the shapes that functions may return
        try:
            whole = await read_value(Chunks(tuple(parts)) if keys.stream else parts[0], label)
        except ProviderError as error:
            key = next((name for name, item in mapping(parts[0]).items() if isinstance(item, str)), "…")
            raise ProviderError(f"{error}; or name its place, as in `answer: $.{key}`", error.kind) from None
    else:
        answer = parse_path(keys.answer)
        content = _content(_found(parts, keys.answer), has_all=None in answer.steps)
        if content is None:
            raise ProviderError(f"{label} gave no answer: there is nothing at {answer.text}", "no_answer")
        whole = ProviderResponse(output_messages=(Message("assistant", content),), is_text_only=True)
    if keys.tool_calls is not None:
        calls = tuple(map(_call, _flat(_found(parts, keys.tool_calls))))
        calling = (Message("assistant", tool_calls=calls),) if calls else ()
        whole = whole.replace(output_messages=(*calling, *(whole.output_messages or ())), is_text_only=False)
    if keys.tokens is not None:  # in a stream, the last reported ones count
        usage: Json
        if isinstance(keys.tokens, str):
            usage = next((value for value in reversed(_found(parts, keys.tokens)) if value is not None), None)
        else:
            usage = {name: (_found(parts, path) or [None])[-1] for name, path in keys.tokens.items()}
        is_reported = any(value is not None for value in (usage.values() if isinstance(usage, dict) else [usage]))
        if is_reported and not has_usage(mapping(usage)):
            shown = masked(compact_json(usage))[:_LONGEST]
            fault = f"the tokens are {shown} and were left out: expected the numbers of input and of output tokens"
            whole = whole.replace(warnings=(*whole.warnings, fault))
        whole = whole.replace(token_usage=read_usage(mapping(usage)))
    if keys.context is not None:
        texts = []
        for page in _flat(_found(parts, keys.context)):
            said = get(page, "text", "content", "page_content") if isinstance(page, dict) else page
            texts.append(said if isinstance(said, str) else json.dumps(page, ensure_ascii=False))
        whole = whole.replace(retrieved_context=tuple(texts))
    return whole


def _call(value: Json) -> ToolCall:
    call = read_call(value)
    if call.tool == UNNAMED:
        raise ValueError("a tool call without a name: expected `tool` or `name`")
    output = get(value, "output", "result")
    return call.replace(input=parsed(call.input), output=ABSENT if output is None else output)


def _content(found: list[Json], *, has_all: bool) -> Json:
    """Return the answer. Texts are joined, with the numbers among them; of other values, the last one counts."""
    pieces = [piece for piece in found if piece is not None] if has_all else _flat(found)
    if any(isinstance(piece, str) for piece in pieces) and all(
        isinstance(piece, str | int | float) for piece in pieces
    ):
        return "".join(map(as_text, pieces))
    if has_all:
        return found if pieces else None
    return next((value for value in reversed(found) if value is not None), None)


def _found(parts: Sequence[Json], path: str) -> list[Json]:
    """Return the values at a path in each part that has it. Raises `MissingPathError` if none has it."""
    found, missing = list[Json](), None
    for part in parts:
        try:
            found += parse_path(path).find(part)
        except MissingPathError as error:
            missing = error
    if not found and missing is not None:
        raise missing
    return found


def _flat(values: Sequence[Json]) -> list[Json]:
    """Return the values that are not null, and in place of lists their entries."""
    entries = (entry for value in values for entry in (value if isinstance(value, list) else [value]))
    return [entry for entry in entries if entry is not None]


# The body of a reply: JSON, a text, or a fault.

_HTML: Final = re.compile(r"(?is)\s*<(!doctype html|html|head|body)[\s>](.*<title[^>]*>(?P<title>.*?)</title>)?")
"""The beginning of an HTML page. The content type does not tell: frameworks send any text as `text/html`."""


def read_content(reply: HttpReply, label: str, *, needs_json: bool, takes_html: bool) -> Json:
    """Return the JSON of a body, else its text. If the request did not ask for HTML, a page is an error or a login.

    Raises `ProviderError` for an empty body, and `ValueError` for another one that is no answer.
    """
    kind = (reply.headers.get("content-type") or "").partition(";")[0].strip().lower()
    text = reply.text.lstrip()
    if not text:
        raise ProviderError(f"{label} replied with an empty body", "no_answer")
    if kind != "text/plain" and not takes_html and (page := _HTML.match(text)):
        title = f" {shorten(page['title'])!r}" if page["title"] else ""
        raise ValueError(f"an HTML page{title} (if that is the answer, add the header `Accept: text/html`)")
    if kind == "text/event-stream":
        raise ValueError("a stream of events (write `stream: sse` to read it)")
    is_json = needs_json or kind.endswith("json")
    if not is_json and (kind == "text/plain" or not text.startswith(("{", "["))):
        return reply.text
    try:
        return json.loads(text if reply.charset else reply.content)
    except (ValueError, RecursionError) as error:
        if is_json or text.startswith("{"):  # a connection that breaks off may look like a proper end
            raise ValueError(describe_no_json(error)) from None
        return reply.text


# Server-sent events, the parts of a streamed reply.

_DONE: Final = re.compile(r"data: ?\[DONE\]\s*\Z")
_FAILURE: Final = re.compile(r"(?i)error|fail|^message$")


def _read_stream(reply: HttpReply, label: str, *, needs_json: bool) -> list[Json]:
    """Return the data of all events, in order: that of an event that begins like JSON as JSON, else as text.

    Raises `ProviderError` for a stream that is empty or cut, and for an error of the stream: an event of the type
    `error`, or one with an `error` that is no step, such as the result of a tool, after which more events come. Raises
    `ValueError` for cut JSON in the last event, and in any one with `needs_json` or if the first one is a JSON object.
    """
    from pytest_agentv.providers.frameworks import is_cut  # noqa: PLC0415 - imports the readers of all APIs

    events = list(takewhile(lambda event: event[1] != "[DONE]", _split_events(reply.text)))
    found = list[Json]()
    for number, (event, data) in enumerate(events, start=1):
        is_last = number == len(events)
        value: Json = data
        try:
            value = json.loads(data) if data.startswith(("{", "[", '"')) else data
        except (ValueError, RecursionError):
            is_json = needs_json or any(isinstance(each, dict) for each in found[:1])
            if data[0] != '"' and (is_last or is_json):
                raise ValueError(f"an event that is no whole JSON: {shorten(data)}") from None
        fields = mapping(value)
        name = fields.get("type") or fields.get("event") or event or "message"
        is_failure = _has_error(value) and (is_last or _FAILURE.search(str(name)))
        if event == "error" or is_failure:
            raise ProviderError(f"{label} sent an error in its stream: {shorten(data)}", "crash")
        found.append(value)
    if not _DONE.search(reply.text) and is_cut(found):
        raise ProviderError(f"{label} ended in the middle of its stream: no event says why the model stopped", "crash")
    if all(value == "" for value in found):
        said = shorten(reply.text)
        raise ProviderError(f"{label} sent no event{f', but: {said}' if said else ''}", "no_answer")
    return found


def _has_error(value: Json) -> bool:
    error = mapping(value).get("error")
    return any(error.values()) if isinstance(error, dict) else bool(error)


def _split_events(text: str) -> Iterator[tuple[str, str]]:
    event, lines = "", list[str]()
    for line in [*text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), ""]:
        name, _, value = line.partition(":")
        if not line:
            if lines:
                yield event, "\n".join(lines)
            event, lines = "", []
        elif name == "data":
            lines.append(value.removeprefix(" "))
        elif name == "event":
            event = value.strip()


# The keys of services.

NAMES: Final = ("prompt", "messages", "files", "eval_id", "attempt", "session_id")
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
    """Raise `ValueError` for a template of plain data that can never be filled."""
    for _, text in texts_of(value):
        own = _REFERENCE.sub("", text)
        if found := KNOWN_PLACEHOLDER.search(own):
            name = found[1].lower() if found[1].lower() in NAMES else "prompt"
            raise ValueError(f"{found[0]} belongs into commands, and would be sent as it is; write {{{{ {name} }}}}")
        try:
            fill_data(own, _SAMPLE)
        except TemplateFault as fault:
            if str(fault).startswith(("unknown variable", "is no valid template")):
                raise ValueError(f"{fault} ({fault.hint})" if fault.hint else str(fault)) from None
    return value


TEMPLATE: Final = AfterValidator(_template)
"""A field for data with `{{ prompt }}` and the like."""


def _path(value: object) -> str:
    text = filled(value)
    parse_path(text)
    return text


PathText: TypeAlias = Annotated[str, BeforeValidator(_path)]


def _token_paths(value: object) -> object:
    if not isinstance(value, dict):
        return _path(value)
    wrong = [*(key for key in value if key not in _TOKENS), *(each for each in value.values() if type(each) is not str)]
    if wrong:
        raise ValueError(f"expected paths for {', '.join(_TOKENS)}, got {describe_value(wrong[0])}")
    return {key: _path(item) for key, item in value.items()}


_PATH_SCHEMA: Final = {"type": "string"}
TokenPaths: TypeAlias = Annotated[
    str | dict[str, str],
    BeforeValidator(_token_paths),
    WithJsonSchema({"anyOf": [_PATH_SCHEMA, {"type": "object", "additionalProperties": _PATH_SCHEMA}]}),
]


class Service(RetryKeys):
    """A service that answers requests over HTTP."""

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
    tool_calls: PathText | None = Field(default=None, description="where the list of tool calls is")
    context: PathText | None = Field(default=None, description="where the list of retrieved texts is")
    stream: Literal["sse"] | None = Field(
        default=None, description="`sse`: the reply is a stream of events; the paths apply to each"
    )
    timeout_seconds: Seconds | None = Field(
        default=None,
        description="limit of one call; `--agentv-timeout` applies as well, the shorter one counts",
    )
    session: Flag = Field(
        default=False,
        description="whether it remembers a conversation by its `{{ session_id }}`, and gets only the new message",
    )

    @model_validator(mode="after")
    def _require_session_id(self) -> Self:
        shown = [self.body, dict(self.headers), *(getattr(self, name, None) for name in ("url", "path"))]
        if self.session and not any("session_id" in text for _, text in texts_of(reveal(shown))):
            raise ValueError("`session: true` needs {{ session_id }} in the body, the headers or the URL")
        return self

    @property
    def content(self) -> Json:
        """The body with templates to fill in; None: there is none."""
        if self.body is None:
            return None if self.method == "GET" else {"prompt": "{{ prompt }}"}
        return reveal(self.body)


class Http(Service):
    """A service, asked over the network."""

    kind = "http"

    url: Annotated[Url, TEMPLATE] = Field(description="the URL to ask; filled-in values are percent-encoded")
    healthcheck: Healthcheck | None = Field(
        default=None, description="a probe, once per run, before the first case; if it fails, the run ends"
    )

    def open(self, environment: TargetEnvironment) -> "HttpProvider":
        return HttpProvider(self, environment)

    @property
    def is_probed(self) -> bool:
        return self.healthcheck is not None


# Asking.


class ServiceProvider(TargetAdapter):
    """A service. Its requests are repeated by the target's retry policy."""

    mode: PromptMode = "lm"
    keeps_limits = True

    def __init__(self, settings: Service, address: str, environment: TargetEnvironment) -> None:
        self._settings = settings
        self._address = address
        self._where = environment.where
        self._label = f"{settings.kind} service of target {environment.name!r}"
        self._policy = settings.retry
        self._headers: dict[str, str] = reveal(settings.headers)
        self._content = settings.content
        self._shows_files = any(_SHOWING.search(text) for _, text in texts_of(self._content))

    async def send(self, request: HttpRequest) -> HttpReply:
        """Send one request. Raises `RequestError`, and `ProviderError` if a retry could not help."""
        raise NotImplementedError

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        """Ask, with repetitions by the retry policy. The time limit covers all requests."""
        built = await asyncio.to_thread(self._build, request) if request.prompt.media else self._build(request)

        async def ask() -> tuple[HttpReply, int]:
            started = time.perf_counter()
            reply = await self.send(built)
            if not is_success(reply.status):
                asked = (self._label, self._where)
                failure = refused(reply.status, reply.headers, reply.text, *asked, url=built.url, hints=_HINTS)
                raise failure
            return reply, round((time.perf_counter() - started) * 1000)

        limit = shortest(self._settings.timeout_seconds, request.timeout_seconds)
        (reply, duration), log = await repeated(ask, self._policy, self._label, limit)
        takes_html = "html" in built.headers.get("accept", "").lower()
        response = await read_reply(reply, self._settings, self._label, takes_html=takes_html)
        raw = {**response.raw, "status": reply.status, **log.to_raw()}
        return response.replace(raw=raw, duration_ms=duration if response.duration_ms is None else response.duration_ms)

    def _build(self, request: ProviderRequest) -> HttpRequest:
        if not self._shows_files:
            require_no_media(request, f"the body of {self._where}", "write {{ messages }} or {{ files }} into it")
        values = values_of(request)
        try:
            url = self._address
            if has_template(url):  # what is filled in is percent-encoded
                quoted = {name: quote(as_text(value), safe="") for name, value in values.items() if name in url}
                url = as_text(fill_data(url, quoted))
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


class HttpProvider(ServiceProvider):
    """A service, asked over the network."""

    def __init__(self, settings: Http, environment: TargetEnvironment) -> None:
        super().__init__(settings, settings.url, environment)
        self._healthcheck = settings.healthcheck
        self._environment = environment
        self._client = HttpClient(
            f"the service of target {environment.name!r}", environment.where, environment.variables
        )

    async def check(self) -> None:
        """Import the HTTP client, and run the target's health check. Raises `ProviderError`."""
        await self._client.ready()  # no part of the first answer
        if self._healthcheck is not None:
            await run_healthcheck(
                self._healthcheck,
                target_name=self._environment.name,
                environment=self._environment.variables,
                timeout_seconds=self._settings.timeout_seconds,
                kind="HTTP",
            )

    async def send(self, request: HttpRequest) -> HttpReply:
        return await self._client.exchange(request)

    async def close(self) -> None:
        await self._client.close()


def values_of(request: ProviderRequest) -> dict[str, Json]:
    """Return the values for templates. Raises `ProviderError` for pictures and PDFs that cannot be sent."""
    return {
        "prompt": prompt_text(request),
        "messages": conversation(request),
        "files": [
            {"name": sent.name, "media_type": sent.media_type, "data": sent.data, "url": sent.url}
            for sent in map(encoded, request.prompt.media)
        ],
        "eval_id": request.eval_id,
        "attempt": request.attempt,
        "session_id": request.session or uuid4().hex,
    }


def fill_data(value: Json, values: JsonObject) -> Json:
    """Fill in the templates of plain data. One `{{ }}` alone becomes the value itself. Raises `TemplateFault`."""
    if isinstance(value, str):
        return render(value, values) if has_template(value) else value
    if isinstance(value, Mapping):
        return {key: fill_data(item, values) for key, item in value.items()}
    return [fill_data(item, values) for item in value] if isinstance(value, list) else value


# An application of FastAPI, Starlette, Django or the like, asked in this process.

_LOGGER: Final = logging.getLogger(__name__)
_START_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 10.0
_TOO_LARGE: Final = f"its reply is too large: {TOO_LARGE}"

VERSIONS = {"version": "3.0", "spec_version": "2.3"}

HOST = "localhost"

AsgiMessage: TypeAlias = MutableMapping[str, Any]
App: TypeAlias = Callable[
    [AsgiMessage, Callable[[], Awaitable[AsgiMessage]], Callable[[AsgiMessage], Awaitable[None]]], Awaitable[None]
]


def _url_path(value: object) -> str:
    text = filled(value)
    if not text.startswith("/"):
        raise expected("a path that starts with /")
    return text


class Asgi(Service):
    """An ASGI application, asked in the pytest process."""

    kind = "asgi"

    app: CallableName = Field(description="package.module:app or path/to/file.py:app")
    path: Annotated[str, BeforeValidator(_url_path), TEMPLATE] = Field(
        default="/", description="the path to ask, with its query; filled-in values are percent-encoded"
    )

    def open(self, environment: TargetEnvironment) -> ServiceProvider:
        return AppProvider(self, environment)

    @property
    def sources(self) -> Sources:
        return Sources(callable=self.app)


class AppProvider(ServiceProvider):
    """Calls an application on the loop for user code. Its lifespan is from the first request to the end of the run."""

    reads_environ = True

    def __init__(self, settings: Asgi, environment: TargetEnvironment) -> None:
        super().__init__(settings, f"http://{HOST}{settings.path}", environment)
        self._app_name = settings.app
        self._folder = environment.folder
        self._app_label = f"target {environment.name!r}: {settings.app}"
        self._start_label = f"{environment.where}: {settings.app}"
        self._lock = asyncio.Lock()
        self._lifespan: Lifespan | None = None

    async def check(self) -> None:
        """Import and start the application. Raises `ProviderError`."""
        await self._started()

    async def send(self, request: HttpRequest) -> HttpReply:
        lifespan = await self._started()
        reply = await call_async(lambda: call_app(lifespan.app, request, lifespan.state), self._app_label, None)
        if isinstance(reply, str):
            raise RequestError(f"{self._app_label}: {reply}", "crash")
        return reply

    async def close(self) -> None:
        """End the lifespan."""
        lifespan, self._lifespan = self._lifespan, None
        if lifespan is None:
            return
        try:
            fault = await call_async(lifespan.stop, self._app_label, _STOP_SECONDS)
        except ProviderError as error:
            fault = str(error)
        if fault:
            _LOGGER.warning("%s did not end well: %s", self._app_label, fault)

    async def _started(self) -> "Lifespan":
        """Import and start the application once, in a thread, because importing may take seconds."""
        async with self._lock:
            if self._lifespan is None:
                app = await run_in_thread(
                    lambda: import_callable(self._app_name, self._folder, self._start_label, "an ASGI application"),
                    "agentv-import",
                )
                lifespan = Lifespan(app)
                if fault := await call_async(lifespan.start, self._app_label, _START_SECONDS):
                    raise ProviderError(f"{self._start_label} did not start: {fault}", "config")
                self._lifespan = lifespan
        return self._lifespan


class Lifespan:
    """The lifespan of one application on the loop for user code. One that raises has none, as servers allow."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.state: dict[str, Any] = {}
        """The state that the application keeps for its requests."""
        self._to_app: asyncio.Queue[AsgiMessage] = asyncio.Queue()
        self._from_app: asyncio.Queue[AsgiMessage | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> str | None:
        """Start the application, unless it has no lifespan. Returns what it says of a failure."""
        self._task = asyncio.get_running_loop().create_task(self._run())
        return await self._tell("startup")

    async def stop(self) -> str | None:
        """End the application. Returns what it says of a failure."""
        if self._task is None or self._task.done():
            return None
        fault = await self._tell("shutdown")
        await self._task
        return fault

    async def _tell(self, word: str) -> str | None:
        await self._to_app.put({"type": f"lifespan.{word}"})
        message = await self._from_app.get()
        if message is None or message["type"] != f"lifespan.{word}.failed":
            return None
        return str(message.get("message") or f"it reported that its {word} failed")

    async def _run(self) -> None:
        scope = {"type": "lifespan", "asgi": VERSIONS, "state": self.state}
        try:
            await self.app(scope, self._to_app.get, self._from_app.put)
        except Exception as error:  # noqa: BLE001 - an application without a lifespan may raise anything
            _LOGGER.debug("the lifespan ended with %s: %s", type(error).__name__, error)
        finally:
            self._from_app.put_nowait(None)


async def call_app(app: App, request: HttpRequest, state: Mapping[str, Any]) -> HttpReply | str:
    """Call an application; a text says why it gave no whole reply. Raises any exception of the application."""
    start: AsgiMessage = {}
    content = bytearray()
    is_asked, ended = False, asyncio.Event()

    async def receive() -> AsgiMessage:
        """Return the whole body first. After the reply is complete, report that the client has disconnected."""
        nonlocal is_asked
        if is_asked:
            await ended.wait()
            return {"type": "http.disconnect"}
        is_asked = True
        return {"type": "http.request", "body": request.content or b"", "more_body": False}

    async def send(message: AsgiMessage) -> None:
        if message["type"] == "http.response.start":
            start.update(message)
        elif message["type"] == "http.response.body":
            content.extend(message.get("body", b""))
            if len(content) > READ_LIMIT:
                raise OverflowError(_TOO_LARGE)
            if not message.get("more_body", False):
                ended.set()

    try:
        await app(_scope(request, state), receive, send)
    except Exception:
        if len(content) <= READ_LIMIT:
            raise
        return _TOO_LARGE
    if not ended.is_set():
        return "it ended in the middle of its reply" if start else "it ended without a reply"
    headers = {
        bytes(name).decode("latin-1").lower(): bytes(value).decode("latin-1")
        for name, value in start.get("headers", ())
    }
    return HttpReply(int(start["status"]), headers, bytes(content))


def _scope(request: HttpRequest, state: Mapping[str, Any]) -> AsgiMessage:
    parts = urlsplit(request.url)
    path = parts.path or "/"
    body_length = {} if request.content is None else {"content-length": str(len(request.content))}
    headers = {"host": HOST, "user-agent": "pytest-agentv", **body_length, **request.headers}
    return {
        "type": "http",
        "asgi": VERSIONS,
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode("ascii", "replace"),
        "query_string": parts.query.encode("ascii", "replace"),
        "root_path": "",
        "headers": [(name.encode("latin-1"), text.encode("utf-8")) for name, text in headers.items()],
        "client": ("127.0.0.1", 0),
        "server": (HOST, 80),
        "state": dict(state),
    }
