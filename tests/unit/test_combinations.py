"""The table of combinations: figures, what is best, and the cases on which they disagree."""

import json
import math

import pytest

from pytest_agentv.engine.repeats import RepeatPlan, combine_answers
from pytest_agentv.model.messages import ExecutionMetrics, TokenUsage
from pytest_agentv.model.results import EvalResult
from pytest_agentv.reports.compare import align_runs, combination_lines, figures_of
from pytest_agentv.reports.reading import read_view


def result(combination, number, status="pass", ms=100.0, cost=None):
    metrics = ExecutionMetrics(token_usage=TokenUsage(10, 5), cost_usd=cost, duration_ms=ms)
    return EvalResult(
        timestamp="",
        eval_id=f"c{number}",
        dataset="d",
        score=float(status == "pass"),
        hits=(),
        misses=(),
        candidate_answer="",
        target=combination or "t",
        status=status,
        execution_metrics=metrics,
        node_id=f"a.yaml::c{number}@{combination}",
        combination=combination,
    )


def test_each_combination_has_a_row_and_the_best_of_each_column_is_marked():
    slow = [
        result("gpt", number, "fail" if number < 2 else "pass", ms=1000 + number, cost=0.02) for number in range(20)
    ]
    quick = [
        result("claude", number, "fail" if number == 5 else "pass", ms=number + 1, cost=0.01) for number in range(20)
    ]
    assert list(combination_lines([*slow, *quick])) == [
        "        cases  passed    mean      cost  tokens     p50     p95",
        "claude     20     19*  0.950*  $0.2000*    300   10 ms*  19 ms*",
        "gpt        20     18   0.900   $0.4000     300   1.0 s   1.0 s",
        "They disagree on 3 of 20 cases:",
        "  a.yaml::c0: claude pass, gpt fail",
        "  a.yaml::c1: claude pass, gpt fail",
        "  a.yaml::c5: claude fail, gpt pass",
    ]


def test_a_run_with_errors_is_the_best_in_no_column_but_those_of_counts():
    broken = [result("a", number, "error" if number else "pass", ms=10, cost=0.01) for number in range(4)]
    whole = [result("b", number, "fail", ms=20, cost=0.02) for number in range(4)]
    assert list(combination_lines([*broken, *whole]))[:3] == [
        "   cases  errors  passed    mean      cost  tokens     p50     p95",
        "a      4      3       1*  1.000   $0.0400      60   10 ms   10 ms",
        "b      4      0*      0   0.000   $0.0800      60   20 ms   20 ms",
    ]


def test_a_sum_that_leaves_out_cases_is_not_the_best_and_says_so():
    """The cost of one case of four was marked as the lowest cost of all."""
    part = [result("a", number, cost=None if number else 0.01) for number in range(4)]
    whole = [result("b", number, cost=0.02) for number in range(4)]
    assert [" ".join(line.split()) for line in combination_lines([*part, *whole])] == [
        "cases passed mean cost tokens p50 p95",
        "a 4 4 1.000 $0.0100 60 100 ms 100 ms",
        "b 4 4 1.000 $0.0800 60 100 ms 100 ms",
        "a: cost known for 1 of 4 cases",
    ]


def test_the_cost_of_some_answers_of_a_case_is_not_that_of_the_case(tmp_path):
    """The cost of one answer of three was marked as the lowest cost of all."""
    plan = RepeatPlan(3, 0.5, "file", stops_early=False)
    part = [combine_answers([result("a", 1, cost=cost) for cost in (0.01, None, None)], plan, together=True)]
    part += [result("a", number, cost=0.01) for number in (2, 3)]
    whole = [result("b", number, cost=0.02) for number in (1, 2, 3)]
    lines = [" ".join(line.split()) for line in combination_lines([*part, *whole])]
    assert lines[1].startswith("a 3 3 1.000 $0.0200 ")
    assert lines[3:] == ["a: cost known for 2 of 3 cases"]
    path = tmp_path / "r.jsonl"
    path.write_text("".join(f"{json.dumps(each.to_plain())}\n" for each in part))
    [outcomes] = align_runs({"r": read_view(path)}).runs.values()
    assert figures_of({"a": outcomes})["a"].cost_cases == 2


@pytest.mark.parametrize("odd", [-1, math.inf, math.nan, 1e308, "one"])
def test_amounts_that_are_none_are_not_known_of_the_runs_of_files(tmp_path, odd):
    """As other programs write them. Tokens of which a part is no number were known to be the rest."""
    metrics = {"cost_usd": odd, "duration_ms": odd, "token_usage": {"input": odd, "output": 1}}
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps({**result("a", 1).to_plain(), "execution_metrics": metrics}) + "\n")
    [outcomes] = align_runs({"r": read_view(path)}).runs.values()
    found = figures_of({"a": outcomes})["a"]
    assert (found.cost_usd, found.tokens, found.median_ms, found.token_cases) == (None, None, None, 0)


def test_long_lists_of_disagreements_are_cut_and_unknown_figures_are_dashes():
    results = [
        result(name, number, "pass" if name == "a" else "error", ms=None) for name in "ab" for number in range(12)
    ]
    lines = list(combination_lines(results))
    assert lines[-1] == "  … and 2 more"
    assert [line.split() for line in lines[1:3]] == [
        ["a", "12", "0*", "12*", "1.000", "-", "180", "-", "-"],
        ["b", "12", "12", "0", "-", "-", "180", "-", "-"],
    ]
