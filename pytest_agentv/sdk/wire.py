"""Converts the JSON of a judge's payload to records, and a judge's result to the JSON that it prints."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn, TypeAlias

from pytest_agentv.sdk.records import (
    CodeJudgeInput,
    ExecutionMetrics,
    Json,
    Message,
    Result,
    TokenUsage,
    ToolCall,
    TraceEvent,
    TraceSummary,
)

Reader: TypeAlias = Callable[[Json, str], Any]
"""Checks a value and converts it. The text names its place. Raises `WireError`."""


class WireError(ValueError):
    """Data has the wrong shape. The text says where, and what was expected."""


def read_input(data: Json) -> CodeJudgeInput:
    """Read a judge's input. Ignores unknown keys. Raises `WireError`."""
    judge_input: CodeJudgeInput = _INPUT(data, "")
    return judge_input


def build_reply(result: Result | Mapping[str, Json]) -> dict[str, Json]:
    """Return the JSON object that a judge prints. Raises `WireError` for an invalid result."""
    if not isinstance(result, Result | Mapping):
        returned = "nothing" if result is None else _shortened(result)
        raise WireError(f'the judge returned {returned}: expected a Result, or a mapping such as {{"score": 0.5}}')
    checked: Result = _RESULT(result._asdict() if isinstance(result, Result) else result, "")
    if str(checked.score) in ("inf", "-inf"):
        _fail("score", "a finite number", checked.score)
    within = min(1, max(0, checked.score))
    score = within if within == checked.score else checked.score  # the run clamps such a score, with a warning
    optional = {"reasoning": checked.reasoning, "details": checked.details}
    found = {key: value for key, value in optional.items() if value is not None}
    return {"score": score, "hits": checked.hits or (), "misses": checked.misses or (), **found}


def text(value: Json, where: str) -> str:
    if not isinstance(value, str):
        _fail(where, "a text", value)
    return value


def number(value: Json, where: str) -> float:
    if not isinstance(value, int | float) or str(value) == "nan":
        _fail(where, "a number", value)
    return value


def mapping(value: Json, where: str) -> Mapping[str, Json]:
    if not isinstance(value, Mapping):
        _fail(where, "a mapping", value)
    return value


def optional(read: Reader) -> Reader:
    return lambda value, where: None if value is None else read(value, where)


def list_of(read: Reader) -> Reader:
    def read_list(value: Json, where: str) -> tuple[Json, ...]:
        if not isinstance(value, list | tuple):
            _fail(where, "a list", value)
        return tuple(read(item, f"{where}[{index}]") for index, item in enumerate(value))

    return read_list


def record_of(cls: Callable[..., Any], readers: Mapping[str, Reader], key_of: Callable[[str], str] = str) -> Reader:
    """Return a reader of a mapping into a record. It reads a missing key as None.

    Args:
        cls: The record.
        readers: The reader of each field, by name.
        key_of: Returns the key of a field in the data.
    """

    def read_record(value: Json, where: str) -> Any:
        data, prefix = mapping(value, where), f"{where}." if where else ""
        keys = {field: key_of(field) for field in readers}
        return cls(**{field: read(data.get(keys[field]), f"{prefix}{keys[field]}") for field, read in readers.items()})

    return read_record


def camel_case(name: str) -> str:
    """`tool_calls` gives `toolCalls`."""
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def message_reader(key_of: Callable[[str], str] = str) -> Reader:
    """Return a reader of messages. User data within them stays unchanged."""
    calls = record_of(ToolCall, _TOOL_CALL_READERS, key_of)
    return record_of(Message, {**_MESSAGE_READERS, "tool_calls": _list_or_nothing(calls)}, key_of)


def _anything(value: Json, _where: str) -> Json:
    return value


def _list_or_nothing(read: Reader) -> Reader:
    read_list = list_of(read)
    return lambda value, where: () if value is None else read_list(value, where)


def _fail(where: str, expected: str, value: Json) -> NoReturn:
    raise WireError(f"{where or 'the data'}: expected {expected}, got {_shortened(value)}")


def _shortened(value: Any) -> str:
    shown = json.dumps(value, default=repr, ensure_ascii=False)
    return f"{shown[:60]}…" if len(shown) > 60 else shown


_TOOL_CALL_READERS: Final[Mapping[str, Reader]] = {
    "tool": text,
    "input": _anything,
    "output": _anything,
    "id": optional(text),
    "timestamp": optional(text),
    "duration_ms": optional(number),
}
_MESSAGE_READERS: Final[Mapping[str, Reader]] = {
    "role": text,
    "content": _anything,
    "name": optional(text),
    "timestamp": optional(text),
    "metadata": optional(mapping),
}
_TOKEN_USAGE: Final = record_of(
    TokenUsage, {"input": number, "output": number, "cached": optional(number), "reasoning": optional(number)}
)
_COST_READERS: Final[Mapping[str, Reader]] = {
    "token_usage": optional(_TOKEN_USAGE),
    "cost_usd": optional(number),
    "duration_ms": optional(number),
}
_TRACE_SUMMARY: Final = record_of(
    TraceSummary,
    {
        "event_count": number,
        "tool_names": list_of(text),
        "tool_calls_by_name": mapping,
        "error_count": number,
        **_COST_READERS,
    },
)
_EXECUTION_METRICS: Final = record_of(
    ExecutionMetrics,
    {
        **_COST_READERS,
        "tool_durations": optional(mapping),
        "exploration_ratio": optional(number),
        "tokens_per_tool": optional(number),
    },
)
_TRACE_EVENT: Final = record_of(
    TraceEvent,
    {
        "type": text,
        "timestamp": optional(text),
        "id": optional(text),
        "name": optional(text),
        "input": _anything,
        "output": _anything,
        "text": optional(text),
        "metadata": optional(mapping),
    },
)
_MESSAGES: Final = list_of(message_reader())
_INPUT: Final = record_of(
    CodeJudgeInput,
    {
        "question": text,
        "expected_outcome": text,
        "candidate_answer": text,
        "expected_messages": _MESSAGES,
        "reference_answer": optional(text),
        "output_messages": optional(_MESSAGES),
        "guideline_files": list_of(text),
        "input_files": list_of(text),
        "input_messages": _MESSAGES,
        "trace_summary": optional(_TRACE_SUMMARY),
        "config": optional(mapping),
        "execution_metrics": optional(_EXECUTION_METRICS),
        "trace": optional(list_of(_TRACE_EVENT)),
        "vars": optional(mapping),
        "retrieved_context": optional(list_of(text)),
    },
)
_RESULT: Final = record_of(
    Result,
    {
        "score": number,
        "hits": _list_or_nothing(text),
        "misses": _list_or_nothing(text),
        "reasoning": optional(text),
        "details": optional(mapping),
    },
)
