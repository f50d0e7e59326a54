"""One expected tool call, and whether a call is what was expected."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, WithJsonSchema

from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.comparing.equality import json_equal
from pytest_agentv.models.base import ABSENT, Json
from pytest_agentv.models.kind import Amount, Part, Text, expected, spelled
from pytest_agentv.models.messages import ToolCall
from pytest_agentv.models.text import format_number

DOCS: Final = "docs/evaluators.md#tool_trajectory"


def _arguments(value: Json) -> Json:
    if value is None:
        return ABSENT
    if value is not ABSENT and value != "any" and not isinstance(value, Mapping):
        raise expected("a mapping of arguments or the word any")
    return value


_ANY_OR_MAPPING: Final = {"anyOf": [{"const": "any"}, {"type": "object"}]}


class ExpectedCall(Part):
    """One expected tool call."""

    tool: Text = Field(description="name of the tool")
    args: Annotated[Any, BeforeValidator(_arguments), WithJsonSchema(_ANY_OR_MAPPING)] = Field(
        default=ABSENT, description="arguments that the call must have; it may have more. `any`: all calls fit"
    )
    input: Annotated[Any, BeforeValidator(_arguments), WithJsonSchema(_ANY_OR_MAPPING)] = Field(
        default=ABSENT, description="another word for `args`"
    )
    output: Any = Field(
        default=ABSENT,
        description="what the call's `output` holds at every depth: listed keys of mappings, listed elements of lists "
        "from the start",
    )
    max_duration_ms: Amount | None = spelled(
        "max_duration_ms", "maxDurationMs", default=None, description="the most milliseconds the call may take"
    )


def args_match(expected: ExpectedCall, call: ToolCall) -> bool:
    """Return whether each expected argument is in the call's input with an equal value; more arguments are fine."""
    return _args_match(expected.args, call) and _args_match(expected.input, call)


def _args_match(wanted: Json, call: ToolCall) -> bool:
    if wanted is ABSENT or wanted is None or wanted == "any":
        return True
    if not isinstance(wanted, Mapping):
        return json_equal(wanted, call.input)
    if not isinstance(call.input, Mapping):
        return False
    return all(key in call.input and json_equal(value, call.input[key]) for key, value in wanted.items())


def holds(wanted: Json, given: Json) -> bool:
    """Return whether a value holds what is wanted, at every depth.

    A mapping holds the listed keys and may have more; a list begins with the listed elements and may go on.
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
    """Return what is wrong with a call of the right tool; None when nothing is.

    Raises `EvaluatorError` when the call does not report what it is to be held against.
    """
    if not args_match(expected, call):
        return "args mismatch"
    if expected.output is not ABSENT:
        _require_reported(call.output is not ABSENT, "output", "output", call, target)
        if not holds(expected.output, call.output):
            return "output mismatch"
    if expected.max_duration_ms is not None:
        _require_reported(call.duration_ms is not None, "duration_ms", "max_duration_ms", call, target)
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
