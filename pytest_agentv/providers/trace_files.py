"""Reads trace files, in which a target may write the steps to its answer."""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, get_args

from pytest_agentv.errors import ProviderError, locate
from pytest_agentv.loading.problems import did_you_mean
from pytest_agentv.models.base import ABSENT, Json, JsonObject
from pytest_agentv.models.masking.secrets import masked
from pytest_agentv.models.text import compact_json
from pytest_agentv.models.traces import TraceEvent, TraceEventType
from pytest_agentv.providers.base import ProviderResponse
from pytest_agentv.runtime.reading import read_regular_file

TRACE_LIMIT: Final = 64 * 2**20
"""Largest trace file in bytes."""

EVENT_TYPES: Final[tuple[TraceEventType, ...]] = get_args(TraceEventType)


def with_trace(response: ProviderResponse) -> ProviderResponse:
    """Return a response with the trace of the file that it names.

    If that file cannot be read, the response has an error instead, so that its answer and its cost stay in the record.
    """
    if response.trace_ref is None or response.trace is not None or response.error is not None:
        return response
    try:
        left_out: list[str] = []
        trace = read_trace(Path(response.trace_ref), left_out)
        return response.replace(trace=trace, warnings=(*response.warnings, *left_out))
    except ProviderError as error:
        return response.replace(error=str(error), error_kind=error.kind)


def read_trace(path: Path, left_out: list[str] | None = None) -> tuple[TraceEvent, ...]:
    """Read a file that holds a JSON list of events, or an event per line. Raises `ProviderError` (kind `config`).

    `left_out` gets a text for each invalid event that is left out.
    """
    try:
        text = read_regular_file(path, TRACE_LIMIT).decode("utf-8-sig", "replace")
    except (OSError, ValueError) as error:  # ValueError: the path holds a NUL character
        reason = getattr(error, "strerror", None) or error
        raise ProviderError(f"{locate(path, None)}: cannot read this trace file: {reason}", "config") from error
    return parse_events(_raw_events(path, text), [] if left_out is None else left_out)


def parse_events(values: Iterable[tuple[str, Json]], left_out: list[str]) -> tuple[TraceEvent, ...]:
    """Return the valid events of values with their places. An invalid one that may be a call raises `ProviderError`."""
    found = [_parse_event(where, value) for where, value in values]
    left_out += [fault for fault in found if isinstance(fault, str)]
    return tuple(event for event in found if isinstance(event, TraceEvent))


def _raw_events(path: Path, text: str) -> Iterator[tuple[str, Json]]:
    """Yield each event of a trace file with its place, for error messages."""
    if text.lstrip().startswith("["):
        events = _parse_json(path, text, first_line=1)
        yield from ((f"{locate(path, None)}: [{index}]", event) for index, event in enumerate(events))
        return
    # Not `splitlines`, which also splits at separators that JSON allows within strings.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield locate(path, number), _parse_json(path, line, first_line=number)


def _parse_json(path: Path, text: str, first_line: int) -> Json:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        where = locate(path, first_line + getattr(error, "lineno", 1) - 1)
        deep = isinstance(error, RecursionError)
        reason = getattr(error, "msg", "nested too deeply" if deep else "a number has too many digits")
        message = f"{where}: expected a JSON list of events, or one event per line: {reason}"
        raise ProviderError(message, "config") from error


def _parse_event(where: str, value: Json) -> TraceEvent | str:
    if not isinstance(value, dict):
        return f"{where}: {masked(compact_json(value))[:80]} was left out: an event is a JSON object"
    kind = value.get("type")
    if kind not in EVENT_TYPES:
        hint = did_you_mean(str(kind), EVENT_TYPES)
        shown, known = masked(repr(kind))[:80], ", ".join(EVENT_TYPES)
        fault = f"{where}: an event has the type {shown}: expected one of {known}{f' ({hint})' if hint else ''}"
        if kind is None or re.search("tool|call|func", str(kind), re.IGNORECASE):
            raise ProviderError(fault, "config")
        return f"{fault}; it was left out"
    texts = {key: value[key] for key in ("timestamp", "id", "name", "text") if isinstance(value.get(key), str)}
    return TraceEvent(
        kind,
        **texts,
        input=value.get("input", ABSENT),
        output=value.get("output", ABSENT),
        metadata=_object(value.get("metadata")),
    )


def _object(value: Json) -> JsonObject | None:
    return value if isinstance(value, dict) else None
