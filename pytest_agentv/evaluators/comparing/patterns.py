"""Searches texts for the patterns of authors, with a time limit, so that a bad pattern cannot stop the run.

Patterns are in the language of Python's `re`, which checks them. The package `regex` searches, because it can be
stopped. The docs of the check `regex` say where its matches differ from those of `re`.
"""

import asyncio
import re
import warnings
from functools import lru_cache
from typing import Any, Final

from pytest_agentv.evaluators.comparing.ecma_patterns import MOST, in_python, is_foreign
from pytest_agentv.evaluators.comparing.ecma_reader import PatternFault

SECONDS: Final = 2.0
"""The limit of a search, in seconds."""
SECONDS_HELD_UP: Final = 0.25
"""The limit of a search that blocks the other cases, in seconds."""
AT_ONCE: Final = 0.02
"""How long a search may block the other cases, in seconds. A longer search continues in a thread."""

_NAMED_ELSEWHERE: Final = re.compile(r"\(\?<([^\W\d]\w*)>")
"""A group with a name, as JavaScript and other languages write it."""
_BRACE: Final = re.compile(r"(\\N\{[^}]*\}|\\.|\{\d*,?\d*\})|(\{)", re.DOTALL)
_REFERENCE: Final = re.compile(r"\\[1-9]|\(\?P=|\(\?\(")
_ENDLESS: Final = re.compile(
    r"(?P<kept>\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\?\+|\{\d*,?\d+\}\+)|(?:(?P<sign>[*+])|\{(?P<least>\d*),\})(?P<way>[?+]?)",
    re.DOTALL,
)
"""A repetition without limit, such as "+", "*?" and "{2,}+", or what only looks like one."""


def check_pattern(pattern: str, flags: str = "") -> str | None:
    """Return the fault of a pattern with its place; None if it is valid."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            re.compile(pattern, _flags(re, flags))
    except re.error as error:
        found = _NAMED_ELSEWHERE.search(pattern)
        hint = f" (did you mean '(?P<{found[1]}>…)'?)" if found and "unknown extension ?<" in str(error) else ""
        return f"{pattern!r} is no regular expression: {error}{hint}"
    except (Warning, OverflowError, RecursionError) as error:
        return f"{pattern!r} is no clear regular expression: {error}"
    try:
        _compiled(pattern, flags)
    except Exception as error:  # noqa: BLE001 - the package has an error class of its own, and raises others as well
        return f"{pattern!r} is not supported: {error}"
    return None


async def search(pattern: str, flags: str, text: str, timeout_seconds: float | None) -> str | None:
    """Return the first match in a text; None: there is none. Raises `TimeoutError` with a message."""
    compiled = _compiled(pattern, flags)
    try:
        return _search(compiled, text, AT_ONCE)
    except TimeoutError:
        pass
    limit = SECONDS if timeout_seconds is None else min(SECONDS, timeout_seconds)
    try:
        return await asyncio.to_thread(_search, compiled, text, limit)
    except TimeoutError:
        raise TimeoutError(too_slow(pattern, limit)) from None


def search_now(pattern: str, text: str, *, is_of_schema: bool = False) -> bool:
    """Whether a pattern is found, for checks that search many texts.

    Raises `TimeoutError` with a message, and `ValueError` for a pattern of a schema that cannot be used.
    """
    compiled = of_schema(pattern) if is_of_schema else _compiled(pattern, "")
    try:
        return _search(compiled, text, SECONDS_HELD_UP) is not None
    except TimeoutError:
        raise TimeoutError(too_slow(pattern, SECONDS_HELD_UP)) from None


@lru_cache(maxsize=512)
def of_schema(pattern: str) -> Any:
    """Return the compiled pattern of a JSON Schema, which is in the language of JavaScript. Raises `ValueError`.

    Groups that JavaScript lacks, such as flags, tell that Python's language is meant.
    """
    import regex  # noqa: PLC0415 - as below

    if is_foreign(pattern):
        fault = check_pattern(pattern)
        if fault is not None:
            raise ValueError(fault)
        return _compiled(pattern, "")
    try:
        return regex.compile(in_python(pattern), regex.V0)
    except PatternFault as error:
        raise ValueError(f"{pattern!r} is no regular expression of JavaScript: {error}") from None
    except (ValueError, OverflowError, regex.error) as error:
        raise ValueError(f"{pattern!r} is not supported: {error}") from None


def too_slow(pattern: str, seconds: float) -> str:
    """Return the message for a search that was given up."""
    return (
        f"the pattern {pattern!r} was given up after {seconds:g} s: it tries too many ways to match. "
        "Nested repetitions such as (a+)+ do that"
    )


def _search(compiled: Any, text: str, seconds: float) -> str | None:
    found = compiled.search(text, timeout=seconds, concurrent=True)
    return None if found is None else str(found[0])


@lru_cache(maxsize=512)
def _compiled(pattern: str, flags: str) -> Any:
    import regex  # noqa: PLC0415 - only for checks with patterns

    return regex.compile(_same_language(pattern), _flags(regex, flags))


def _same_language(pattern: str) -> str:
    """Escape braces that `re` takes literally: `regex` would match `{e<=1}` approximately.

    If the text of a group counts, limit all repetitions. Without a limit, the package does not come back to a place,
    even if a group has another text then.
    """
    escaped = _BRACE.sub(lambda found: found[1] or r"\{", pattern)
    return _ENDLESS.sub(_limited, escaped) if _REFERENCE.search(pattern) else escaped


def _limited(found: re.Match[str]) -> str:
    if found["kept"]:
        return found["kept"]
    least = found["least"] or ("1" if found["sign"] == "+" else "0")
    return f"{{{least},{MOST}}}{found['way']}"


def _flags(module: Any, letters: str) -> Any:
    total = module.V0 if hasattr(module, "V0") else module.NOFLAG
    for letter in letters:
        total |= getattr(module, letter.upper())
    return total
