"""The `http` provider: a service, asked over the network, and the keys that all services share."""

import asyncio
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, NamedTuple, Protocol, TypeAlias
from urllib.parse import quote

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from pytest_agentv.cases.prompts import PromptMode
from pytest_agentv.cases.variables import TemplateFault, as_text, has_template, render
from pytest_agentv.errors import ProviderError
from pytest_agentv.files.problems import describe_value, did_you_mean
from pytest_agentv.model.base import ABSENT, Json, JsonObject, compact_json, mapping
from pytest_agentv.model.kind import filled, spelled
from pytest_agentv.model.messages import Message, TokenUsage, ToolCall
from pytest_agentv.model.secrets import beginning, masked
from pytest_agentv.providers.api.base import (
    HttpReply,
    HttpRequest,
    count,
    encoded,
    is_count,
    is_success,
    open_client,
    parsed,
)
from pytest_agentv.providers.api.client import Repeater, describe_no_json, read_error_text, refused, shorten
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse, TargetEnvironment, shortest
from pytest_agentv.providers.cli import Healthcheck, run_healthcheck
from pytest_agentv.providers.cli_template import KNOWN_PLACEHOLDER
from pytest_agentv.providers.kind import RetryKeys
from pytest_agentv.providers.python import read_value
from pytest_agentv.providers.python_calls import Chunks, conversation, prompt_text, require_no_media
from pytest_agentv.runtime.retry import RequestError
from pytest_agentv.targets.fields import SHIELDED, Headers, Seconds, Url, reveal

# Turns the reply of a service into a response: JSON, texts, server-sent events, tokens, paths.

# Paths into JSON, the part of JSONPath (RFC 9535) that names places: `$.choices[0].text`, `$.sources[*].url`.

_STEP: Final = re.compile(
    r"""\.(?P<name>[^\W\d][\w-]*) | \[(?P<index>-?\d{1,9})\] | \[\*\]
    | \['(?P<single>[^']+)'\] | \["(?P<double>[^"]+)"\]""",
    re.VERBOSE,
)
_SHOWN: Final = 100
"""Characters of a value in a message."""


class MissingPathError(Exception):
    """Nothing is at a path. The text names the nearest place that exists."""


class JsonPath(NamedTuple):
    """A parsed path: names, numbers from the start or the end, and all entries (None).

    A `?` at the end, our own extension, marks a place that may be missing.
    """

    text: str
    steps: tuple[str | int | None, ...]
    is_optional: bool

    def find(self, data: Json) -> list[Json]:
        """Return the value at the path, in a list of its own; the list is empty for a missing optional place.

        With `[*]`, the value is a list, and an entry without an optional place is left out. Raises `MissingPathError`.
        """
        try:
            return _find(data, self.steps, "$", self.is_optional)
        except MissingPathError as error:
            raise MissingPathError(f"there is no {self.text}: {error}") from None

    @property
    def depth(self) -> int:
        """How deep the values lie in lists: 1 for each `[*]`."""
        return self.steps.count(None)


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


def _find(data: Json, steps: Sequence[str | int | None], where: str, is_optional: bool) -> list[Json]:
    if not steps:
        return [data]
    step, *rest = steps
    if step is None and isinstance(data, list):
        entries = enumerate(data)
        return [[found for at, item in entries for found in _find(item, rest, f"{where}[{at}]", is_optional)]]
    if isinstance(step, str) and isinstance(data, dict) and step in data:
        return _find(data[step], rest, f"{where}.{step}", is_optional)
    if isinstance(step, int) and isinstance(data, list) and -len(data) <= step < len(data):
        return _find(data[step], rest, f"{where}[{step}]", is_optional)
    if is_optional:
        return []
    if isinstance(data, dict):
        hint = did_you_mean(step, data) if isinstance(step, str) else None
        keys = beginning(", ".join(map(repr, data)), _SHOWN)
        raise MissingPathError(f"{where} has {f'the keys {keys}' if data else 'no keys'}{f' ({hint})' if hint else ''}")
    what = f"a list of {len(data)}" if isinstance(data, list) else beginning(compact_json(data), _SHOWN)
    raise MissingPathError(f"{where} is {what}")


