"""Models behind an API, asked through litellm: `azure`, `anthropic`, `gemini`, `openai`, `litellm`.

litellm takes seconds and 160 MB to import: that happens once per process, in a thread, and starts with the first case
that may ask a model. Its own retries, its price-map download and its telemetry are off.
"""

import asyncio
import functools
import gc
import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from weakref import WeakSet

from pytest_agentv.errors import ProviderError, locate
from pytest_agentv.models.secrets import Masker
from pytest_agentv.models.targets import LlmSettings, Target
from pytest_agentv.models.text import format_number
from pytest_agentv.prompts.prompt import PromptMode
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse
from pytest_agentv.providers.llm_failure import read_failure
from pytest_agentv.providers.llm_reply import read_reply
from pytest_agentv.providers.llm_request import build_arguments, build_messages, system_role
from pytest_agentv.runtime.retry import RequestError, RequestLog, is_retryable, with_retries

_NO_LIMIT_SECONDS: Final = 86_400.0
"""litellm's own limit; ours ends first. It must not vary: litellm keeps a client, with its connections, for each."""

_ONE_REQUEST: Final = {"num_retries": 0, "max_retries": 0, "timeout": _NO_LIMIT_SECONDS}

_IMPORT_ENVIRONMENT: Final = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "LITELLM_MODE": "PRODUCTION",
}
"""Keeps litellm from fetching files over the network and from loading a `.env` file beside its virtual environment."""

_OPEN: Final["WeakSet[LlmProvider]"] = WeakSet()
"""Targets with a model that are not closed."""


