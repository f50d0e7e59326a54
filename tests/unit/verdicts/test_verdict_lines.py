"""The section EVALUATION STATISTICS, and all that must be said so that nobody is misled."""

import pytest
from verdict_cases import case, run_of

from pytest_agentv.reports.baseline import baseline_of
from pytest_agentv.reports.columns import interval_bar, plain, short_list
from pytest_agentv.reports.gates import baseline_gate, gate_lines
from pytest_agentv.reports.judged_cases import Confirmation
from pytest_agentv.reports.verdict import compare_with_baseline, run_statistics, tool_hint
from pytest_agentv.reports.verdict_lines import statistics_lines
from pytest_agentv.stats.intervals import Interval

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


def suite_of_48():
    """Two cases are broken, some are flaky."""
    old = run_of([5] * 36 + [4] * 6 + [3] * 6)
    new = run_of([5] * 34 + [4, 3, 4, 5, 3, 4, 2, 5, 4, 3, 4, 2, 5, 0])
    broken = {"checkout-vat": 5, "returns": 20}
    for name, index in broken.items():
        old[index] = case(name, 5)
        new[index] = case(name, 0, confirmation=Confirmation(10, 10, 0))
    return new, old


SECTION = """\
EVALUATION STATISTICS
48 cases, 5 answers each; 20 more to confirm 2 suspects
Pass rate      86.7 %   95 %: 76.8 to 92.8   other cases of this kind
                        95 %: 83.5 to 89.3   these cases, asked again
Always pass 35, sometimes 10 (flaky), never 3; pass@5 93.8 %, pass^5 72.9 %
Flaky: c35 3/5, c38 3/5, c40 2/5, c43 3/5, c45 2/5, ... 5 more: --agentv-verbose

Against agentv.baseline.jsonl (48 cases x 5, target azure): 48 compared
Difference     -5.8     95 %: -13.1 to +1.4  cannot tell
               [--------o-----|--]  13 cases differ (8 worse, 5 better)
               a drop of 10 points would be seen in 4 of 5 runs; for 5 points:
               198 cases, see `agentv plan`
BROKEN         checkout-vat   5/5 -> 0/5, again 0/10    q 0.008
BROKEN         returns   5/5 -> 0/5, again 0/10    q 0.008
May be chance  c47 3/5 -> 0/5, c35 5/5 -> 3/5, ... 4 more: --agentv-verbose
GATE: FAILED, 2 cases are broken"""


def test_the_section_of_a_run_with_repeats_and_a_baseline():
    assert section(*suite_of_48()) == SECTION


def test_a_run_whose_later_answers_fail_says_that_they_depend_on_their_number():
    told = "The answers seem to depend on their number: --agentv-stop=never asks for all"
    forgetting = [case(f"c{n}", 1, 2).replace(stopped="fail", asked=2) for n in range(5)]
    assert told in section(forgetting)
    assert "Pass rate      50.0 %" in section(forgetting)
    assert told in section([*forgetting, *run_of([2] * 10, 2)])
    assert told not in section(forgetting[:4]), "so few may be chance"
    assert told not in section([*forgetting[:2], *run_of([2] * 10, 2)]), "so few among more may be chance"
    first = [case(f"d{n}", 0, 1).replace(stopped="fail", asked=2) for n in range(5)]
    assert told not in section([*forgetting, *first])


def test_verbose_leaves_nothing_out_and_has_a_row_for_each_part():
    new, old = suite_of_48()
    tagged = [each.replace(tags=("vat",) if n < 6 else ()) for n, each in enumerate(new)]
    text = section(tagged, old, verbose=True).replace("\n               ", " ")
    assert "more:" not in text
    assert "Flaky: c35 3/5, c38 3/5, c40 2/5, c43 3/5" in text
    assert "  48   86.7 %    -5.8  q 0.15  file evals/a.yaml" in text
    assert "   6   83.3 %   -16.7  q 0.50  tag vat" in text


