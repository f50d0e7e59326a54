"""Adds keys to the results of a run that are known only at its end, and leaves one line for each answer to a case."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from pytest_agentv.loading.problems import Problem
from pytest_agentv.models.base import Json, JsonObject
from pytest_agentv.models.options.values import OutputFormat
from pytest_agentv.reporting.readers import iter_entries, iter_texts
from pytest_agentv.reporting.writers import format_of, result_text
from pytest_agentv.runtime.files import LockedAppender

ItemKey: TypeAlias = tuple[str | None, str]
"""Node id and id of a case."""


def amend(path: Path, run_id: str, output_format: OutputFormat, additions: Mapping[ItemKey, JsonObject]) -> None:
    """Add keys to the last results of cases, at the end of their lines. Replaces keys that exist.

    Of lines that repeat a result, only the last one is kept, with the keys that only the earlier ones had. All other
    bytes stay as they are. The file changes in one step. Raises `FileError`, and then leaves the file as it was.
    """
    appender = LockedAppender(path)
    try:
        appender.rewrite(lambda: _pieces(path, run_id, output_format, additions))
    finally:
        appender.close()


def _pieces(
    path: Path, run_id: str, output_format: OutputFormat, additions: Mapping[ItemKey, JsonObject]
) -> Iterator[bytes]:
    last_lines, rewritten_by = _last_lines(path, run_id)
    changes = {line: additions[key] for key, line in last_lines.items() if key in additions}
    changes |= {line: {} for line in set(rewritten_by.values()) - changes.keys() - rewritten_by.keys()}
    earlier: dict[int, JsonObject] = {}
    """Earlier lines of a result, by the line that replaces them."""
    values = {*changes, *rewritten_by}
    entries = (entry for entry in iter_entries(path) if not isinstance(entry, Problem) and entry.line in values)
    for line, text in iter_texts(path):
        if line not in values:
            yield text
            continue
        value = {**earlier.pop(line, {}), **next(entries).value}
        if line in rewritten_by:
            earlier[rewritten_by[line]] = value
            continue
        kept = {name: each for name, each in value.items() if name not in changes[line]}
        yield result_text({**kept, **changes[line]}, format_of(path, output_format)).encode()


def _last_lines(path: Path, run_id: str) -> tuple[dict[ItemKey, int], dict[int, int]]:
    """Return the last line of each case, and for each line that a later one repeats, that later line."""
    last_lines: dict[ItemKey, int] = {}
    attempts: dict[tuple[Json, ...], int] = {}
    rewritten_by: dict[int, int] = {}
    for entry in iter_entries(path, run_id):
        if isinstance(entry, Problem):
            continue
        key = _key(entry.value)
        attempt = (*key, str(entry.value.get("timestamp")), str(entry.value.get("duration_ms")))
        if attempt in attempts:
            rewritten_by[attempts[attempt]] = entry.line
        last_lines[key] = attempts[attempt] = entry.line
    return last_lines, rewritten_by


def _key(value: JsonObject) -> ItemKey:
    node_id = value.get("node_id")
    return node_id if isinstance(node_id, str) else None, str(value.get("eval_id"))
