"""The section EVALUATION STATISTICS, and all that must be said so that nobody is misled."""

import re

import pytest
from verdict_cases import case, run_of

from pytest_agentv.model.results import EvalResult
from pytest_agentv.reports.figures import short_list
from pytest_agentv.reports.gates import baseline_gate, gate_lines
from pytest_agentv.reports.reading import baseline_of
from pytest_agentv.reports.verdict import compare_with_baseline, run_statistics, statistics_lines, tool_hint

NAME = "agentv.baseline.jsonl"


def section(new, old=None, *, gate="cases", verbose=False, no_verdict=None):
    if old is None:
        statistics, gates = run_statistics(new), []
    else:
        statistics = compare_with_baseline(new, baseline_of(old), NAME, margin=0.05, is_confirming=True)
        gates = list(gate_lines([baseline_gate(statistics, gate)], f"{NAME}::regression"))
    lines = [*statistics_lines(statistics, verbose=verbose, no_verdict=no_verdict), *gates]
    assert all(len(line.text) <= 80 for line in lines), "80 columns"
    return "\n".join(line.text for line in lines)


def test_an_outage_shows_how_few_cases_are_compared():
    new = [*run_of([5] * 46), *(each.replace(scores=(), status="error") for each in run_of([5] * 48)[46:])]
    text = section(new, run_of([4] * 48))
    assert "on 46 of 48 cases: the others could not be judged" in text
    assert text.endswith("GATE: FAILED, 2 cases could not be judged")


@pytest.mark.parametrize("eval_id", ["a", "a@x"])
def test_cases_of_one_id_are_told_apart_by_their_targets(eval_id):
    targets = ("gpt", "claude")
    nodes = [f"evals/a.yaml::{eval_id.replace('@', f'@{target}-')}" for target in targets]
    new = [case(eval_id, 0, node_id=node, target=target) for node, target in zip(nodes, targets, strict=True)]
    text = section([*new, case("b", 0)], [case(eval_id, 5, target=target) for target in targets] + [case("b", 5)])
    for name in (f"{eval_id} (gpt)", f"{eval_id} (claude)", "b"):
        assert f"BROKEN         {name}   5/5 -> 0/5" in text


def test_suspects_that_could_not_be_asked_again_are_named():
    text = " ".join(section([case("fixture", 0), *run_of([5] * 2)], [case("fixture", 5), *run_of([5] * 2)]).split())
    assert "BROKEN fixture 5/5 -> 0/5 q 0.012" in text
    reason = "these could not be asked again, so their answers of this run decide: fixture"
    assert f"Not confirmed {reason} GATE: FAILED, 1 case is broken" in text


def test_failing_and_passing_answers_that_part_by_a_tool():
    tools = (("lookup_order",), (), ("lookup_order",), (), ())
    flaky = case("refund", 2, scores=(1.0, 0.0, 1.0, 0.0, 0.0), tools=tools)
    hint = "failing answers skip `lookup_order` (3 of 3), passing ones never (0 of 2)"
    assert tool_hint(flaky) == hint
    assert f"Hint           refund: {hint}" in section([flaky, case("b", 5)]).replace("\n               ", " ")
    calls = tuple(() if tool else ("delete",) for tool in tools)
    assert (
        tool_hint(flaky.replace(tools=calls)) == "failing answers call `delete` (3 of 3), passing ones never (0 of 2)"
    )


def test_the_first_hints_are_shown_and_the_others_counted():
    tools = (("lookup",), (), (), (), ())
    flaky = [case(f"c{number}", 1, tools=tools) for number in range(12)]
    text = section(flaky)
    assert text.count("failing answers skip `lookup`") == 3
    assert "               ... 9 more: --agentv-verbose" in text.splitlines()
    assert section(flaky, verbose=True).count("failing answers skip `lookup`") == 12
    assert "more: --agentv" not in section(flaky[:3])


@pytest.mark.parametrize(
    "changes",
    [
        {"tools": None},
        {"passes": 1, "tools": (("a",), (), ("a",), (), ())},
        {"tools": (("a",),) * 5},
        {"tools": ((), ("a",), (), (), ())},
    ],
)
def test_where_no_tool_parts_the_answers_there_is_no_hint(changes):
    assert tool_hint(case("a", 2, scores=(1.0, 0.0, 1.0, 0.0, 0.0)).replace(**changes)) is None


def test_a_target_that_was_not_run_is_named():
    both = [case("a", 5), case("b", 5), case("a", 5, target="other"), case("b", 5, target="other")]
    text = section([case("a", 5), case("b", 5)], both)
    assert "Gone 2         a (other), b (other)" in text
    assert "stale baseline: 2 cases are gone: the run has no case of the target other" in " ".join(text.split())
    text = section([case("a", 5, target="new")], [case("a", 5)])
    assert "no case of it is comparable: the run has no case of the target azure" in " ".join(text.split())


def test_a_list_ends_in_time():
    names = [f"case-{n} 3/5" for n in range(20)]
    line = short_list(names, verbose=False, used=7)
    assert len(line) <= 73
    assert line.endswith("more: --agentv-verbose")
    assert short_list(names, verbose=True).count(",") == 19
    assert short_list(["one"], verbose=False) == "one"


def test_a_rate_that_is_not_100_percent_does_not_look_like_it():
    assert "Pass rate      99.95 %  95 % CI:" in section(run_of([1] * 2099 + [0], 1))
    assert "Pass rate      100.0 %  95 % CI:" in section(run_of([1] * 2100, 1))


def test_a_drop_of_few_cases_is_worse_and_no_regression():
    text = section(run_of([0, 0, 0, 0, 5]), run_of([5] * 5))
    assert re.search(
        r"Difference .* 95 % CI: -\S+ to -\S+  worse\n +4 cases differ .*\n +fewer than 5 cases differ", text
    )
    assert "regressed:" not in text


def of_variant(name, number, passes):
    result = EvalResult("t", f"c{number}", "d", 1.0, (), (), "", name, combination=name)
    return case(f"c{number}@{name}", passes, node_id=f"evals/a.yaml::c{number}@{name}", target=name, result=result)


def test_a_matrix_has_a_rate_for_each_variant_and_none_of_all():
    cases = [of_variant(name, number, passes) for name, passes in (("gpt", 5), ("pi", 2)) for number in range(6)]
    text = section(cases)
    assert re.search(r"Pass rate +gpt 100.0 %   95 % CI: \S+ to 100.0\n +pi 40.0 %   95 % CI: ", text)
    assert "-60.0 to gpt, 95 % CI: " in text
    assert "70.0 %" not in text, "that of all"
    assert "gpt 100.0 %" not in section([*cases, case("alone", 0)])
