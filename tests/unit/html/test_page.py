"""The page: its verdict, its policy, its escaping, its size, and the data in it."""

import base64
import gzip
import hashlib
import html
import json
import math
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
import report_runs
from thorough import varied

from pytest_agentv.errors import FileError
from pytest_agentv.reports.gates import Ending
from pytest_agentv.reports.html import headline as overview
from pytest_agentv.reports.html.cases import Case, Compared, cases_of, compare, past_runs
from pytest_agentv.reports.html.headline import figures, headline
from pytest_agentv.reports.html.page import STATIC_ROWS, ReportInput, index_of, report_text, write_report
from pytest_agentv.reports.html.plots import histograms, history_plot
from pytest_agentv.reports.html.reading import run_of

GATED = Ending(replaces_cases=True)

HOSTILE = "</script><script>alert(1)</script><img src=x onerror='alert(1)'>\x1b[31m\u202e"


def shown(*values: dict[str, Any]) -> tuple[tuple[Case, ...], Compared]:
    run = run_of("run.jsonl", [{"eval_id": f"case-{n}", "score": 1, "threshold": 1, **v} for n, v in enumerate(values)])
    compared = compare(run, None, margin=0.05)
    return cases_of(run, compared), compared


def unpacked(page: str, name: str) -> Any:
    found = re.search(rf'<script type="text/plain" id="{name}">([^<]*)</script>', page)
    assert found
    return json.loads(gzip.decompress(base64.b64decode(found[1])), parse_constant=pytest.fail)


@pytest.fixture(scope="module")
def page() -> str:
    run = run_of("run.jsonl", report_runs.broken(report_runs.results(250), 6), earlier=[{"eval_id": "a"}] * 3)
    base = run_of("base.jsonl", report_runs.results(252, seed=1))
    return report_text(ReportInput(run, base, (run_of("old.jsonl", report_runs.results(20, seed=2)),)))


class TestHeadline:
    def test_all_pass(self) -> None:
        assert headline(*shown({}, {})).text == "Passed: all 2 cases pass."

    def test_failures_and_errors_are_told_apart(self) -> None:
        found = headline(*shown({}, {"score": 0}, {"error": "HTTP 503", "status": "error"}))
        assert found.tone == "fail"
        assert found.text == "Failed: 1 of 3 fail and 1 could not be judged."

    def test_failures_that_are_expected_are_told_apart(self) -> None:
        cases = shown({"score": 0, "node_id": "x"}, {"score": 0}, {})
        found = headline(*cases, Ending(expected=frozenset({"x"})))
        assert found.text == "Failed: 1 of 3 fail and 1 failed as expected."

    def test_a_dry_run_has_no_verdict(self) -> None:
        assert headline(*shown({"dry_run": True})).tone == "none"

    def test_a_gate_judges_the_run_in_the_place_of_its_cases(self) -> None:
        cases = shown({}, {"score": 0})
        assert headline(*cases, GATED).text == "Passed its gates: 1 of 2 fail."
        assert headline(*cases, GATED.replace(red=("the pass rate is too low",))).tone == "fail"

    @pytest.mark.parametrize("value", [{"score": 0, "required": True}, {"error": "broke", "status": "error"}])
    def test_no_gate_lifts_errors_and_required_cases(self, value: dict[str, Any]) -> None:
        assert headline(*shown({}, value), GATED).tone == "fail"

    def test_a_red_gate_alone_fails(self) -> None:
        found = headline(*shown({}), Ending(red=("the pass rate is too low",)))
        assert found.text == "Failed at a gate: the pass rate is too low."
        assert "The gate says" not in found.more
        both = headline(*shown({}, {"score": 0}), Ending(red=("the pass rate is too low",)))
        assert both.text == "Failed: 1 of 2 fail."
        assert both.more.startswith("The gate says: the pass rate is too low.")

    @pytest.mark.parametrize("trouble", ["the run broke off before its end", "results were lost"])
    def test_what_went_wrong_beside_the_cases_fails(self, trouble: str) -> None:
        found = headline(*shown({}), Ending(troubles=(trouble,)))
        assert (found.tone, found.text) == ("fail", f"Failed: {trouble}.")

    def test_a_part_of_a_run_has_no_verdict(self) -> None:
        found = headline(*shown({}, {}), Ending(unjudged="2 of 12 cases (-k a)"))
        assert (found.tone, found.text) == ("none", "No verdict: all 2 cases pass.")
        assert found.more.startswith("No verdict on the run as a whole: 2 of 12 cases (-k a).")
        assert headline(*shown({}, {"score": 0}), Ending(unjudged="a part")).tone == "fail"

    def test_a_case_that_was_marked_to_fail_does_not_fail_the_run(self) -> None:
        cases = shown({}, {"score": 0, "node_id": "a::b"})
        found = headline(*cases, Ending(expected=frozenset({"a::b"})))
        assert (found.tone, found.text) == ("pass", "Passed: 1 of 2 cases pass, 1 failed as expected.")

    def test_scores_without_a_threshold_have_no_verdict(self) -> None:
        """Three scores of 0 were "all 3 cases pass"."""
        score = {"score": 0, "threshold": None}
        found = headline(*shown(score, score, score))
        assert (found.tone, found.text) == (
            "none",
            "No verdict: 3 cases have a score, and no threshold is known.",
        )
        mixed = headline(*shown(score, {}))
        assert (mixed.tone, mixed.text) == (
            "none",
            "No verdict: 1 of 2 cases pass, 1 case has a score, and no threshold is known.",
        )
        assert headline(*shown(score, {"score": 0})).text == "Failed: 1 of 2 fail."
        assert headline(*shown(score | {"status": "pass"})).tone == "pass", "the results tell it"

    def test_how_many_answers_must_pass_is_said_only_if_it_holds_for_all_cases(self) -> None:
        two, three = ({"repeat": {"needed": needed, "planned": 4, "passes": needed}} for needed in (2, 3))
        said = "The threshold is 1; 2 of 4 answers must reach it."
        assert headline(*shown(two, two)).more == said
        assert headline(*shown(two, {"threshold": None, "status": "error", "error": "broken"})).more == said
        assert headline(*shown(two, {})).more == "The threshold is 1."
        assert headline(*shown(two, three)).more == "The threshold is 1."
        assert headline(*shown(two, {"threshold": 0.5})).more == ""


