"""Calls the functions of a project that make the rows of tables."""

import inspect
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from pytest_agentv.errors import ProviderError

_ROWS: Final = "a list of mappings, or a generator of them"


def call_row_maker(name: str, folder: Path) -> Iterable[object]:
    """Call `file.py:function` or `package.module:function` and return all its rows.

    The function takes no arguments, and returns or yields mappings. Each process of a run calls it, so it must return
    the same rows each time. Raises `ProviderError`.
    """
    from pytest_agentv.providers.python import import_callable  # noqa: PLC0415 - only for files with such a function
    from pytest_agentv.runtime.user_code import user_traceback  # noqa: PLC0415 - only for files with such a function

    found = import_callable(name, folder, name, f"a function that returns {_ROWS}")
    found.check()
    try:
        given = found.function()
        if isinstance(given, Iterable) and not isinstance(given, str | dict):
            # a generator may change and yield one mapping again and again
            return [dict(row) if isinstance(row, dict) else row for row in given]
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        raise ProviderError(f"{name} raised {user_traceback(error)}", "config") from error
    if inspect.iscoroutine(given):
        given.close()  # Python warns of a coroutine that is dropped
    if inspect.isawaitable(given) or inspect.isasyncgen(given):
        raise ProviderError(f"{name} is async: expected a function without `async` that returns {_ROWS}", "config")
    raise ProviderError(f"{name} returned a value of type {type(given).__name__}: expected {_ROWS}", "config")
