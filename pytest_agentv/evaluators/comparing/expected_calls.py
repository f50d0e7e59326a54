"""An expected tool call, and its comparison with actual calls."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeAlias

from pydantic import BeforeValidator, Field, WithJsonSchema

from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.comparing.answer_data import parse_json
from pytest_agentv.evaluators.comparing.equality import json_equal
from pytest_agentv.evaluators.comparing.patterns import check_pattern, search_now
from pytest_agentv.models.base import ABSENT, Json, JsonObject, is_amount
from pytest_agentv.models.kind import Amount, Part, Text, expected, spelled
from pytest_agentv.models.messages import ToolCall
from pytest_agentv.models.text import compact_json, format_number

REGEX: Final = "regex"
ANY: Final = "any"
_OF_RULES: Final = frozenset({REGEX, ANY, "flags", "ignore_case"})
DOCS: Final = "docs/evaluators.md#tool_trajectory"


def _arguments(value: Json) -> Json:
    if value is None:
        return ABSENT
    if value is not ABSENT and value != "any" and not isinstance(value, Mapping):
        raise expected("a mapping of arguments or the word any")
    for name, wanted in value.items() if isinstance(value, Mapping) else ():
        pattern = _rule(wanted, REGEX)
        fault = _mixed_fault(wanted) if pattern is ABSENT else _pattern_fault(pattern)
        if fault:
            raise ValueError(f"{name}: {fault}")
    return value


def _rule(wanted: Json, word: str) -> Json:
    """Return the value of an expected argument of the form `{word: value}`; else `ABSENT`."""
    return wanted[word] if isinstance(wanted, Mapping) and len(wanted) == 1 and word in wanted else ABSENT


def _mixed_fault(wanted: Json) -> str | None:
    """Return why a mapping is no rule, although it looks like one. Other mappings are data that an argument equals."""
    if isinstance(wanted, Mapping) and REGEX in wanted and wanted.keys() <= _OF_RULES:
        return f"`{REGEX}` stands alone, and flags stand in the pattern: {{{REGEX}: (?i)tents?}}"
    return None


def _pattern_fault(pattern: Json) -> str | None:
    return check_pattern(pattern) if isinstance(pattern, str) else "a regex is a text"


_ANY_OR_MAPPING: Final = {"anyOf": [{"const": "any"}, {"type": "object"}]}

Arguments: TypeAlias = Annotated[Any, BeforeValidator(_arguments), WithJsonSchema(_ANY_OR_MAPPING)]
"""The arguments that a call must have; `any`: every call matches; ABSENT: nothing is expected."""


class ExpectedCall(Part):
    """One expected tool call."""

    tool: Text = Field(description="name of the tool")
    args: Arguments = Field(
        default=ABSENT,
        description="arguments that the call must have; it may have more. An argument may be `{regex: …}`, or "
        "`{any: true}`: it is there. `any`: every call matches",
        examples=[{"query": {"regex": "tents?"}}],
    )
    input: Arguments = Field(default=ABSENT, description="another word for `args`", examples=["any"])
    output: Any = Field(
        default=ABSENT,
        description="what the call's `output` holds at every depth: listed keys of mappings, listed elements of lists "
        "from the start",
    )
    max_duration_ms: Amount | None = spelled(
        "max_duration_ms", "maxDurationMs", default=None, description="the most milliseconds the call may take"
    )


def args_match(expected: ExpectedCall, call: ToolCall) -> bool:
    """Return whether each expected argument is in the call's input with an equal value.

    Further arguments are allowed.
    """
    return call_fits(expected.args, call) and call_fits(expected.input, call)


def call_fits(wanted: Json, call: ToolCall) -> bool:
    """Return whether a call has the expected arguments."""
    if wanted is ABSENT or wanted is None or wanted == "any":
        return True
    if not isinstance(wanted, Mapping):
        return json_equal(wanted, call.input)
    given = arguments_of(call)
    return given is not None and all(
        key in given and _argument_fits(value, given[key]) for key, value in wanted.items()
    )


def arguments_of(call: ToolCall) -> JsonObject | None:
    """Return the arguments of a call; None: it has no mapping.

    OpenAI's API reports them as JSON in a text, which is empty if there are none.
    """
    given = parse_json(call.input.strip() or "{}") if isinstance(call.input, str) else call.input
    return given if isinstance(given, Mapping) else None


def _argument_fits(wanted: Json, given: Json) -> bool:
    """Whether an argument is the expected one. Raises `EvaluatorError` for a pattern that takes too long."""
    if _rule(wanted, ANY) is True:
        return True
    pattern = _rule(wanted, REGEX)
    if not isinstance(pattern, str):
        return json_equal(wanted, given)
    try:
        return search_now(pattern, given if isinstance(given, str) else compact_json(given))
    except TimeoutError as error:
        raise EvaluatorError(str(error), kind="timeout") from None


def holds(wanted: Json, given: Json) -> bool:
    """Return whether a value contains the expected one, at every depth.

    A mapping may have more keys than the expected ones. A list begins with the expected elements and may be longer.
    """
    if isinstance(wanted, Mapping):
        return isinstance(given, Mapping) and all(
            key in given and holds(value, given[key]) for key, value in wanted.items()
        )
    if isinstance(wanted, list | tuple):
        is_list = isinstance(given, list | tuple) and len(given) >= len(wanted)
        return is_list and all(map(holds, wanted, given))
    return json_equal(wanted, given)


def call_fault(expected: ExpectedCall, call: ToolCall, target: str) -> str | None:
    """Return the fault of a call of the right tool; None if it is as expected.

    Raises `EvaluatorError` if the call does not report the values to compare.
    """
    if not args_match(expected, call):
        return "args mismatch"
    if expected.output is not ABSENT:
        _require_reported(call.output is not ABSENT, "output", "output", call, target)
        if not holds(expected.output, call.output):
            return "output mismatch"
    if expected.max_duration_ms is not None:
        _require_reported(is_amount(call.duration_ms), "duration_ms", "max_duration_ms", call, target)
        if call.duration_ms is not None and call.duration_ms > expected.max_duration_ms:
            took, limit = format_number(call.duration_ms), format_number(expected.max_duration_ms)
            return f"took {took} ms, at most {limit} ms were expected"
    return None


def _require_reported(is_reported: bool, field: str, key: str, call: ToolCall, target: str) -> None:
    if not is_reported:
        message = (
            f"`{key}` of the expected call {call.tool!r} cannot be checked: target {target!r} does not report the "
            f"`{field}` of its tool calls. {DOCS} shows how a target reports it"
        )
        raise EvaluatorError(message, kind="config")