class TestFigures:
    def test_what_is_not_known_is_not_zero(self) -> None:
        values = {figure.label: figure.value for figure in figures(*shown({}, {}))}
        assert values["Cost"] == "–"
        assert values["Time of a case"] == "–"

    def test_a_case_that_never_called_its_target_took_no_time(self) -> None:
        """A missing variable halved the median, and counted as an answer of 0 ms."""
        broken = {"status": "error", "error": "no key", "attempts": 0, "duration_ms": 0.4}
        lost = {"status": "error", "error": "timeout", "attempts": 2, "duration_ms": 300}
        cases, compared = shown({"attempts": 1, "duration_ms": 100}, broken, lost, {"duration_ms": 500})
        time = next(each for each in figures(cases, compared) if each.label == "Time of a case")
        assert (time.value, time.text) == ("300 ms", "median; 95 % take less than 500 ms; 3 answers")
        [row] = overview.target_rows(cases)
        assert row.median == "300 ms"
        only = {each.label: each.value for each in figures(*shown(broken))}
        assert only["Time of a case"] == "–"

    def test_answers_from_the_cache_cost_nothing(self) -> None:
        metrics = {"execution_metrics": {"cost_usd": 0.5}}
        cases = shown(metrics, metrics | {"cached": True})
        cost = next(figure for figure in figures(*cases) if figure.label == "Cost")
        assert (cost.value, cost.text) == ("$0.5000", "$0.5000 a case; 1 from the cache")
        cases = shown(metrics, {}, metrics | {"cached": True})
        cost = next(figure for figure in figures(*cases) if figure.label == "Cost")
        assert cost.text == "$0.5000 a case; known for 1 of 2; 1 from the cache"
        [row] = overview.target_rows(cases[0])
        assert row.cost == "$0.5000 (1 of 2)"

    def test_a_case_that_could_not_be_asked_has_no_unknown_cost(self) -> None:
        paid = {"execution_metrics": {"cost_usd": 0.5}}
        error = {"status": "error", "error": "e", "attempts": 0}
        broken = error | {"error_detail": {"stage": "setup", "kind": "config"}}
        crashed = error | {"error_detail": {"stage": "setup", "kind": "crash"}}
        for last, told in ((broken, ""), (crashed, "; known for 1 of 2")):
            cases, compared = shown(paid, last)
            cost = next(figure for figure in figures(cases, compared) if figure.label == "Cost")
            assert cost.text == f"$0.5000 a case{told}"
            run = run_of("a", [{"eval_id": f"c{n}", "score": 1} | value for n, value in enumerate((paid, last))])
            plot = history_plot(past_runs([run, run]))
            assert plot is not None
            assert {point.cost for point in plot.points} == {f"$0.5000{told.replace(';', ',')}"}

    def test_what_judges_took_is_named_beside_the_cost_of_the_answers(self) -> None:
        judged = {"judge_metrics": {"calls": 1, "cost_usd": 0.25}}
        told = [
            next(figure for figure in figures(*shown(case, case)) if figure.label == "Cost")
            for case in (judged, judged | {"execution_metrics": {"cost_usd": 0.5}})
        ]
        assert [(cost.value, cost.text) for cost in told] == [
            ("–", "not reported; judges took $0.5000 beside it"),
            ("$1.0000", "$0.5000 a case; judges took $0.5000 beside it"),
        ]

    def test_the_cost_of_some_answers_of_a_case_is_not_known_of_the_case(self) -> None:
        case = {"execution_metrics": {"cost_usd": 0.5}, "repeat": {"asked": 3, "priced": 2}}
        cost = next(figure for figure in figures(*shown(case)) if figure.label == "Cost")
        assert (cost.value, cost.text) == ("$0.5000", "$0.5000 a case; known for 0 of 1")

    def test_one_case_has_no_interval(self) -> None:
        assert "no interval" in figures(*shown({}))[0].text