# The parts of a reply, at paths or in the words of any API.


class Paths(NamedTuple):
    """The paths of the parts of an answer."""

    answer: JsonPath | None = None
    tokens: JsonPath | Mapping[str, JsonPath] | None = None
    tool_calls: JsonPath | None = None
    context: JsonPath | None = None


async def read_reply(
    reply: HttpReply, paths: Paths, label: str, *, is_stream: bool, takes_html: bool = False
) -> ProviderResponse:
    """Return the response for a successful reply. Raises `ProviderError`."""
    needs_json = any(part is not None for part in paths)
    try:
        if is_stream:
            parts = _events(reply, label, needs_json=needs_json)
        else:
            parts = [read_content(reply, label, needs_json=needs_json, takes_html=takes_html)]
            answer = paths.answer
            is_read = "choices" in mapping(parts[0]) if answer is None else answer.steps[:1] == ("error",)
            if _has_error(parts[0]) and not is_read:
                said = read_error_text(json.dumps(parts[0]))
                reason = f"{label} replied with an error: {said} (a reply whose `error` is empty is fine)"
                raise ProviderError(reason, "crash")
        return await _read(parts, paths, label, is_stream=is_stream)
    except MissingPathError as error:
        raise ProviderError(f"the reply of {label} cannot be read: {error}", "crash") from None
    except ValueError as error:
        raise ProviderError(f"{label} replied with {error}", "crash") from None


async def _read(parts: list[Json], paths: Paths, label: str, *, is_stream: bool) -> ProviderResponse:
    calls = tuple(map(_call, _entries(parts, paths.tool_calls)))
    if paths.answer is None:
        whole = await _read_known(parts, label, is_stream=is_stream)
    else:
        content = _content(_found(parts, paths.answer), paths.answer.depth)
        if content is None:
            raise ProviderError(f"{label} gave no answer: there is nothing at {paths.answer.text}", "no_answer")
        whole = ProviderResponse(output_messages=(Message("assistant", content),), is_text_only=True)
    if paths.tool_calls is not None:
        calling = (Message("assistant", tool_calls=calls),) if calls else ()
        whole = whole.replace(output_messages=(*calling, *(whole.output_messages or ())), is_text_only=False)
    changes: dict[str, Any] = {}
    if paths.tokens is not None:  # in a stream, the last reported ones count
        usage: Json
        if isinstance(paths.tokens, JsonPath):
            usage = next((value for value in reversed(_found(parts, paths.tokens)) if value is not None), None)
        else:
            usage = {name: (_found(parts, path) or [None])[-1] for name, path in paths.tokens.items()}
        changes["token_usage"] = read_usage(mapping(usage))
        changes["warnings"] = (*whole.warnings, *filter(None, [fault_of(usage)]))
    if paths.context is not None:
        changes["retrieved_context"] = tuple(map(_text, _entries(parts, paths.context)))
    return whole.replace(**changes)


async def _read_known(parts: Sequence[Json], label: str, *, is_stream: bool) -> ProviderResponse:
    """Read a reply in one of the shapes that functions may return."""
    value = Chunks(tuple(parts)) if is_stream else parts[0]
    try:
        return await read_value(value, label)
    except ProviderError as error:
        key = next((name for name, item in mapping(parts[0]).items() if isinstance(item, str)), "…")
        raise ProviderError(f"{error}; or name its place, as in `answer: $.{key}`", error.kind) from None


def _call(value: Json) -> ToolCall:
    given = mapping(value)
    function = {**mapping(given.get("function")), **given}
    name = _first(function, ("tool", "name", "tool_name", "toolName"))
    if not isinstance(name, str) or not name:
        raise ValueError("a tool call without a name: expected `tool` or `name`")
    arguments = _first(function, ("input", "arguments", "args", "parameters"))
    result = _first(function, ("output", "result"))
    call_id = _first(function, ("id", "tool_call_id", "call_id"))
    return ToolCall(name, parsed(arguments), result, id=call_id if isinstance(call_id, str) else None)


