"""Views of invented runs, for tests of reports."""

from collections.abc import Iterable
from typing import Any

from pytest_agentv.model.results import EvalResult
from pytest_agentv.reports.judged_cases import case_of
from pytest_agentv.reports.reading import case_in, compared, key_of, view_of
from pytest_agentv.reports.view import RunView


def view(name: str, values: Iterable[dict[str, Any]], **changes: Any) -> RunView:
    """Return the view of a results file with these lines, which are not compared."""
    cases = {key_of(value): case_in(value) for value in values}
    return compared(view_of(name, cases.values()), None).replace(**changes)


def view_of_results(*results: EvalResult, **changes: Any) -> RunView:
    """Return the view of some results."""
    return view_of("run.jsonl", list(map(case_of, results))).replace(**changes)
