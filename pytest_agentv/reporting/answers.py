"""Reads the single answers of repeated cases, which a run keeps beside its results file until its end."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from pytest_agentv.errors import AgentvError
from pytest_agentv.loading.problems import Problem
from pytest_agentv.models.base import Json
from pytest_agentv.models.results import EvalResult
from pytest_agentv.reporting.checked import check_entry
from pytest_agentv.reporting.readers import Entry, iter_entries
from pytest_agentv.reporting.writers import answers_path

NUMBER: Final = "answer"
"""The key of an answer's number, 0-based, beside those of a result."""


def iter_answers(results_path: Path, run_id: str | None = None) -> Iterator[tuple[int, EvalResult]]:
    """Yield the answers that were kept beside a results file, or those of one run, with their numbers.

    Skips what cannot be read, such as the half line of a killed writer: such an answer is asked again.
    """
    return ((number, result) for _, number, result in iter_answer_lines(results_path, run_id))


def iter_answer_lines(results_path: Path, run_id: str | None = None) -> Iterator[tuple[int, int, EvalResult]]:
    """Yield the same as `iter_answers`, with line numbers from 1."""
    path = answers_path(results_path)
    if not path.is_file():
        return
    with suppress(AgentvError):
        for entry in iter_entries(path, run_id):
            if isinstance(entry, Problem):
                continue
            value: dict[str, Json] = dict(entry.value)
            number = value.pop(NUMBER, None)
            checked = check_entry(path, Entry(entry.line, value))
            if isinstance(number, int) and not isinstance(checked, Problem):
                yield entry.line, number, checked.result
