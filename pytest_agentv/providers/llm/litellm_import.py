"""Imports litellm when it is first needed.

That takes seconds and 160 MB. So it happens once per process, in a thread, and starts with the first case that may ask
a model.
"""

import asyncio
import functools
import gc
import importlib
import os
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any, Final

from pytest_agentv.errors import ProviderError
from pytest_agentv.providers.llm.limit import limit_transports

_IMPORT_ENVIRONMENT: Final = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "LITELLM_MODE": "PRODUCTION",
}
"""Stops litellm from downloading files, and from loading a `.env` file beside its virtual environment."""

_FIRST_USED: Final = (
    "litellm.llms.vertex_ai.context_caching.vertex_ai_context_caching",
    "litellm.llms.github_copilot.authenticator",
)
"""Modules that litellm imports in a call, and that cause warnings of pydantic: with `-W error`, the call would fail."""

_MISSING: Final = "this target needs litellm, which is not installed: pip install 'pytest-agentv[litellm]'"


async def load_litellm() -> Any:
    """Return litellm, imported once per process.

    Raises `ProviderError` (kind `config`) if it cannot be imported.
    """
    try:
        return await asyncio.wrap_future(begin_import())
    except ModuleNotFoundError as error:
        if error.name != "litellm":
            raise ProviderError(f"litellm cannot be imported: {error}", "config") from error
        raise ProviderError(_MISSING, "config") from None
    except ImportError as error:
        raise ProviderError(f"litellm cannot be imported: {error}", "config") from error


def imported_litellm() -> Any:
    """Return litellm; None if it was not needed, or could not be imported."""
    if not begin_import.cache_info().currsize or not begin_import().done() or begin_import().exception():
        return None
    return begin_import().result()


@functools.cache
def begin_import() -> "Future[Any]":
    """Start importing litellm, unless its import has started."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()  # a cancelled case must not cancel the import for others
    threading.Thread(target=_load, args=(future,), name="agentv-import-litellm", daemon=True).start()
    return future


def _load(future: "Future[Any]") -> None:
    try:
        with _without_collector(), _without_warnings():
            litellm = _import_litellm()
        future.set_result(litellm)
    except BaseException as error:  # noqa: BLE001 - all waiting cases raise it again
        future.set_exception(error)


def _import_litellm() -> Any:
    with _import_environment():
        import litellm  # noqa: PLC0415

        with suppress(ImportError, AttributeError):  # an older version, which downloads nothing
            from litellm.anthropic_beta_headers_manager import reload_beta_headers_config  # noqa: PLC0415

            reload_beta_headers_config()
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    with suppress(Exception):
        _import_the_rest(litellm)
    with suppress(Exception):  # older versions have no transport of their own; litellm may raise a warning as an error
        from litellm.llms.custom_httpx.http_handler import AsyncHTTPHandler  # noqa: PLC0415

        limit_transports(AsyncHTTPHandler)
    return litellm


def _import_the_rest(litellm: Any) -> None:
    """Import the modules that the first call would import on the event loop, as a part of that answer's duration."""
    import openai.resources.chat.completions  # noqa: F401, PLC0415 - litellm's client for Azure and OpenAI

    for name in _FIRST_USED:
        with suppress(ImportError):  # the modules of releases differ
            importlib.import_module(name)
    messages = [{"role": "user", "content": "x"}]
    litellm.completion(model="openai/gpt-4o", messages=messages, mock_response="x")  # makes no request
    litellm.encode(model="", text="x")  # loads the tables for counting tokens


@contextmanager
def _without_collector() -> Iterator[None]:
    """Import without the garbage collector, which would scan all imported objects again and again.

    At the end it scans once, as it would do next anyway, instead of on the event loop among the first answers.
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
def _without_warnings() -> Iterator[None]:
    """Ignore warnings in this thread: with `-W error`, litellm could not be imported.

    Filters do not help. They belong to the whole process, and pytest replaces them for each item.
    """
    warn, importing, is_over = warnings.warn, threading.get_ident(), threading.Event()

    def warn_elsewhere(message: Any, category: Any = None, stacklevel: int = 1, *rest: Any, **options: Any) -> None:
        if is_over.is_set() or threading.get_ident() != importing:
            warn(message, category, stacklevel + 1, *rest, **options)

    warnings.warn = warn_elsewhere
    try:
        yield
    finally:
        is_over.set()  # a module may have kept the function
        if warnings.warn is warn_elsewhere:
            warnings.warn = warn


@contextmanager
def _import_environment() -> Iterator[None]:
    """Set litellm's variables only while it is imported, so that programs under test do not inherit them."""
    added = {name: value for name, value in _IMPORT_ENVIRONMENT.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)
