"""`regex`: patterns of authors, searched for with a time limit."""

import asyncio
import re
import warnings
from functools import lru_cache
from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, Field, ValidationInfo, WithJsonSchema, model_validator

from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.base import Evaluator, or_sync, scope_of
from pytest_agentv.evaluators.context import Context
from pytest_agentv.evaluators.text import shown, verdict
from pytest_agentv.model.kind import Text, expected
from pytest_agentv.model.results import Score

# Searches texts for the patterns of authors, with a time limit, so that a bad pattern cannot stop the run.
#
# Patterns are in the language of Python's `re`, which checks them. The package `regex` searches, because it can be
# stopped. The docs of the check `regex` say where its matches differ from those of `re`.

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
_MOST: Final = 2**32 - 2
"""The highest count of a repetition. It is more than the characters of any answer."""
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


def search_now(pattern: str, text: str) -> bool:
    """Whether a pattern is found, for checks that search many texts. Raises `TimeoutError` with a message."""
    try:
        return _search(_compiled(pattern, ""), text, SECONDS_HELD_UP) is not None
    except TimeoutError:
        raise TimeoutError(too_slow(pattern, SECONDS_HELD_UP)) from None


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
    return f"{{{least},{_MOST}}}{found['way']}"


def _flags(module: Any, letters: str) -> Any:
    total = module.V0 if hasattr(module, "V0") else module.NOFLAG
    for letter in letters:
        total |= getattr(module, letter.upper())
    return total


# `regex`: the answer matches a pattern.

LETTERS: Final = "aimsx"
_FLAGS: Final = {"type": "string", "pattern": f"^[{LETTERS}]+$"}
_LITERAL: Final = re.compile(r"/((?:[^/\\\[]|\\.|\[(?:[^\]\\]|\\.)*\])+)/((?:([dgimsuvy])(?!.*\3))*)", re.DOTALL)
"""A pattern as JavaScript writes it: `/yes|no/i`. No flag is there twice: `/dev/sdd` is a path."""
_SURE_FLAGS: Final = re.compile("[gim]+")
"""Flags that few paths end with, unlike `/dev/sd`, `/api/v`, `/usr/my`."""


def _letters(value: str) -> str:
    if not value or not set(value) <= set(LETTERS):
        raise expected("letters of i (ignore case), m (multiline), s (dot matches all), a (ASCII), x (verbose)")
    return value


def _pattern(value: str, info: ValidationInfo) -> str:
    fault = check_pattern(value)
    if fault:
        raise ValueError(fault)
    scope = scope_of(info)
    literal = _LITERAL.fullmatch(value)
    if scope is not None and literal is not None:
        flags = "".join(letter for letter in literal[2] if letter in LETTERS)
        place = scope.place.at("value")
        # It may be a path, for which a strict run must not fail.
        note = place.warn if _SURE_FLAGS.fullmatch(literal[2]) else place.suggest
        note(
            f"{value!r} looks for the slashes too",
            f"write the pattern without them: {literal[1]}" + (f", and flags: {flags}" if flags else ""),
        )
    return value


class Regex(Evaluator):
    r"""The answer matches a pattern of Python's `re`, anywhere.

    The package `regex` searches, because it can be stopped. It differs from `re` in details: `\w` matches combining
    marks, and does not match `²` or `½`; `\s` does not match the control characters 1C to 1F; `\B` matches an empty
    answer; with `flags: i`, `I` does not match `İ`, and `i` does not match the dotless i.
    """

    kind = "regex"
    is_graded = False
    examples = ({"answer": "Order no. 1001 was sent.", "assert": [{"regex": "order no\\. \\d{4}", "flags": "i"}]},)

    value: Annotated[Text, AfterValidator(_pattern)] = Field(
        description="the pattern, as for Python's `re.search`", examples=["\\d+ days"]
    )
    flags: Annotated[str, AfterValidator(_letters), WithJsonSchema(_FLAGS)] | None = Field(
        default=None, description="letters: `i` ignores case, and `m`, `s`, `a`, `x` as in `re`", examples=["i"]
    )

    @model_validator(mode="after")
    def _compiles_with_its_flags(self) -> Self:
        fault = check_pattern(self.value, self.flags) if self.flags else None
        if fault:
            raise ValueError(fault)
        return self

    @or_sync
    async def evaluate(self, context: Context) -> Score:
        """Search without holding up other cases. Raises `EvaluatorError` when the pattern takes too long."""
        try:
            found = await search(self.value, self.flags or "", context.candidate_answer, context.timeout_seconds)
        except TimeoutError as error:
            raise EvaluatorError(str(error), kind="timeout") from None
        pattern = f"/{self.value}/{self.flags or ''}"
        if found is None:
            return verdict(False, "", f"does not match {pattern}")
        return verdict(True, f"matches {pattern}: {shown(found)}", "")