def _entries(parts: Sequence[Json], path: JsonPath | None) -> Iterator[Json]:
    if path is not None:
        yield from (entry for entry in _flat(_found(parts, path), max(path.depth, 1)) if entry is not None)


def _content(found: Sequence[Json], depth: int) -> Json:
    """Return the answer. Texts are joined, with the numbers among them; of other values, the last one counts."""
    pieces = [piece for piece in _flat(found, max(depth, 1)) if piece is not None]
    if any(isinstance(piece, str) for piece in pieces) and all(
        isinstance(piece, str | int | float) for piece in pieces
    ):
        return "".join(map(as_text, pieces))
    known = [value for value in found if value is not None]
    return known[-1] if known and (pieces or not depth) else None


def _found(parts: Sequence[Json], path: JsonPath) -> list[Json]:
    """Return the value at a path in each part that has it. In a stream, not every event must have it.

    Raises `MissingPathError` if no part has it.
    """
    found, missing = list[Json](), None
    for part in parts:
        try:
            found += path.find(part)
        except MissingPathError as error:
            missing = error
    if not found and missing is not None:
        raise missing
    return found


def _flat(values: Sequence[Json], depth: int) -> Iterator[Json]:
    """Yield the values, and in place of lists their entries, so many lists deep."""
    for value in values:
        if depth and isinstance(value, list):
            yield from _flat(value, depth - 1)
        else:
            yield value


def _first(value: JsonObject, names: Sequence[str]) -> Any:
    return next((value[name] for name in names if name in value), ABSENT)


def _text(value: Json) -> str:
    found = _first(value, ("text", "content", "page_content")) if isinstance(value, dict) else value
    return found if isinstance(found, str) else json.dumps(value, ensure_ascii=False)


# The body of a reply: JSON, a text, or a fault.

_HTML: Final = re.compile(r"(?is)\s*<(!doctype html|html|head|body)[\s>](.*<title[^>]*>(?P<title>.*?)</title>)?")
"""The beginning of an HTML page. The content type does not tell: frameworks send any text as `text/html`."""


