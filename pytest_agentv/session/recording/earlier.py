"""Finds what the runs that this one goes on with have for an item, whether it can be carried over or not."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_agentv.models.results import EvalResult


class EarlierResults:
    """The last results of items, and the single answers of their unfinished cases."""

    def __init__(self) -> None:
        self._source: Mapping[Any, EvalResult] | None = None
        self._by_item: dict[str | None, list[EvalResult]] = {}

    def of(self, node_id: str, last: Mapping[Any, EvalResult], files: Iterable[Path]) -> Sequence[EvalResult]:
        """Return those of an item, out of the `last` results of all cases and the answers beside the results files."""
        if last is not self._source:
            from pytest_agentv.reporting.answers import iter_answers  # noqa: PLC0415 - for resumed evals in Python only

            found: dict[str | None, list[EvalResult]] = {}
            for result in (*last.values(), *(answer for file in files for _, answer in iter_answers(file))):
                found.setdefault(result.node_id, []).append(result)
            self._source, self._by_item = last, found
        return self._by_item.get(node_id, ())