def test_the_policy_allows_our_script_and_style_by_their_hashes(page: str) -> None:
    found = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert found
    policy = html.unescape(found[1])
    for tag in ("script", "style"):
        text = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        assert len(text) == 1
        digest = base64.b64encode(hashlib.sha256(text[0].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy


def test_nothing_is_loaded_and_no_handler_is_inline(page: str) -> None:
    markup = re.sub(r"<script.*?</script>|<style.*?</style>", "", page, flags=re.DOTALL)
    assert not re.search(r"\s(on\w+|src|style)=", markup)
    assert all(link.startswith("#") for link in re.findall(r'href="([^"]*)"', markup))


def test_the_static_part_is_whole_without_scripts(page: str) -> None:
    assert "Failed: 5 cases broke against the baseline" in page
    assert page.count('<a class="row"') == STATIC_ROWS
    assert "3 lines were dropped" in page
    for title in ("Pass rate by tag", "Scores of each evaluator", "What a score costs", "History"):
        assert f"<figcaption>{title}</figcaption>" in page


def test_all_that_a_model_said_is_text() -> None:
    judged = {"name": HOSTILE, "type": "llm_judge", "score": 0, "misses": [HOSTILE], "reasoning": HOSTILE}
    values = {"candidate_answer": HOSTILE, "tags": [HOSTILE], "evaluator_results": [judged], "target": HOSTILE}
    run = run_of(HOSTILE, [{"eval_id": HOSTILE, "score": 0, "threshold": 1, "eval_file": HOSTILE, **values}])
    page = report_text(ReportInput(run))
    assert "<img" not in page
    assert page.count("</script>") == 3  # the list, a block, ours
    assert "alert(1)</script>" not in page
    assert not {"\x1b", "\u202e"} & set(page)
    assert "[U+202E]" in page
    assert unpacked(page, "d0")[0]["text"] == HOSTILE


def test_the_list_and_the_details(page: str) -> None:
    index = unpacked(page, "index")
    assert len(index["rows"]) == 500
    assert index["rows"][0][13] == "broken"
    details = [detail for number in range(index["chunks"]) for detail in unpacked(page, f"d{number}")]
    assert len(details) == 500
    first = details[0]
    assert first["baseline"]["title"] == "Broken"
    assert first["baseline"]["text"].endswith(first["text"].partition(". ")[2])
    assert len(first["answers"]) == 5
    assert [past["run"] for past in first["history"]] == ["base.jsonl", "old.jsonl", "run.jsonl"]
    assert first["rerun"].startswith("pytest evals/")
    assert first["raw"]["eval_id"]
    passing = details[-1]
    assert "answers" not in passing
    assert "answers" not in passing["raw"]


def test_a_number_that_json_has_not_leaves_the_other_cases_readable() -> None:
    """The browser refused the whole block of 50 cases."""
    metrics = {"duration_ms": 9, "tool_durations": {"search": [float("inf"), 4]}, "seen": float("nan")}
    run = run_of("run.jsonl", [{"eval_id": "a", "score": 1, "threshold": 1, "execution_metrics": metrics}])
    detail = unpacked(report_text(ReportInput(run)), "d0")[0]
    shown_metrics = {"duration_ms": 9, "tool_durations": {"search": [None, 4]}, "seen": None}
    assert detail["raw"]["execution_metrics"] == shown_metrics
    assert [milliseconds for _, milliseconds in detail["time"]] == [5, 4]


def test_a_lone_surrogate_is_not_replaced_so_that_the_page_can_mark_it() -> None:
    for more in ({}, {"seen": float("nan")}):
        run = run_of("run.jsonl", [{"eval_id": "a", "score": 1, "threshold": 1, "candidate_answer": "x\ud800", **more}])
        assert unpacked(report_text(ReportInput(run)), "d0")[0]["raw"]["candidate_answer"] == "x\ud800"


@pytest.mark.parametrize("number", [varied(1e30), 10**400, varied(-1e30)])
def test_a_number_of_any_size_does_not_break_the_page(number: float) -> None:
    judged = [{"name": "facts", "type": "contains", "score": number}]
    repeat = {"scores": [1, 0], "passes": number, "errors": number}
    for value in ({"evaluator_results": judged}, {"repeat": repeat}):
        report_text(ReportInput(run_of("run.jsonl", [{"eval_id": "a", "score": 1, "threshold": 1, **value}])))


def costs_of(name: str, *costs: float | None, **more: Any) -> dict[str, Any]:
    values = [{"eval_id": f"c{n}", "score": 1, "threshold": 1, **more} for n in range(len(costs))]
    for value, cost in zip(values, costs, strict=True):
        if cost is not None:
            value["execution_metrics"] = {"cost_usd": cost}
    return {"name": name, "values": values}


def test_the_change_of_the_cost_is_that_of_cases_whose_cost_both_runs_know() -> None:
    """One known cost of four was 75 % less than four of four."""
    run, base = run_of(**costs_of("run", 1, None, None, None)), run_of(**costs_of("base", 1, 1, 1, 1))
    compared = compare(run, base, margin=0.05)
    [cost] = [each for each in figures(cases_of(run, compared), compared) if each.label == "Cost"]
    assert cost.text == "$1.0000 a case; known for 1 of 4; as much as the baseline over 1 case"
    [row] = overview.target_rows(cases_of(run, compared))
    assert row.cost == "$1.0000 (1 of 4)"


def test_the_change_of_the_cost_leaves_out_new_cases_and_answers_of_the_cache() -> None:
    run, base = run_of(**costs_of("run", 2, 2, 2)), run_of(**costs_of("base", 1, 1))
    compared = compare(run, base, margin=0.05)
    [cost] = [each for each in figures(cases_of(run, compared), compared) if each.label == "Cost"]
    assert cost.text == "$2.0000 a case; +100 % against the baseline over 2 cases"
    base = run_of(**costs_of("base", 1, 1, cached=True))
    compared = compare(run, base, margin=0.05)
    [cost] = [each for each in figures(cases_of(run, compared), compared) if each.label == "Cost"]
    assert cost.text == "$2.0000 a case"


def test_a_dry_run_has_no_pass_rate_and_no_difference() -> None:
    cases, compared = shown({"dry_run": True, "status": "pass", "score": 0, "threshold": 0.5})
    rate = next(each for each in figures(cases, compared) if each.label == "Pass rate")
    assert (rate.value, rate.text) == ("–", "a dry run judges nothing")
    run = run_of("run.jsonl", [{"eval_id": f"c{n}", "score": 1, "threshold": 1, "dry_run": True} for n in range(9)])
    base = run_of("base.jsonl", [{"eval_id": f"c{n}", "score": 0, "threshold": 1} for n in range(9)])
    assert "Against the baseline" not in report_text(ReportInput(run, base))


def test_the_cost_of_reruns_is_part_of_the_cost() -> None:
    """The summary of the run counted them, the report did not."""
    lines = [{"eval_id": "a", "score": 1, "execution_metrics": {"cost_usd": n}, "timestamp": str(n)} for n in (1, 2, 4)]
    told = {}
    for name, more in {
        "reruns": {"run_id": "r"},
        "carried": {"run_id": "r", "repeat": {"carried": True}},
        "?": {},
    }.items():
        run = run_of("run", [line | more for line in lines])
        compared = compare(run, None, margin=0.05)
        told[name] = [each for each in figures(cases_of(run, compared), compared, run.earlier) if each.label == "Cost"]
    assert {name: (cost.value, cost.text) for name, [cost] in told.items()} == {
        "reruns": ("$7.0000", "$4.0000 a case; $3.0000 of it for 2 reruns"),
        "carried": ("$4.0000", "$4.0000 a case"),
        "?": ("$4.0000", "$4.0000 a case"),
    }


def test_all_that_tells_the_cost_of_a_run_counts_its_reruns() -> None:
    """The history and the table of targets left them out, and so did the change against the baseline."""
    lines = [{"eval_id": "a", "score": 1, "run_id": "r", "target": "t", "timestamp": str(n)} for n in (1, 2, 3)]
    paid = {"execution_metrics": {"cost_usd": 1}}
    once, thrice = run_of("once", [lines[0] | paid]), run_of("thrice", [line | paid for line in lines])
    plot = history_plot(past_runs([once, thrice]))
    assert plot is not None
    assert [point.cost for point in plot.points] == ["$1.0000", "$3.0000"]
    compared = compare(thrice, once, margin=0.05)
    cases = cases_of(thrice, compared)
    [row] = overview.target_rows(cases, thrice.earlier)
    assert row.cost == "$3.0000"
    [cost] = [each for each in figures(cases, compared, thrice.earlier) if each.label == "Cost"]
    assert cost.text == "$1.0000 a case; +200 % against the baseline; $2.0000 of it for 2 reruns"
    assert '<td class="right">$3.0000</td>' in report_text(ReportInput(thrice))


def test_replaced_results_cost_also_if_the_cost_of_the_last_one_is_not_known() -> None:
    lines = [{"eval_id": "a", "score": 1, "run_id": "r", "timestamp": str(n)} for n in (1, 2)]
    run = run_of("run", [lines[0] | {"execution_metrics": {"cost_usd": 1}}, lines[1]])
    compared = compare(run, None, margin=0.05)
    [cost] = [each for each in figures(cases_of(run, compared), compared, run.earlier) if each.label == "Cost"]
    assert (cost.value, cost.text) == ("$1.0000", "known for 0 of 1; $1.0000 of it for 1 rerun")


@pytest.mark.parametrize(
    ("metrics", "told"),
    [
        ([{"calls": 2, "cost_usd": 0.05}, {"calls": 1, "cost_usd": 0.05}], "judges took $0.1000 beside it"),
        (
            [{"calls": 2, "priced": 1, "cost_usd": 0.05}, {"calls": 1, "cost_usd": 0.05}],
            "judges took $0.1000 beside it, known for 2 of 3 calls",
        ),
        ([{"calls": 2}, {"calls": 1, "cost_usd": 0.1}, None], "judges took $0.1000 beside it, known for 1 of 3 calls"),
        ([{"calls": 0, "cached": 2}, {"calls": 1, "cost_usd": 0.1}], "judges took $0.1000 beside it"),
        ([{"calls": 0, "cached": 2}, {"calls": 1}], None),
        (
            [{"calls": "x", "cost_usd": 0.1}, {"calls": True, "priced": [], "cost_usd": "y"}],
            "judges took $0.1000 beside it",
        ),
    ],
)
def test_the_cost_of_judges_says_of_how_many_calls_it_is(metrics: list[Any], told: str | None) -> None:
    """The summary of the run says it, the report showed the part as the whole."""
    lines = [{"eval_id": f"c{n}", "score": 1, "judge_metrics": each} for n, each in enumerate(metrics)]
    run = run_of("run", lines)
    compared = compare(run, None, margin=0.05)
    [cost] = [each for each in figures(cases_of(run, compared), compared) if each.label == "Cost"]
    assert cost.text == "; ".join(filter(None, ("not reported", told)))


@pytest.mark.parametrize("score", [-1, 1e308, math.inf, 85])
def test_a_score_of_others_beyond_the_scale_stands_at_its_end(score: float) -> None:
    """One of -1 ended `agentv report` with a ZeroDivisionError."""
    judged = {"name": "a", "type": "code_judge", "score": score}
    run = run_of("run", [{"eval_id": "c", "score": 1, "evaluator_results": [judged]}])
    [histogram] = histograms(cases_of(run, compare(run, None, margin=0.05)))
    assert histogram.counts == ((1, *[0] * 9) if score < 0 else (*[0] * 9, 1))


def test_the_cost_of_some_answers_is_compared_with_nothing() -> None:
    told, base = costs_of("run", 1, 1), run_of(**costs_of("base", 4, 1))
    told["values"][0]["repeat"] = {"asked": 4, "priced": 1}
    run = run_of(**told)
    compared = compare(run, base, margin=0.05)
    [cost] = [each for each in figures(cases_of(run, compared), compared) if each.label == "Cost"]
    assert cost.text == "$1.0000 a case; known for 1 of 2; as much as the baseline over 1 case"
    [row] = overview.target_rows(cases_of(run, compared))
    assert row.cost == "$2.0000 (1 of 2)"
    plot = history_plot(past_runs([run, base]))
    assert plot is not None
    assert [point.cost for point in plot.points] == ["$2.0000, known for 1 of 2", "$5.0000"]


def test_scores_without_a_threshold_are_told_as_scores() -> None:
    repeat = {"repeat": {"scores": [0.5, 1], "planned": 2}}
    values = [{"eval_id": "a", "score": 0}, {"eval_id": "b", "score": 0.75, **repeat}]
    run, older = (run_of(f"{name}.jsonl", values) for name in ("new", "old"))
    cases, compared = cases_of(run, compare(run, None, margin=0.05)), compare(run, None, margin=0.05)
    assert [(case.id, case.status, case.marks, case.is_flaky, case.low) for case in cases] == [
        ("a", "scored", "s", False, ()),
        ("b", "scored", "ss", False, ()),
    ]
    assert next((each.label, each.value) for each in figures(cases, compared)) == ("Mean score", "37.5 %")
    text = report_text(ReportInput(run, older))
    assert "Passed" not in re.sub(r"<script.*?</script>", "", text.replace("✓ Passed 0", ""), flags=re.DOTALL)
    assert re.search(r'data-outcome="scored"[^>]*>○ Scored 2<', text)
    assert re.findall(r"Pass rate|Mean score|>passes<|>mean score<", text) == [
        "Mean score", ">mean score<", "Mean score", "Mean score", ">mean score<"
    ]  # fmt: skip
    assert "All cases pass." not in text
    first, second = unpacked(text, "d0")
    assert (first["why"], second["why"]) == (
        "score 0.00, no threshold is known",
        "score 0.75 of 2 answers, no threshold is known",
    )
    assert [(past["status"], past["score"]) for past in second["history"]] == [("scored", 0.75)] * 2


@pytest.mark.parametrize(
    ("written", "status"),
    [({}, "scored"), ({"status": "ok"}, "scored"), ({"error": "HTTP 503"}, "error"), ({"status": "fail"}, "fail")],
)
def test_an_answer_passes_only_if_the_results_say_so(written: dict[str, Any], status: str) -> None:
    answers = [{"score": 0, "candidate_answer": "x", **written}] * 2
    run = run_of("run.jsonl", [{"eval_id": "a", "score": 0, "threshold": 1, "answers": answers}])
    [detail] = unpacked(report_text(ReportInput(run)), "d0")
    assert [each["status"] for part in ("answers", "lanes") for each in detail[part]] == [status] * 4


def test_a_cost_that_is_not_known_is_not_zero_in_the_history() -> None:
    runs = [run_of(**costs_of("a", None)), run_of(**costs_of("b", 1, None)), run_of(**costs_of("c", 2))]
    plot = history_plot(past_runs(runs))
    assert plot is not None
    assert [point.cost for point in plot.points] == ["cost not known", "$1.0000, known for 1 of 2", "$2.0000"]


def test_answers_from_the_cache_are_not_unknown_in_the_history() -> None:
    told = costs_of("a", 1, 2)
    told["values"][1]["cached"] = True
    free = costs_of("c", 1)
    free["values"][0]["cached"] = True
    plot = history_plot(past_runs([run_of(**told), run_of(**costs_of("b", 1, 2)), run_of(**free)]))
    assert plot is not None
    assert [point.cost for point in plot.points] == ["$1.0000", "$3.0000", "from the cache"]


def test_long_texts_are_cut_and_say_so() -> None:
    run = run_of("run.jsonl", [{"eval_id": "a", "score": 1, "candidate_answer": "x" * 50_000}])
    detail = unpacked(report_text(ReportInput(run)), "d0")[0]
    assert "30,000 more characters are in the results file" in detail["text"]


def test_size_of_500_cases(page: str) -> None:
    data = sum(len(block) for block in re.findall(r'<script type="text/plain"[^>]*>([^<]*)', page))
    assert len(page.encode()) < 1_000_000
    assert len(page.encode()) - data < 150_000
    assert data < 1_000 * 500


def test_equal_results_make_equal_reports() -> None:
    values = report_runs.results(5)
    one, other = (
        re.sub(r"Made [^.]*\.", "", report_text(ReportInput(run_of("run.jsonl", order)))) for order in (values, values)
    )
    assert one == other


def test_the_report_is_written_whole_into_a_new_folder(tmp_path: Path) -> None:
    path = tmp_path / "new" / "report.html"
    size = write_report(path, ReportInput(run_of("run.jsonl", report_runs.results(2))))
    assert path.stat().st_size == size
    assert [each.name for each in path.parent.iterdir()] == ["report.html"]


def test_a_folder_that_is_a_file_is_told_with_the_path_of_the_report(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match=r"report\.html: cannot be written: .*file is a file, not a folder"):
        write_report(tmp_path / "file" / "report.html", ReportInput(run_of("run.jsonl", report_runs.results(2))))


def test_a_broken_case_has_no_threshold_to_disagree_with() -> None:
    judged = {"name": "facts", "type": "contains", "score": 0}
    cases, _ = shown({"score": 0, "evaluator_results": [judged]}, {"status": "error", "error": "x", "threshold": None})
    assert [each.threshold for each in histograms(cases)] == [1]
    mixed, _ = shown({"evaluator_results": [judged]}, {"threshold": 0.5, "evaluator_results": [judged]})
    assert [each.threshold for each in histograms(mixed)] == [None]


def test_a_reason_is_frequent_if_several_cases_have_it() -> None:
    low = {"score": 0, "evaluator_results": [{"name": "a", "type": "contains", "score": 0, "misses": ["lacks x"]}]}
    assert overview.reasons(shown(low, {})[0]) == ()
    assert [(each.text, each.count) for each in overview.reasons(shown(low, low)[0])] == [("lacks x", 2)]


def test_the_link_of_a_reason_finds_as_many_cases_as_its_figure_says() -> None:
    """A list cuts its reasons, and a search for their words found nothing."""
    long = {"name": "first", "type": "heuristic", "score": 0, "misses": ["a long fact " * 20] * 3}
    short = {"name": "second", "type": "heuristic", "score": 0, "misses": ["tent", "stove"]}
    case = {"score": 0, "evaluator_results": [long, short, short]}
    other = {"score": 0, "evaluator_results": [{**short, "name": "third"}]}
    hidden = {"score": 0, "evaluator_results": [{**short, "misses": ["a\u202eb\ud800"]}]}
    cases, _ = shown(case, case, case, other, {**case, "status": "error", "error": "e"}, hidden, hidden)
    found = overview.reasons(cases)
    assert [(each.evaluator, each.text[:11], each.count) for each in found] == [
        ("first", "a long fact", 3),
        ("second", "tent; stove", 3),
        ("second", "a\u202eb\ud800", 2),
    ]
    index = index_of(cases)
    for each in found:
        wanted = parse_qs(each.link.removeprefix("#"))
        number = index["reasons"].index(wanted["reason"][0])
        assert wanted["outcome"] == ["fail"]
        assert sum(number in row[15] for row in index["rows"]) == each.count


def test_scores_of_a_repeated_case_are_those_of_all_its_answers() -> None:
    low, high = ({"name": "facts", "type": "contains", "score": score} for score in (0, 1))
    repeated = {"score": 0.5, "repeat": {"scores": [0, 1], "passes": 1}, "evaluator_results": [low]}
    [whole] = histograms(shown(repeated | {"answers": [{"evaluator_results": [each]} for each in (low, high)]})[0])
    assert (whole.counts[0], whole.counts[9], whole.is_partial) == (1, 1, False)
    [partial] = histograms(shown(repeated)[0])
    assert (sum(partial.counts), partial.is_partial) == (1, True)