class LlmProvider:
    """A model. litellm keeps one client per URL and key, so that connections are reused."""

    mode: PromptMode = "lm"

    def __init__(
        self,
        target: Target,
        environment: Mapping[str, str],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        assert isinstance(target.settings, LlmSettings)
        self._target = target
        self._model = f"model {target.settings.model!r} ({target.kind})"
        self._where = _describe_target(target)
        self._arguments = build_arguments(target.kind, target.settings, environment)
        self._system_role = system_role(target.kind, target.settings.model)
        self._masker = Masker([target.settings.api_key.reveal()] if target.settings.api_key else [])
        self._sleep = sleep
        _OPEN.add(self)

    def warm_up(self) -> None:
        """Start importing litellm, unless that has been done."""
        _loading()

    async def check(self) -> None:
        """Asking a model costs money: there is no probe."""

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        """Ask the model, again where the target's retry policy says so; the time limit holds for all of it.

        Raises `ProviderError`; its `raw` tells, as that of a response, of `request_attempts`, `waited_ms` and
        `last_error`.
        """
        litellm = await load_litellm()
        arguments = {**self._arguments, "messages": build_messages(request, self._system_role), **_ONE_REQUEST}
        log = RequestLog()
        limit = request.timeout_seconds
        try:
            async with asyncio.timeout(limit):
                response = await with_retries(
                    lambda: self._ask(litellm, arguments),
                    self._target.retry,
                    log,
                    deadline=None if limit is None else time.monotonic() + limit,
                    sleep=self._sleep,
                )
        except RequestError as error:
            message = error.failure.message + self._describe_attempts(error, log)
            raise ProviderError(message, error.failure.kind, log.to_raw()) from None
        except TimeoutError:
            raise ProviderError(self._describe_timeout(limit, log), "timeout", log.to_raw()) from None
        return response.replace(raw={**response.raw, **log.to_raw()})

    async def close(self) -> None:
        """Close litellm's clients when the last target with a model is closed: litellm keeps them for the process."""
        _OPEN.discard(self)
        litellm = _imported()
        if not _OPEN and litellm is not None:
            gc.unfreeze()
            with suppress(AttributeError):  # of versions before 1.74
                await litellm.close_litellm_async_clients()
                litellm.in_memory_llm_clients_cache.flush_cache()  # its keys are ids of loops, which come again

    async def _ask(self, litellm: Any, arguments: Mapping[str, Any]) -> ProviderResponse:
        started = time.perf_counter()
        try:
            reply = await litellm.acompletion(**arguments)
        except Exception as error:  # noqa: BLE001 - litellm raises what it likes; the cause is found in its chain
            failure = read_failure(error, self._model, self._where)
            raise RequestError(failure.replace(message=self._masker.mask(failure.message))) from None
        return read_reply(reply, round((time.perf_counter() - started) * 1000), self._model)

    def _describe_attempts(self, error: RequestError, log: RequestLog) -> str:
        policy = self._target.retry
        if is_retryable(error.failure, policy) and log.attempts <= policy.max_retries:
            return f"; no time is left for another request ({_requests(log)})"
        return f" ({_requests(log)})" if log.attempts > 1 else ""

    def _describe_timeout(self, limit: float | None, log: RequestLog) -> str:
        before = f" ({_requests(log)}; before: {log.last_error})" if log.last_error else ""
        return f"no answer from {self._model} within {format_number(limit or 0)} s{before}"


def _describe_target(target: Target) -> str:
    where = f" ({locate(Path(target.path), target.line)})" if target.path else ""
    return f"target {target.name!r}{where}"


def _requests(log: RequestLog) -> str:
    noun = "request" if log.attempts == 1 else "requests"
    return f"{log.attempts} {noun}, {log.waited_ms / 1000:.1f} s of waiting"


async def load_litellm() -> Any:
    """Return litellm, imported once per process. Raises `ProviderError` (kind `config`) when that fails."""
    try:
        return await asyncio.wrap_future(_loading())
    except ImportError as error:
        raise ProviderError(f"litellm cannot be imported: {error}", "config") from error


def _imported() -> Any:
    """Return litellm; None when nobody needed it, and when it could not be imported."""
    if not _loading.cache_info().currsize or not _loading().done() or _loading().exception():
        return None
    return _loading().result()


@functools.cache
def _loading() -> "Future[Any]":
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()  # a case that is cancelled must not cancel it for the others
    threading.Thread(target=_load, args=(future,), name="agentv-import-litellm", daemon=True).start()
    return future


def _load(future: "Future[Any]") -> None:
    try:
        with _without_collector():
            litellm = _import_litellm()
        # A million objects that stay until the targets are closed: the collector goes round them between the answers.
        gc.freeze()
        future.set_result(litellm)
    except BaseException as error:  # noqa: BLE001 - it is raised again, by all who wait
        future.set_exception(error)


def _import_litellm() -> Any:
    with _import_environment():
        import litellm  # noqa: PLC0415

        with suppress(ImportError, AttributeError):  # of older versions, which fetch nothing
            from litellm.anthropic_beta_headers_manager import reload_beta_headers_config  # noqa: PLC0415

            reload_beta_headers_config()
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    with suppress(Exception):
        _import_the_rest(litellm)
    return litellm


def _import_the_rest(litellm: Any) -> None:
    """Import what the first call would import, on the event loop and as a part of that answer's duration."""
    import openai.resources.chat.completions  # noqa: F401, PLC0415 - litellm's client for Azure and OpenAI

    messages = [{"role": "user", "content": "x"}]
    litellm.completion(model="openai/gpt-4o", messages=messages, mock_response="x")  # asks nobody
    litellm.encode(model="", text="x")  # reads the tables that it counts tokens with


@contextmanager
def _without_collector() -> Iterator[None]:
    """Import without the garbage collector, which would look through all that came so far again and again.

    It is left to look once, as it would do next, instead of on the event loop among the first answers.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.collect()


@contextmanager
def _import_environment() -> Iterator[None]:
    """Set litellm's variables for as long as it needs them, so that programs under test do not inherit them."""
    added = {name: value for name, value in _IMPORT_ENVIRONMENT.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)
