"""What a report reads: the last line of a case, baselines, files of other tools."""

from pathlib import Path

import pytest
import report_runs
from thorough import varied
from views import repeated, view

from pytest_agentv.reports.html.page import report_text
from pytest_agentv.reports.reading import baseline_of, baseline_text, read_view
from pytest_agentv.reports.verdict import compared
from pytest_agentv.reports.view import RunView


def run_from(*values: dict[str, object]) -> RunView:
    return view("run.jsonl", [{"eval_id": "a", "score": 1, "threshold": 1, **value} for value in values])


def test_lines_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text('{"eval_id": "a", "score": 1}\nno json\n{"score": 1}\n', "utf-8")
    run = read_view(path)
    assert len(run.results) == 1
    assert len(run.problems) == 2
    assert "has no eval_id" in run.problems[1]


def test_a_baseline_has_cases_and_no_results(tmp_path: Path) -> None:
    run = view("run.jsonl", report_runs.results(3))
    (tmp_path / "base.jsonl").write_text(baseline_text(baseline_of(run.cases)), "utf-8")
    base = read_view(tmp_path / "base.jsonl")
    assert base.results == ()
    changes = compared(run, base).changes
    assert {change.word for change in changes.values()} == {"same"}
    assert all(change.before is None for change in changes.values())


def test_changes() -> None:
    figures = {"planned": 5, "asked": 5, "judged": 5, "errors": 0, "scores": [1] * 5, "passes": 5, "needed": 5}
    fresh = repeated({"score": 0, "repeat": {"scores": [0] * 10}})["repeat"]
    worse = figures | {"scores": [0] * 5, "passes": 0, "confirm": fresh}
    base = run_from({"repeat": figures}, {"eval_id": "b", "case_hash": "1"}, {"eval_id": "gone"})
    run = run_from({"repeat": worse}, {"eval_id": "b", "case_hash": "2"}, {"eval_id": "c"})
    changes = compared(run, base).changes
    assert {key: change.word for key, change in changes.items()} == {"a": "broken", "b": "changed", "c": "new"}
    broken = changes["a"]
    assert broken.short == "5/5 → 0/5, again 0/10"
    assert "unlikely to be chance" in broken.text
    assert broken.before is not None
    assert changes["b"].before is not None, "its answer can be looked at, though it is not compared"


@pytest.mark.parametrize("value", [None, "text", varied(5), [1], {"a": {"b": 1}}, varied(True)])
def test_values_of_other_shapes_count_as_missing(value: object) -> None:
    keys = (
        *("candidate_answer", "evaluator_results", "lm_provider_request", "execution_metrics", "answers", "reasoning"),
        *("output_messages", "retrieved_context", "line", "row", "expected_outcome", "reference_answer", "duration_ms"),
        *("error_detail", "hits", "misses", "timestamp", "cost_source", "attempts", "trace_summary", "log_file"),
    )
    run = run_from(dict.fromkeys(keys, value))
    assert "</html>" in report_text(run)
