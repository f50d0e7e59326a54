"""Turns records into plain JSON data with secrets masked, and into text."""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from pytest_agentv.models.base import ATOMS, Json, JsonObject
from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.models.text import compact_json

_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")


_IDENTITY: Final = frozenset(
    {
        *("eval_id", "dataset", "conversation_id", "target", "node_id", "run_id", "eval_file", "row", "combination"),
        "case_hash",
        *(
            "timestamp",
            "status",
            "threshold_source",
            "error_detail",
            "group",
            "repeat",
            "tags",
            "judge",
            "shard",
            "in_baseline",
        ),
    }
)
"""Keys of a record whose values are names or fixed words. Masked values would no longer match anything."""

_NO_TEXTS: Final = ATOMS - {str}

_TOOL_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.:/-]{0,127}")
"""Valid tool names. Any other tool name of a target is masked like text."""


def recordable(record: JsonObject, masker: Masker) -> dict[str, Json]:
    """Return a record as plain JSON data with secrets masked.

    The record's own keys and the names of cases, targets, evaluators and tools stay as they are.
    """
    safe = {key: value if type(value) in _NO_TEXTS else json_safe(value) for key, value in record.items()}
    return {key: _masked_field(key, value, masker) for key, value in safe.items()} if masker.is_needed else safe


def masked_result(value: JsonObject, masker: Masker) -> JsonObject:
    """Return a stored result of any shape with secrets masked. The names of its case are kept."""
    if not masker.is_needed:
        return value
    return {key: item if key in _IDENTITY else masker.mask_plain(item) for key, item in value.items()}


def _masked_field(key: str, value: Json, masker: Masker) -> Json:
    if type(value) in _NO_TEXTS or key in _IDENTITY:
        return value
    match key:
        case "evaluator_results":
            return [_masked_evaluator(each, masker) for each in value]
        case "trace":
            return [_masked_item(event, masker, _masked_tool) for event in value]
        case "output_messages":
            from pytest_agentv.reporting.conversations.bounded import bounded_messages  # noqa: PLC0415 - only for targets with tools

            return bounded_messages([_masked_message(message, masker) for message in value])
        case "answers":
            return [recordable(answer, masker) for answer in value]
        case "trace_summary" | "execution_metrics":
            return _masked_figures(value, masker)
    return masker.mask_plain(value)


def _masked_evaluator(result: JsonObject, masker: Masker) -> JsonObject:
    masked = _masked_item(result, masker, lambda name, _: name)
    if "evaluator_results" in result:
        masked["evaluator_results"] = [_masked_evaluator(each, masker) for each in result["evaluator_results"]]
    return masked


def _masked_message(message: JsonObject, masker: Masker) -> JsonObject:
    masked = {key: masker.mask_plain(value) for key, value in message.items()}
    calls = message.get("tool_calls") or ()
    masked["tool_calls"] = [
        {key: masker.mask_plain(value) for key, value in call.items()} | {"tool": _masked_tool(call["tool"], masker)}
        for call in calls
    ]
    return masked


def _masked_item(item: JsonObject, masker: Masker, name: Callable[[str, Masker], str]) -> dict[str, Json]:
    """Mask an event or a result, and its name by the function `name`. Its type is a fixed word and stays."""
    kept = {"type": item["type"]} | ({"name": name(item["name"], masker)} if "name" in item else {})
    return {key: kept[key] if key in kept else masker.mask_plain(value) for key, value in item.items()}


def _masked_figures(figures: JsonObject, masker: Masker) -> JsonObject:
    """Mask everything except numbers and tool names."""
    masked: dict[str, Json] = {}
    for key, value in figures.items():
        if key == "tool_names":
            masked[key] = [_masked_tool(name, masker) for name in value]
        elif key in ("tool_calls_by_name", "tool_durations"):
            masked[key] = {_masked_tool(name, masker): item for name, item in value.items()}
        else:
            masked[key] = masker.mask_plain(value)
    return masked


def _masked_tool(name: str, masker: Masker) -> str:
    return name if _TOOL_NAME.fullmatch(name) else masker.mask(name)


def safe_json(value: JsonObject) -> str:
    """Return `json_safe(value)` as compact JSON. Most data is safe already, so nothing has to look at its parts."""
    try:
        text = compact_json(value)
        text.encode()
    except (TypeError, ValueError):  # an object of another class, or a lone surrogate
        return compact_json(json_safe(value))
    return text


def json_safe(value: Any) -> Json:
    """Return plain JSON data for any value, so that every answer can be recorded.

    NaN and infinities become null, as in JavaScript. Lone surrogates, which UTF-8 cannot hold, become U+FFFD. Keys
    become strings. Objects of other classes become their text.
    """
    kind = type(value)
    if kind is str and value.isascii():
        return value
    if kind in _NO_TEXTS:
        return value
    if kind is dict:
        return {
            key if type(key) is str and key.isascii() else _key(key): item
            if type(item) in _NO_TEXTS or (type(item) is str and item.isascii())
            else json_safe(item)
            for key, item in value.items()
        }
    if isinstance(value, str):
        return _whole_text(value)
    if isinstance(value, list | tuple | set | frozenset):
        return [json_safe(item) for item in value]
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return json_safe(dict(value) if isinstance(value, Mapping) else str(value))


def stored_name(name: str) -> str:
    """Return a name as results files hold it. Those of files may be no UTF-8."""
    return name if name.isascii() else _whole_text(name)


def _whole_text(text: str) -> str:
    return _LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


def _key(key: object) -> str:
    safe = json_safe(key)
    return safe if isinstance(safe, str) else compact_json(safe)
