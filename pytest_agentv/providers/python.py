"""The `python` provider: calls a function or runs an agent, and reads what it returns."""

import asyncio
import inspect
import json
import time
from collections.abc import Mapping, Sequence, ValuesView
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, Final, TypeAlias

from pydantic import BeforeValidator, Field
from pydantic.alias_generators import to_camel

from pytest_agentv.cases.prompts import PromptMode
from pytest_agentv.errors import ErrorKind, ProviderError
from pytest_agentv.model.base import JsonObject, json_fault
from pytest_agentv.model.kind import expected, filled
from pytest_agentv.model.messages import is_null
from pytest_agentv.providers.base import (
    Adapter,
    ProviderRequest,
    ProviderResponse,
    TargetAdapter,
    TargetEnvironment,
    shortest,
    total_seconds,
)
from pytest_agentv.providers.kind import (
    EXPECTED_KEYS,
    Provider,
    Sources,
    WireError,
    answer_message,
    checked,
    parse_response,
    plain,
)
from pytest_agentv.providers.python_calls import (
    Chunks,
    Function,
    build_question,
    call_user,
    conversation,
    prompt_text,
    require_no_media,
    runner_of,
)
from pytest_agentv.providers.user_modules import import_callable
from pytest_agentv.runtime.user_code import run_in_thread
from pytest_agentv.targets.fields import Flag, Seconds

_OWN_KEYS: Final = ("text", "output_messages", "outputMessages")

_METRICS: Final = {
    spelling: name
    for name in ("token_usage", "cost_usd", "duration_ms", "finish_reason", "retrieved_context")
    for spelling in (name, to_camel(name))
}

_COSTS: Final = ("token_usage", "cost_usd", "duration_ms")


def _callable(value: object) -> str:
    text = filled(value)
    module, _, function = text.rpartition(":")
    if not module.strip() or not function.strip():
        raise expected("package.module:name or path/to/file.py:name")
    return text


CallableName: TypeAlias = Annotated[str, BeforeValidator(_callable)]


class Python(Provider):
    """A function in the pytest process, sync or async, or an agent of a framework."""

    kind = "python"
    takes_workspace = True

    callable: CallableName = Field(description="package.module:function or path/to/file.py:function")
    messages: Flag | None = Field(
        default=None, description="whether it gets the conversation as a list of messages, not as one text"
    )
    arguments: dict[str, Any] = Field(default={}, description="further keyword arguments of every call")
    timeout_seconds: Seconds | None = Field(default=None, description="limit of one call")
    session: Flag = Field(
        default=False,
        description="whether it remembers a conversation by `request.session`, and gets only the new message",
    )

    def open(self, environment: TargetEnvironment) -> "PythonProvider":
        return PythonProvider(environment, self)

    @property
    def sources(self) -> Sources:
        return Sources(callable=self.callable)


class FunctionProvider(TargetAdapter):
    """Calls `function(prompt_text, **arguments)`, or runs an agent. A parameter `request` gets the request as well."""

    mode: PromptMode = "lm"

    def __init__(
        self,
        label: str,
        function: Any,
        arguments: JsonObject,
        timeout_seconds: float | None = None,
        *,
        as_messages: bool | None = None,
    ) -> None:
        """Take a function or an agent. By default, agents get the messages of conversations, functions a text."""
        self._label = label
        self._function = function
        self._extra = arguments
        self._timeout_seconds = timeout_seconds
        self._as_messages = as_messages
        self._runner = runner_of(function)

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        if request.prompt.media:  # pictures are read from disk
            function, positional, keywords = await asyncio.to_thread(self._call, request)
        else:
            function, positional, keywords = self._call(request)
        limit = shortest(self._timeout_seconds, request.timeout_seconds)
        started = time.perf_counter()
        value = await call_user(function, positional, keywords, label=self._label, limit=limit)
        duration = round((time.perf_counter() - started) * 1000)
        response = await read_value(value, self._label)
        return response.replace(duration_ms=duration) if response.duration_ms is None else response

    def _call(self, request: ProviderRequest) -> tuple[Function, tuple[Any, ...], dict[str, Any]]:
        if self._runner is not None:
            question = build_question(request, as_messages=self._as_messages)
            return self._runner, (self._function, question), dict(self._extra)
        keywords = dict(self._extra)
        with suppress(TypeError, ValueError):  # some functions in C have no signature
            if "request" in list(inspect.signature(self._function).parameters)[1:]:
                keywords.setdefault("request", request)
        if self._as_messages:
            return self._function, (conversation(request),), keywords
        if keywords.get("request") is not request:
            ways_out = "set `messages: true`, or take a parameter `request` and read `request.prompt.media`"
            require_no_media(request, f"{self._label} gets a text, which", ways_out)
        return self._function, (prompt_text(request),), keywords


