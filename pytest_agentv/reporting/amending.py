"""Adds to the results of a run what is known at its end only, and leaves one line for each answer to a case."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from pytest_agentv.loading.problems import Problem
from pytest_agentv.models.base import Json, JsonObject
from pytest_agentv.models.options.values import OutputFormat
from pytest_agentv.reporting.readers import iter_entries, iter_texts
from pytest_agentv.reporting.serialization import json_safe
from pytest_agentv.reporting.writers import format_of, result_text
from pytest_agentv.runtime.files import LockedAppender

ItemKey: TypeAlias = tuple[str | None, str]
"""Node id and id of a case."""


def amend(path: Path, run_id: str, output_format: OutputFormat, additions: Mapping[ItemKey, JsonObject]) -> None:
    """Add keys to the last result of cases of a run, at the end of its line; a key that is there is replaced.

    Of lines that say anew what an earlier one said, only the last is kept, with what it left out of the earlier one.
    All else stays as it is, byte by byte. The file changes in one step. Raises `FileError`, and leaves it then.
    """
    appender = LockedAppender(path)
    try:
        appender.rewrite(lambda: _pieces(path, run_id, output_format, additions))
    finally:
        appender.close()


def _pieces(
    path: Path, run_id: str, output_format: OutputFormat, additions: Mapping[ItemKey, JsonObject]
) -> Iterator[bytes]:
    last, followers = _last_words(path, run_id)
    changes = {line: additions[key] for key, line in last.items() if key in additions}
    changes |= {line: {} for line in set(followers.values()) - changes.keys() - followers.keys()}
    left: dict[int, JsonObject] = {}
    """Earlier words, by the line that takes their place."""
    values = {*changes, *followers}
    entries = (entry for entry in iter_entries(path) if not isinstance(entry, Problem) and entry.line in values)
    for line, text in iter_texts(path):
        if line not in values:
            yield text
            continue
        value = {**left.pop(line, {}), **next(entries).value}
        if line in followers:
            left[followers[line]] = value
            continue
        kept = {name: each for name, each in value.items() if name not in changes[line]}
        yield result_text(json_safe({**kept, **changes[line]}), format_of(path, output_format)).encode()


def _last_words(path: Path, run_id: str) -> tuple[dict[ItemKey, int], dict[int, int]]:
    """Return the line of the last word on each case, and of lines that are said anew, the line that does so."""
    last: dict[ItemKey, int] = {}
    attempts: dict[tuple[Json, ...], int] = {}
    followers: dict[int, int] = {}
    for entry in iter_entries(path, run_id):
        if isinstance(entry, Problem):
            continue
        key = _key(entry.value)
        attempt = (*key, str(entry.value.get("timestamp")), str(entry.value.get("duration_ms")))
        if attempt in attempts:
            followers[attempts[attempt]] = entry.line
        last[key] = attempts[attempt] = entry.line
    return last, followers


def _key(value: JsonObject) -> ItemKey:
    node_id = value.get("node_id")
    return node_id if isinstance(node_id, str) else None, str(value.get("eval_id"))
