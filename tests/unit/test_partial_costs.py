"""A cost of some calls is nowhere shown as that of all, nor one of an earlier run as paid in this one."""

import csv
import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest
from views import view_of_results

from pytest_agentv.model.messages import Costs, ExecutionMetrics, TokenUsage
from pytest_agentv.model.results import EvalResult, Spent
from pytest_agentv.model.secrets import Masker
from pytest_agentv.reports.ci import comment_lines, junit_xml, results_csv
from pytest_agentv.reports.compare import align_runs, combination_lines, figures_of
from pytest_agentv.reports.failure import Look, footer
from pytest_agentv.reports.figures import result_properties
from pytest_agentv.reports.html.page import cost_line
from pytest_agentv.reports.reading import read_view
from pytest_agentv.reports.summary import total_figures
from pytest_agentv.session.showing.item_outcomes import add_properties, forget_properties

PAID = ExecutionMetrics(TokenUsage(10, 5), 0.25)
SILENT = ExecutionMetrics(duration_ms=1.0)
CALL = Costs.of_call(PAID.token_usage, PAID.cost_usd)


def answer(metrics: ExecutionMetrics = PAID, **changes: Any) -> EvalResult:
    plain = EvalResult("t", "a", "shop", 1.0, (), (), "yes", "agent", threshold=0.5, attempts=1, status="pass")
    return plain.replace(execution_metrics=metrics, node_id="a.yaml::a", **changes)


def spent(*calls: Costs, judge: Costs | None = None) -> EvalResult:
    """Return the result of a case for which calls were paid, of which it shows one."""
    return answer(spent=Spent(Costs.added(calls), judge))


PART = spent(CALL, Costs(1), CALL, Costs(1))
JUDGED = spent(CALL, judge=Costs(4, 0.5, 2, 30, 10, 3))


def row_of(result: EvalResult) -> dict[str, str]:
    return next(csv.DictReader(io.StringIO(results_csv(view_of_results(result), Masker()))))


def junit_of(result: EvalResult) -> dict[str, str]:
    root = ElementTree.fromstring(junit_xml(view_of_results(result), Masker()))
    return {each.attrib["name"]: each.attrib["value"] for each in root.iter("property")}


def opened(result: EvalResult) -> str:
    return cost_line(result.replace(execution_metrics=None))


def test_a_cost_of_some_calls_says_so_in_every_output() -> None:
    known = "2 of 4 calls"
    paid = {"cost_usd": "0.5", "cost_known_for": known, "tokens_input": "20", "tokens_known_for": known}
    assert row_of(PART).items() >= paid.items()
    properties = dict(result_properties(PART))
    assert junit_of(PART).items() >= {name: str(value) for name, value in properties.items()}.items()
    assert (properties["agentv_cost_usd"], properties["agentv_cost_known_for"]) == (0.5, known)
    assert (properties["agentv_tokens_output"], properties["agentv_tokens_known_for"]) == (10, known)
    text = f"$0.5000 known for {known}, tokens: 30 (20 in, 10 out) known for {known}"
    assert text in footer(PART, None, Look(Masker(), None))
    assert f"$0.5000, known for {known} · 20 tokens in, 10 out, known for {known}" in opened(PART)
    [money, tokens] = total_figures([PART, spent(CALL)], None)
    assert (money[1], tokens[1]) == (
        "$0.7500, known for 3 of 5 calls",
        "45 (30 in, 15 out), known for 3 of 5 calls",
    )


def test_a_cost_of_some_calls_of_judges_says_so_in_every_output() -> None:
    assert row_of(JUDGED)["judge_cost_known_for"] == "2 of 4 calls"
    assert junit_of(JUDGED)["agentv_judge_cost_known_for"] == "2 of 4 calls"
    assert dict(result_properties(JUDGED))["agentv_judge_cost_known_for"] == "2 of 4 calls"
    text = "judges: $0.5000, known for 2 of 4 calls, 30 tokens in, 10 out, known for 3 of 4 calls"
    assert text in opened(JUDGED)
    assert [value for _, value in total_figures([JUDGED], None)] == [
        "$0.2500; $0.5000 for judges, known for 2 of 4 calls",
        "15 (10 in, 5 out); 40 (30 in, 10 out) for judges, known for 3 of 4 calls",
    ]


@pytest.mark.parametrize("result", [spent(CALL, CALL), spent(Costs(2)), answer(), answer(SILENT)])
def test_a_cost_of_all_calls_or_of_none_says_nothing_more(result: EvalResult) -> None:
    texts = (*row_of(result), *junit_of(result), *dict(result_properties(result)))
    assert not [each for each in texts if "known_for" in each]
    assert "known for" not in footer(result, None, Look(Masker(), None)) + opened(result)


def test_a_rerun_forgets_of_how_many_calls_the_cost_was_known() -> None:
    item: Any = SimpleNamespace(user_properties=[])
    add_properties(item, [*result_properties(PART), *result_properties(JUDGED)])
    forget_properties(item)
    assert item.user_properties == []


class TestCachedAnswers:
    """What came from the cache was paid for before. Its first price is told as such, or not at all."""

    def test_reports_of_a_run_have_what_the_run_paid(self) -> None:
        cached = answer(cached=True)
        assert row_of(cached).items() >= {"cost_usd": "0.0", "cached": "True"}.items()
        assert "tokens_input" not in row_of(cached)
        assert junit_of(cached).items() >= {"agentv_cost_usd": "0.0", "agentv_cached": "true"}.items()
        assert dict(result_properties(cached)).items() >= {"agentv_cost_usd": 0.0, "agentv_cached": "true"}.items()
        assert "$" not in footer(cached, None, Look(Masker(), None)) + opened(cached)

    def test_what_the_other_answers_of_a_case_cost_is_paid(self) -> None:
        mixed = spent(CALL).replace(execution_metrics=ExecutionMetrics(TokenUsage(20, 10), 0.5))
        assert row_of(mixed).items() >= {"cost_usd": "0.25", "tokens_input": "10"}.items()

    def test_only_a_cost_that_was_paid_and_not_reported_is_unknown(self) -> None:
        assert row_of(answer(SILENT, cached=True))["cost_usd"] == "0.0"
        assert "cost_usd" not in row_of(answer(SILENT))
        assert "agentv_cached" not in junit_of(answer())
        assert row_of(answer())["cached"] == ""

    def test_the_table_of_targets_says_whose_price_was_paid_before(self, tmp_path: Path) -> None:
        first = [answer(combination="a", cached=True), answer(combination="b").replace(cached=None)]
        first[1] = first[1].replace(node_id="a.yaml::a@b")
        lines = list(combination_lines(first))
        assert lines[3:] == ["a: cost with 1 answer from the cache at the price first paid"]
        path = tmp_path / "r.jsonl"
        path.write_text("".join(f"{json.dumps(each.to_plain())}\n" for each in first))
        figures = figures_of(align_runs({"r": read_view(path)}).runs)
        assert (figures["r a"].cached_cases, figures["r b"].cached_cases) == (1, 0)

    def test_the_comment_says_whose_price_was_paid_before(self) -> None:
        base, now = view_of_results(answer()), view_of_results(answer(cached=True))
        row = "| Cost, 1 from the cache at the price first paid | $0.2500 | $0.2500 | +0% |"
        assert row in list(comment_lines(now, base, Masker()))
        assert "| Cost | $0.2500 | $0.2500 | +0% |" in list(comment_lines(base, base, Masker()))