def _can_be_asked(value: object) -> bool:
    return callable(value) or runner_of(value) is not None


class PythonProvider(FunctionProvider):
    """Imports the function of a target before it calls it."""

    reads_environ = True

    def __init__(self, environment: TargetEnvironment, settings: Python) -> None:
        label = f"target {environment.name!r}: {settings.callable}"
        super().__init__(label, None, settings.arguments, settings.timeout_seconds, as_messages=settings.messages)
        self._import_label = f"{environment.where}: {settings.callable}"
        self._name = settings.callable
        self._folder = environment.folder
        self._lock = asyncio.Lock()

    async def check(self) -> None:
        """Import the function, so that a fault shows before the first case."""
        async with self._lock:
            if self._function is None:  # in a thread, because importing an agent's libraries may take seconds
                what = "a function, or an agent of a framework that is known"
                load = partial(
                    import_callable, self._name, self._folder, self._import_label, what, accepts=_can_be_asked
                )
                self._function = await run_in_thread(load, "agentv-import")
                self._runner = runner_of(self._function)

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        await self.check()
        return await super().invoke(request)


def adapt_provider(value: object, label: str) -> Adapter:
    """Return a provider for an async `invoke`, a function of the prompt, or an agent. Raises `ProviderError`."""
    if runner_of(value) is not None:
        return FunctionProvider(label, value, {})
    invoke = getattr(value, "invoke", None)
    if inspect.iscoroutinefunction(invoke):
        return ForeignAdapter(value, label)
    if callable(value) and not isinstance(value, type):
        return FunctionProvider(label, value, {})
    found = f"the class {value.__name__}" if isinstance(value, type) else f"a value of type {type(value).__name__}"
    hint = "; its `invoke` is not async: hand over `object.invoke` itself" if callable(invoke) else ""
    expected = "a function that takes the prompt, or an object with an async `invoke`"
    raise ProviderError(f"{label} is {found}: expected {expected}{hint}", "config")


class ForeignAdapter:
    """A user's object with `invoke`, and perhaps other parts of an `Adapter`."""

    def __init__(self, value: Any, label: str, timeout_seconds: float | None = None) -> None:
        """Take an object, and the limit of its `check` and `close`. Nobody calls these of an object of a fixture."""
        self.mode: PromptMode = getattr(value, "mode", "lm")
        self.keeps_limits: bool = getattr(value, "keeps_limits", False)
        self.reads_environ: bool = getattr(value, "reads_environ", False)
        self._value = value
        self._label = label
        self._timeout_seconds = timeout_seconds
        if hasattr(value, "warm_up"):
            self.warm_up = value.warm_up
        if hasattr(value, "invoke_batch"):
            self.invoke_batch = self._invoke_batch

    async def check(self) -> None:
        await self._call("check", limit=self._timeout_seconds)

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        value = await self._call("invoke", request, limit=request.timeout_seconds)
        return await read_value(value, f"{self._label}: invoke()")

    async def close(self) -> None:
        await self._call("close", limit=self._timeout_seconds)

    async def _invoke_batch(self, requests: Sequence[ProviderRequest]) -> list[ProviderResponse]:
        """Call `invoke_batch`. A result that is no list is an error of all cases: another call would cost again."""
        values = await self._call("invoke_batch", requests, limit=total_seconds(requests))
        # The keys of a mapping, the letters of a text and what has no order are no answers.
        if isinstance(values, str | bytes | bytearray | Chunks) or not isinstance(values, Sequence | ValuesView):
            found = "a generator" if isinstance(values, Chunks) else f"a value of type {type(values).__name__}"
            error = f"{self._label}: invoke_batch() returned {found}, expected a list of answers"
            return [ProviderResponse(error=error) for _ in requests]
        responses = []
        for value in values:
            try:
                responses.append(await read_value(value, f"{self._label}: invoke_batch()"))
            except ProviderError as error:
                responses.append(ProviderResponse(error=str(error), error_kind=error.kind))
        return responses

    async def _call(self, name: str, *arguments: object, limit: float | None = None) -> object:
        method = getattr(self._value, name, None)
        if method is None:
            return None
        return await call_user(method, arguments, {}, label=self._label, limit=None if self.keeps_limits else limit)


