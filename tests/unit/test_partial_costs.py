"""A cost of some answers or calls is nowhere shown as that of all, nor one of an earlier run as paid in this one."""

import csv
import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest

from pytest_agentv.engine.repeats import RepeatPlan, combine_answers, confirmed_by
from pytest_agentv.model.messages import ExecutionMetrics, JudgeMetrics, TokenUsage
from pytest_agentv.model.results import EvalResult
from pytest_agentv.model.secrets import Masker
from pytest_agentv.reports.ci import junit_xml, results_csv
from pytest_agentv.reports.failure import Look, footer
from pytest_agentv.reports.html.opened import cost_line
from pytest_agentv.reports.html.reading import cost_of
from pytest_agentv.reports.junit import result_properties
from pytest_agentv.reports.markdown import comment_lines
from pytest_agentv.reports.runs_table import combination_lines, figures_of, read_runs
from pytest_agentv.session.showing.item_outcomes import add_properties, forget_properties

PAID = ExecutionMetrics(TokenUsage(10, 5), 0.25)
SILENT = ExecutionMetrics(duration_ms=1.0)


def answer(metrics: ExecutionMetrics = PAID, **changes: Any) -> EvalResult:
    plain = EvalResult("t", "a", "shop", 1.0, (), (), "yes", "agent", threshold=0.5, attempts=1, status="pass")
    return plain.replace(execution_metrics=metrics, node_id="a.yaml::a", **changes)


def repeated(*metrics: ExecutionMetrics, **changes: Any) -> EvalResult:
    answers = [answer(each, **changes) for each in metrics]
    return combine_answers(answers, RepeatPlan(len(answers), 0.5, "file", stops_early=False), together=True)


PART = repeated(PAID, SILENT, PAID, SILENT)
WHOLE = repeated(PAID, PAID)
CONFIRMED = confirmed_by(WHOLE, [answer(PAID), answer(SILENT)], RepeatPlan(2, 0.5, "file", stops_early=False))
JUDGED = answer(judge_metrics=JudgeMetrics(4, cost_usd=0.5, priced=2))


def row_of(result: EvalResult) -> dict[str, str]:
    return next(csv.DictReader(io.StringIO(results_csv([result], Masker()))))


def junit_of(result: EvalResult) -> dict[str, str]:
    root = ElementTree.fromstring(junit_xml([result], Masker()))
    return {each.attrib["name"]: each.attrib["value"] for each in root.iter("property")}


def opened(result: EvalResult) -> str:
    value = result.to_plain()
    case: Any = SimpleNamespace(result=SimpleNamespace(value=value), cost=cost_of(value), duration_ms=None)
    return cost_line(case)


@pytest.mark.parametrize(("result", "known"), [(PART, "2 of 4 answers"), (CONFIRMED, "3 of 4 answers")])
def test_a_cost_of_some_answers_says_so_in_every_output(result: EvalResult, known: str) -> None:
    assert row_of(result).items() >= {"cost_known_for": known, "tokens_known_for": known}.items()
    properties = dict(result_properties(result))
    assert junit_of(result).items() >= {name: str(value) for name, value in properties.items()}.items()
    assert (properties["agentv_cost_known_for"], properties["agentv_tokens_known_for"]) == (known, known)
    usage = "30 (20 in, 10 out)" if result is PART else "45 (30 in, 15 out)"
    assert f"known for {known}, tokens: {usage} known for {known}" in footer(result, None, Look(Masker(), None))
    assert opened(result).count(f"known for {known}") == 2


def test_a_cost_of_some_calls_of_judges_says_so_in_every_output() -> None:
    assert row_of(JUDGED)["judge_cost_known_for"] == "2 of 4 calls"
    assert junit_of(JUDGED)["agentv_judge_cost_known_for"] == "2 of 4 calls"
    assert dict(result_properties(JUDGED))["agentv_judge_cost_known_for"] == "2 of 4 calls"
    assert "judges: $0.5000, known for 2 of 4 calls" in opened(JUDGED)


@pytest.mark.parametrize("result", [WHOLE, answer(), answer(SILENT), repeated(SILENT, SILENT)])
def test_a_cost_of_all_answers_or_of_none_says_nothing_more(result: EvalResult) -> None:
    texts = (*row_of(result), *junit_of(result), *dict(result_properties(result)))
    assert not [each for each in texts if "known_for" in each]
    assert "known for" not in footer(result, None, Look(Masker(), None)) + opened(result)


def test_a_rerun_forgets_of_how_many_answers_the_cost_was_known() -> None:
    item: Any = SimpleNamespace(user_properties=[])
    add_properties(item, [*result_properties(PART), *result_properties(JUDGED)])
    forget_properties(item)
    assert item.user_properties == []


class TestCachedAnswers:
    """What came from the cache was paid for before. Its first price is told as such, or not at all."""

    def test_reports_of_a_run_have_what_the_run_paid(self) -> None:
        cached = answer(cached=True)
        assert row_of(cached).items() >= {"cost_usd": "0.0", "cached": "True", "tokens_input": "10"}.items()
        assert junit_of(cached).items() >= {"agentv_cost_usd": "0.0", "agentv_cached": "true"}.items()
        assert dict(result_properties(cached)).items() >= {"agentv_cost_usd": 0.0, "agentv_cached": "true"}.items()
        assert "$" not in footer(cached, None, Look(Masker(), None)) + opened(cached)

    def test_a_cost_of_nothing_is_that_of_all_answers(self) -> None:
        cached = repeated(PAID, SILENT, cached=True)
        assert row_of(cached)["cost_usd"] == "0.0"
        assert "cost_known_for" not in row_of(cached)
        assert "agentv_cost_known_for" not in junit_of(cached)

    def test_a_cost_that_was_never_known_stays_unknown(self) -> None:
        assert row_of(answer(SILENT, cached=True))["cost_usd"] == ""
        assert "agentv_cached" not in junit_of(answer())
        assert "cached" not in row_of(answer())

    def test_the_table_of_targets_says_whose_price_was_paid_before(self, tmp_path: Path) -> None:
        first = [answer(combination="a", cached=True), answer(combination="b").replace(cached=None)]
        first[1] = first[1].replace(node_id="a.yaml::a@b")
        lines = list(combination_lines(first))
        assert lines[3:] == ["a: cost with 1 answer from the cache at the price first paid"]
        path = tmp_path / "r.jsonl"
        path.write_text("".join(f"{json.dumps(each.to_plain())}\n" for each in first))
        figures = figures_of(read_runs(path).by_target)
        assert (figures["a"].cached_cases, figures["b"].cached_cases) == (1, 0)

    def test_the_comment_says_whose_price_was_paid_before(self) -> None:
        base, now = [answer()], [answer(cached=True)]
        row = "| Cost, 1 from the cache at the price first paid | $0.2500 | $0.2500 | +0% |"
        assert row in list(comment_lines(now, base, Masker()))
        assert "| Cost | $0.2500 | $0.2500 | +0% |" in list(comment_lines(base, base, Masker()))
