"""Models behind an API, asked through litellm: `azure`, `anthropic`, `gemini`, `openai`, `litellm`.

litellm's own retries, its price-map download and its telemetry are off.
"""

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from weakref import WeakSet

from pytest_agentv.errors import ProviderError, locate
from pytest_agentv.models.secret_rule import secrets_of
from pytest_agentv.models.secrets import Masker
from pytest_agentv.models.targets import LlmSettings, Target
from pytest_agentv.models.text import format_number
from pytest_agentv.prompts.prompt import PromptMode
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse
from pytest_agentv.providers.llm_failure import read_failure
from pytest_agentv.providers.llm_import import begin_import, imported_litellm, load_litellm
from pytest_agentv.providers.llm_reply import read_reply
from pytest_agentv.providers.llm_request import build_arguments, build_messages, system_role
from pytest_agentv.runtime.retry import RequestError, RequestLog, is_retryable, with_retries

_NO_LIMIT_SECONDS: Final = 86_400.0
"""litellm's own limit; ours ends first. It must not vary: litellm keeps a client, with its connections, for each."""

_ONE_REQUEST: Final = {"num_retries": 0, "max_retries": 0, "timeout": _NO_LIMIT_SECONDS}

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
        key = target.settings.api_key
        self._masker = Masker(secrets_of("api_key", key.reveal()) if key else ())
        self._sleep = sleep
        _OPEN.add(self)

    def warm_up(self) -> None:
        """Start importing litellm, unless that has been done."""
        begin_import()

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
        litellm = imported_litellm()
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