async def read_value(value: object, label: str) -> ProviderResponse:
    """Return the response for a text, a mapping, or a result of another package. Raises `ProviderError`."""
    if isinstance(value, ProviderResponse):
        try:
            return checked(value)
        except WireError as error:
            return _without_answer(value, f"{label} returned {error}")
    if isinstance(value, str):
        return ProviderResponse(output_messages=(answer_message(value),), is_text_only=True)
    return await run_in_thread(lambda: _read(value, label), "agentv-answer")


def _read(value: Any, label: str) -> ProviderResponse:
    if isinstance(value, Mapping) and any(key in value for key in _OWN_KEYS):
        return _read_mapping(value, label)
    from pytest_agentv.providers.frameworks import NativeAnswer, build_response, join, read_native  # noqa: PLC0415 - imports the readers of all packages

    returned = f"a value of type {type(value).__name__}"
    try:
        if isinstance(value, Chunks):
            returned = "a generator"
            value = join(value)
        answer = value if isinstance(value, NativeAnswer) else read_native(value)
        response = None if answer is None else build_response(answer)
    except Exception as error:
        reason = str(error) or type(error).__name__
        raise ProviderError(f"{label} returned {returned} that cannot be read: {reason}", "crash") from error
    if isinstance(value, str):
        return ProviderResponse(output_messages=(answer_message(value),), is_text_only=True)
    if isinstance(value, Mapping):
        return _read_mapping(value, label, response)
    if response is not None:
        return response
    returned = "None" if value is None else f"a value of type {type(value).__name__}"
    expected = f"a str, a mapping with {EXPECTED_KEYS}, a result of an agent framework, or a ProviderResponse"
    raise ProviderError(f"{label} returned {returned}: expected {expected}", "crash")


def _read_mapping(value: Mapping[str, Any], label: str, native: ProviderResponse | None = None) -> ProviderResponse:
    """Read a mapping. Native messages may come with tokens, cost and so on under our own keys."""
    if native is not None:
        value = {key: item for key, item in value.items() if key in _METRICS} if "messages" in value else {}
    try:  # a metric of any type is left out with a warning if it is no number
        text = json.dumps({key: plain(item) if key in _METRICS else item for key, item in value.items()})
        response = parse_response(json.loads(text, parse_constant=lambda _: None))  # NaN and infinity are not reported
    except WireError as error:
        return _without_answer(_figures(value), f"{label} returned a mapping that cannot be read: {error}")
    except (TypeError, ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        return _without_answer(_figures(value), f"{label} returned a mapping that is no JSON: {reason}")
    if native is not None:
        told = {name: found for name in _METRICS.values() if (found := getattr(response, name)) is not None}
        return native.replace(**told)
    if response.output_messages is None:
        if "text" in value:
            reason = f"{label} returned a mapping whose 'text' is None: expected a text"
            return _without_answer(response, reason, "no_answer")
        keys = ", ".join(map(repr, value)) or "no keys"
        return _without_answer(response, f"{label} returned a mapping with {keys}: expected {EXPECTED_KEYS}")
    if is_null(response.output_messages, response.trace):
        reason = f"{label} returned a message whose 'content' is None: expected a text"
        return _without_answer(response, reason, "no_answer")
    return response


def _figures(value: Mapping[str, Any]) -> ProviderResponse:
    """Return what a mapping costs that cannot be read otherwise, without figures that cannot be read either."""
    figures = {key: item for key, item in value.items() if _METRICS.get(key) in _COSTS}
    usable = {key: plain(item) for key, item in figures.items() if json_fault(item, with_texts=True) is None}
    return parse_response(usable)


def _without_answer(response: ProviderResponse, error: str, kind: ErrorKind = "crash") -> ProviderResponse:
    """Return what a response cost that holds no answer, with the error; raise it if nothing is reported."""
    if response.token_usage is None and response.cost_usd is None:
        raise ProviderError(error, kind)
    return ProviderResponse(
        token_usage=response.token_usage,
        cost_usd=response.cost_usd,
        cost_source=response.cost_source if isinstance(response.cost_source, str) else None,
        duration_ms=response.duration_ms,
        error=error,
        error_kind=kind,
    )