def test_a_row_is_red_only_where_chance_hardly_explains_it():
    new = [each.replace(tags=("bad",) if n < 10 else ("good",)) for n, each in enumerate(run_of([0] * 10 + [5] * 10))]
    statistics = compare_with_baseline(new, baseline_of(run_of([5] * 20)), NAME, margin=0.05, is_confirming=True)
    rows = {line.text.split("  ")[-1]: line.style for line in statistics_lines(statistics, verbose=True)}
    assert rows["tag bad"] == "fail"
    assert rows["tag good"] == "plain"


def test_one_answer_per_case_has_the_first_interval_only_and_flips_may_be_chance():
    assert section(run_of([0, 1, 1, 1], 1), run_of([1, 1, 1, 1], 1)) == (
        "EVALUATION STATISTICS\n"
        "4 cases, 1 answer each\n"
        "Pass rate      75.0 %   95 %: 30.1 to 95.4   other cases of this kind\n"
        "\n"
        "Against agentv.baseline.jsonl (4 cases x 1, target azure): 4 compared\n"
        "Difference     -25.0    95 %: -69.9 to +36.2  cannot tell\n"
        "               [-------o---|-----]  1 case differs (1 worse, 0 better)\n"
        "               so few cases would hardly show any drop; for 5 points: 785 cases,\n"
        "               see `agentv plan`\n"
        "May be chance  c0 1/1 -> 0/1\n"
        "GATE: not failed, cannot tell: so few cases would hardly show any drop"
    )


def test_cannot_tell_is_neither_no_difference_nor_a_success():
    text = section(run_of([5] * 20), run_of([5] * 20))
    assert "cannot tell" in text
    assert "a drop of 23 points would be seen in 4 of 5 runs" in text
    for word in ("no difference", "passed", "not worse", "✓", "✅", "safe"):
        assert word not in text


