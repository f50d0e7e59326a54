"""Views of invented runs, for tests of reports."""

from collections.abc import Iterable
from typing import Any

from pytest_agentv.model.results import EvalResult
from pytest_agentv.reports.judged_cases import case_of
from pytest_agentv.reports.reading import case_in, key_of, view_of
from pytest_agentv.reports.verdict import compared
from pytest_agentv.reports.view import RunView


def view(name: str, values: Iterable[dict[str, Any]], **changes: Any) -> RunView:
    """Return the view of a results file with these lines, which are not compared."""
    cases = {key_of(value): case_in(value | repeated(value)) for value in values}
    return compared(view_of(name, cases.values()), None).replace(**changes)


def view_of_results(*results: EvalResult, **changes: Any) -> RunView:
    """Return the view of some results."""
    return view_of("run.jsonl", list(map(case_of, results))).replace(**changes)


def repeated(value: dict[str, Any]) -> dict[str, Any]:
    """Return the key `repeat` of a result with all its figures, of which a test names some; nothing without it."""
    named = value.get("repeat")
    if named is None:
        return {}
    scores = named.get("scores", [value["score"]])
    planned = named.get("planned", named.get("asked", len(scores)))
    counts = {"planned": planned, "asked": planned, "judged": len(scores), "errors": 0, "needed": planned}
    rest = {"scores": scores, "passes": 0, "min_pass_rate": 1.0, "min_pass_rate_source": "case"}
    return {"repeat": counts | rest | named}