def read_content(reply: HttpReply, label: str, *, needs_json: bool, takes_html: bool) -> Json:
    """Return the JSON of a body, else its text.

    Args:
        reply: A successful reply.
        label: The service in messages.
        needs_json: Whether only JSON is allowed.
        takes_html: Whether the request asked for HTML. If not, a page is an error or a login.

    Raises `ProviderError` for an empty body, and `ValueError` for another one that is no answer. Its text follows
    "replied with".
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


def asks_for_html(headers: Mapping[str, str]) -> bool:
    """Whether the headers of a request accept HTML; `headers` are in lower case."""
    return "html" in headers.get("accept", "").lower()


# Server-sent events, the parts of a streamed reply.

_DONE: Final = re.compile(r"data: ?\[DONE\]\s*\Z")
_FAILURE: Final = re.compile(r"(?i)error|fail|^message$")


def _events(reply: HttpReply, label: str, *, needs_json: bool) -> list[Json]:
    """Return the events of a stream.

    Raises `ProviderError` for a stream that is empty, cut, or holds an error, and `ValueError` for cut JSON.
    """
    from pytest_agentv.providers.frameworks import is_cut  # noqa: PLC0415 - imports the readers of all APIs

    events = read_events(reply.text, label, needs_json=needs_json)
    if not _DONE.search(reply.text) and is_cut(events):
        raise ProviderError(f"{label} ended in the middle of its stream: no event says why the model stopped", "crash")
    if any(event != "" for event in events):
        return events
    said = shorten(reply.text)
    raise ProviderError(f"{label} sent no event{f', but: {said}' if said else ''}", "no_answer")


def read_events(text: str, label: str, *, needs_json: bool = False) -> list[Json]:
    """Return the data of all events, in order: that of an event that begins like JSON as JSON, else as text.

    Raises `ProviderError` for an error of the stream: an event of the type `error`, or one with an `error` that is no
    step, such as the result of a tool, after which more events come. Raises `ValueError` for cut JSON in the last
    event, and in any one with `needs_json` or if the first event is a JSON object.
    """
    found, left, cut = list[Json](), "", ""
    for event, data in _split_events(text):
        if data == "[DONE]":
            break
        value: Json = data
        cut = ""
        if data.startswith(("{", "[", '"')):
            try:
                value = json.loads(data)
            except (ValueError, RecursionError):
                cut = data if data[0] != '"' else ""
                if cut and (needs_json or any(isinstance(each, dict) for each in found[:1])):
                    break
        fields = mapping(value)
        left = data if event == "error" or _has_error(value) else ""
        name = fields.get("type") or fields.get("event") or event or "message"
        if left and (event == "error" or _FAILURE.search(str(name))):
            break
        found.append(value)
    if left:
        raise ProviderError(f"{label} sent an error in its stream: {shorten(left)}", "crash")
    if cut:
        raise ValueError(f"an event that is no whole JSON: {shorten(cut)}")
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


# The tokens of a reply.

_INPUT: Final = ("input", "input_tokens", "inputTokens", "promptTokens", "prompt_tokens")
_OUTPUT: Final = ("output", "output_tokens", "outputTokens", "completionTokens", "completion_tokens")
_CACHED: Final = ("cached", "cache_read_input_tokens")
_REASONING: Final = ("reasoning", "reasoning_tokens")
_OF_ANTHROPIC: Final = frozenset({"cache_creation_input_tokens", "cache_read_input_tokens", "cache_creation"})
_LONGEST: Final = 200
"""The most characters of a value in a warning."""


def read_usage(usage: JsonObject) -> TokenUsage | None:
    """Return the tokens; None if those of question or answer are missing: unknown ones are not 0.

    The same mapping counts alike wherever it is found, so the readers of the APIs count it.
    """
    if not _is_known(usage):
        return None
    details = mapping(usage.get("output_tokens_details"))
    if "prompt_tokens" in usage:
        from pytest_agentv.providers.api import openai  # noqa: PLC0415 - only for its replies

        return openai.read_usage(usage)
    if "input_tokens_details" in usage or "reasoning_tokens" in details:
        from pytest_agentv.providers import frameworks as results  # noqa: PLC0415 - only for its replies

        return results.read_usage(usage)
    if "input_tokens" in usage and (_OF_ANTHROPIC & usage.keys() or "thinking_tokens" in details):
        from pytest_agentv.providers.api import anthropic  # noqa: PLC0415 - only for its replies

        return anthropic.read_usage(usage)
    total_in, total_out, cached, reasoning = (
        count(_first_of(usage, names)) for names in (_INPUT, _OUTPUT, _CACHED, _REASONING)
    )
    return TokenUsage(total_in, total_out, cached or None, reasoning or None) if total_in or total_out else None


def fault_of(usage: Json) -> str | None:
    """Return the warning about tokens that cannot be read; None if they can, or if there are none."""
    is_reported = any(value is not None for value in usage.values()) if isinstance(usage, dict) else usage is not None
    if not is_reported or _is_known(mapping(usage)):
        return None
    shown = masked(compact_json(usage))[:_LONGEST]
    return f"the tokens are {shown} and were left out: expected the numbers of input and of output tokens"


def _is_known(usage: JsonObject) -> bool:
    return all(is_count(_first_of(usage, names)) for names in (_INPUT, _OUTPUT))


def _first_of(usage: JsonObject, names: Sequence[str]) -> Json:
    return next((usage[name] for name in names if name in usage), None)


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
    tool_calls: PathText | None = spelled(
        *("tool_calls", "toolCalls"), default=None, description="where the list of tool calls is"
    )
    context: PathText | None = Field(default=None, description="where the list of retrieved texts is")
    stream: Literal["sse"] | None = Field(
        default=None, description="`sse`: the reply is a stream of events; the paths apply to each"
    )
    timeout_seconds: Seconds | None = spelled(
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