def test_repeats_are_no_new_cases():
    """Two intervals, in plain words: ten times the answers make the second narrow, and not the first."""
    few, many = (section(run_of([k, k, k // 2, k // 2], k)).splitlines() for k in (4, 40))
    assert few[2] == many[2] == "Pass rate      75.0 %   95 %: 27.6 to 95.9   other cases of this kind"
    assert few[3] != many[3]
    assert many[3].endswith("these cases, asked again")


def test_answers_that_are_always_the_same_text_are_told():
    text = "The answers were always the same text: repeats tell nothing here"
    same = [each.replace(has_same_texts=True) for each in run_of([5, 0, 5])]
    assert text in section(same)
    assert text not in section([*same, case("other", 5, has_same_texts=False)])
    assert text not in section(run_of([1, 1], 1)), "one answer says nothing of repeats"
    assert text in section([*same, case("once", 1, 1)]), "nor against what the others say"


def test_an_outage_shows_what_the_other_cases_could_have_been():
    new = [*run_of([5] * 46), *(each.replace(scores=(), is_error=True) for each in run_of([5] * 48)[46:])]
    text = section(new, run_of([4] * 48))
    assert "on 46 of 48 cases; +15.8 to +20.0 whatever the other 2 are" in text
    assert text.endswith("GATE: FAILED, 2 cases could not be judged")


def test_a_regression_asks_whether_anything_changed_at_all():
    text = " ".join(section(run_of([3] * 20), run_of([5] * 20)).split())
    assert "if nothing changed, write the baseline anew (--agentv-update-baseline)" in text


@pytest.mark.parametrize("eval_id", ["a", "a@x"])
def test_cases_of_one_id_are_told_apart_by_their_targets(eval_id):
    """With a matrix of more than targets, the line named only the id."""
    targets = ("gpt", "claude")
    nodes = [f"evals/a.yaml::{eval_id.replace('@', f'@{target}-')}" for target in targets]
    new = [case(eval_id, 0, node_id=node, target=target) for node, target in zip(nodes, targets, strict=True)]
    text = section([*new, case("b", 0)], [case(eval_id, 5, target=target) for target in targets] + [case("b", 5)])
    for name in (f"{eval_id} (gpt)", f"{eval_id} (claude)", "b"):
        assert f"BROKEN         {name}   5/5 -> 0/5" in text


def of_file(file, name, passes, **changes):
    return case(name, passes, **changes).replace(name=f"{file}::{name}", eval_file=file)


def test_cases_of_one_id_are_told_apart_by_their_files():
    """A case that is gone had the name of one that is there."""
    old = [of_file(f"{letter}.yaml", "price", 5) for letter in "abc"]
    new = [of_file("a.yaml", "price", 5), of_file("b.yaml", "price", 3), of_file("c.yaml", "cost", 5)]
    text = section(new, old)
    for line in ("Flaky: b.yaml::price 3/5", "May be chance  b.yaml::price 5/5 -> 3/5"):
        assert line in text
    for line in ("Gone 1         c.yaml::price", "New 1          cost"):
        assert line in text


def of_test(item, passes, **changes):
    name = item.rpartition("::")[2]
    return of_file("test_a.py", name, passes, node_id=f"test_a.py::{item}", **changes)


def test_tests_of_one_name_are_told_apart_by_their_classes():
    """The test of one class is there, and that of the other is gone: each file has one of that name only."""
    text = section([of_test("TestB::test_x", 5), of_test("test_y", 3)], [of_test("TestA::test_x", 5)])
    assert "Gone 1         TestA::test_x\n" in text
    assert "New 2          TestB::test_x, test_y\n" in text
    both = [of_test("TestA::test_x", 3), of_test("TestB::test_x", 2)]
    assert "Flaky: TestA::test_x 3/5, TestB::test_x 2/5" in section(both)


def test_a_long_name_of_a_broken_case_goes_on_below():
    file = f"evals/{'x' * 60}.yaml"
    text = section(
        [of_file(name, "a", 0) for name in (file, "b.yaml")], [of_file(name, "a", 5) for name in (file, "b.yaml")]
    )
    assert f"evals/{'x' * 53}…::a" in text


def test_suspects_that_could_not_be_asked_again_are_named():
    text = " ".join(section([case("fixture", 0), *run_of([5] * 2)], [case("fixture", 5), *run_of([5] * 2)]).split())
    assert "BROKEN fixture 5/5 -> 0/5 q 0.012" in text
    reason = "these could not be asked again, so their answers of this run decide: fixture"
    assert f"Not confirmed {reason} GATE: FAILED, 1 case is broken" in text


def test_cases_that_one_of_the_runs_could_not_judge_are_named():
    broken = case("down", 0).replace(scores=(), is_error=True)
    assert "Not judged 1   down" in section([broken, case("b", 5)], [case("down", 5), case("b", 5)])


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
        {"tools": (("a",), ("a",), (), (), ())},
        {"tools": (("a",), (), (), (), ())},
        {"tools": ((), ("a",), (), (), ())},
        {"tools": (("a",),)},
        {"scores": (1.0,) * 5, "passes": 5, "tools": (("a",), (), (), (), ())},
    ],
)
def test_where_no_tool_parts_the_answers_there_is_no_hint(changes):
    assert tool_hint(case("a", 2, scores=(1.0, 0.0, 1.0, 0.0, 0.0)).replace(**changes)) is None


def test_a_stale_baseline_names_what_is_gone_changed_and_new():
    new = [case("a", 5), case("new", 5), case("changed", 5, case_hash="x")]
    text = section(new, [case("a", 5), case("gone", 5), case("changed", 5)])
    for line in ("Gone 1         gone", "New 1          new", "Changed 1      changed"):
        assert line in text
    assert text.endswith("GATE: FAILED, stale baseline: 1 case is gone")


def test_a_target_that_was_not_run_is_named():
    both = [case("a", 5), case("b", 5), case("a", 5, target="other"), case("b", 5, target="other")]
    text = section([case("a", 5), case("b", 5)], both)
    assert "Gone 2         a (other), b (other)" in text
    assert "stale baseline: 2 cases are gone: the run has no case of the target other" in " ".join(text.split())
    text = section([case("a", 5, target="new")], [case("a", 5)])
    assert "no case of it is comparable: the run has no case of the target azure" in " ".join(text.split())


def test_another_judge_says_what_to_run():
    judge = [each.replace(judge="gpt@1") for each in run_of([5] * 3)]
    statistics = compare_with_baseline(
        judge, baseline_of(run_of([5] * 3)).replace(judge="gpt@2"), NAME, margin=0.05, is_confirming=True
    )
    text = " ".join(line.text for line in statistics_lines(statistics))
    assert "not comparable, the judge changed; write the baseline anew:" in text
    assert "pytest --agentv-update-baseline" in text
    assert "Difference" not in text


def test_a_run_without_a_verdict_says_why():
    assert section(run_of([5] * 12), no_verdict="12 of 48 cases (-k)").endswith("No verdict     12 of 48 cases (-k)")


def test_an_early_stop_is_told():
    text = section([case("a", 0, 2, asked=5, stopped="fail"), case("b", 5)])
    assert "2 cases, 5 answers each at most, 7 judged (1 stopped when they were certain)" in text
    assert "these cases, asked again: needs --agentv-stop=never" in text
    assert "pass@" not in text


def test_a_case_that_was_asked_in_full_did_not_stop():
    """The last answer made its verdict certain, or an answer was missing."""
    whole = case("a", 3, 3, stopped="pass")
    assert "1 case, 3 answers each\n" in section([whole])
    assert "1 case, 5 answers each\n" in section([whole.replace(asked=5, errors=2)])
    assert "2 cases, 3 to 5 answers each at most, 6 judged (1 stopped when" in section([whole, whole.replace(asked=5)])


def test_cases_of_different_repeats():
    assert "2 cases, 3 to 10 answers each" in section([case("a", 3, 3), case("b", 9, 10)])


def test_one_case_has_no_interval():
    assert "one case, or one group of cases: no interval" in section([case("a", 5)])
    assert "cannot tell: one case, or one group of cases\nGATE: not failed" in section([case("a", 5)], [case("a", 5)])


def test_a_gate_that_is_off_still_says_what_it_found():
    text = section(*suite_of_48(), gate="off")
    assert text.endswith("GATE: not enforced, 2 cases are broken")


def test_names_cannot_move_the_cursor_and_long_ones_are_cut():
    text = section([case("a\x1b[2J\nb", 2), case("x" * 90, 3)])
    assert "\x1b" not in text
    assert "a\\x1b[2J b 2/5" in text
    assert f"{'x' * 37}... 3/5" in text


@pytest.mark.parametrize(
    ("low", "high", "mean", "bar"),
    [
        (-0.127, 0.044, -0.042, "[--------o---|----]"),
        (-1, 1, 0, "[--------o--------]"),
        (0.1, 0.3, 0.2, "|   [--------o--------]"),
        (-0.3, -0.01, -0.2, "[------o----------] |"),
    ],
)
def test_an_interval_is_drawn(low, high, mean, bar):
    assert interval_bar(Interval(low, high), mean) == bar


def test_a_line_that_does_not_fit_goes_on_below():
    assert [line.text for line in plain(f"{'x' * 60} {'y' * 19}")] == [f"{'x' * 60} {'y' * 19}"]
    assert [line.text for line in plain(f"{'x' * 60} {'y' * 20}", indent=2)] == ["x" * 60, f"  {'y' * 20}"]


def test_a_list_ends_in_time():
    names = [f"case-{n} 3/5" for n in range(20)]
    line = short_list(names, verbose=False, used=7)
    assert len(line) <= 73
    assert line.endswith("more: --agentv-verbose")
    assert short_list(names, verbose=True).count(",") == 19
    assert short_list(["one"], verbose=False) == "one"


def test_a_rate_that_is_not_100_percent_does_not_look_like_it():
    assert "Pass rate      99.95 %  95 %:" in section(run_of([1] * 2099 + [0], 1))
    assert "Pass rate      100.0 %  95 %:" in section(run_of([1] * 2100, 1))
