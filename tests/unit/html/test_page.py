"""The page: its verdict, its policy, its escaping, its size, and the data in it."""

import base64
import gzip
import hashlib
import html
import json
import math
import re
from typing import Any
from urllib.parse import parse_qs

import pytest
import report_runs
from views import view

from pytest_agentv.reports.html import overview
from pytest_agentv.reports.html.cases import Case, cases_of
from pytest_agentv.reports.html.overview import figures, headline, histograms, history_plot
from pytest_agentv.reports.html.page import STATIC_ROWS, index_of, report_text
from pytest_agentv.reports.verdict import compared
from pytest_agentv.reports.view import Ending, RunView, Trouble

HOSTILE = "</script><script>alert(1)</script><img src=x onerror='alert(1)'>\x1b[31m\u202e"


def shown(*values: dict[str, Any]) -> tuple[tuple[Case, ...], RunView]:
    run = view("run.jsonl", [{"eval_id": f"case-{n}", "score": 1, "threshold": 1, **v} for n, v in enumerate(values)])
    return cases_of(run), run


def unpacked(page: str, name: str) -> Any:
    found = re.search(rf'<script type="text/plain" id="{name}">([^<]*)</script>', page)
    assert found
    return json.loads(gzip.decompress(base64.b64decode(found[1])), parse_constant=pytest.fail)


@pytest.fixture(scope="module")
def page() -> str:
    run = view("run.jsonl", report_runs.broken(report_runs.results(250), 6), dropped=3)
    base = view("base.jsonl", report_runs.results(252, seed=1))
    return report_text(compared(run, base), (view("old.jsonl", report_runs.results(20, seed=2)),))


GATED = Ending(replaces_cases=True, judged_with_run=frozenset({"x"}))
LOW = "the pass rate is too low"
FAILED, BROKEN, MUST = {"score": 0}, {"error": "broke", "status": "error"}, {"score": 0, "required": True}
SCORED = {"score": 0, "threshold": None}


@pytest.mark.parametrize(
    ("values", "ending", "tone", "text"),
    [
        ([{}, FAILED | {"node_id": "x"}], GATED, "pass", "Passed its gates: 1 of 2 fail."),
        ([{}, FAILED | {"node_id": "x"}], GATED.replace(red=(LOW,)), "fail", "Failed"),
        ([{}, MUST | {"node_id": "x"}], GATED, "fail", "Failed"),
        ([{}, BROKEN | {"node_id": "x"}], GATED, "fail", "Failed"),
        ([{}], Ending(red=(LOW,)), "fail", f"Failed at a gate: {LOW}."),
        ([{}, FAILED], Ending(red=(LOW,)), "fail", f"Failed: 1 of 2 fail. The gate says: {LOW}."),
        ([{}], Ending(troubles=(Trouble("Results were lost"),)), "fail", "Failed: results were lost."),
        (
            [{}, {}],
            Ending(unjudged="-k a"),
            "none",
            "No verdict: all 2 cases pass. No verdict on the run as a whole: -k a.",
        ),
        ([{}, FAILED], Ending(unjudged="a part"), "fail", "Failed"),
        (
            [{}, FAILED | {"node_id": "x"}],
            Ending(expected=frozenset("x")),
            "pass",
            "Passed: 1 of 2 cases pass, 1 failed as",
        ),
        ([SCORED] * 3, Ending(), "none", "No verdict: 3 cases have a score, and no threshold is known."),
        (
            [SCORED, {}],
            Ending(),
            "none",
            "No verdict: 1 of 2 cases pass, 1 case has a score, and no threshold is known.",
        ),
        ([SCORED, FAILED], Ending(), "fail", "Failed: 1 of 2 fail."),
        ([SCORED | {"status": "pass"}], Ending(), "pass", "Passed"),
    ],
)
def test_the_headline(values: list[dict[str, Any]], ending: Ending, tone: str, text: str) -> None:
    cases, run = shown(*values)
    found = headline(cases, run.replace(ending=ending))
    assert found.tone == tone
    assert f"{found.text} {found.more}".startswith(text)


def test_how_many_answers_must_pass_is_said_only_if_it_holds_for_all_cases() -> None:
    two, three = ({"repeat": {"needed": needed, "scores": [1] * 4, "passes": needed}} for needed in (2, 3))
    said = "The threshold is 1; 2 of 4 answers must reach it."
    assert headline(*shown(two, two)).more == said
    assert headline(*shown(two, {"threshold": None, "status": "error", "error": "broken"})).more == said
    assert headline(*shown(two, {})).more == headline(*shown(two, three)).more == "The threshold is 1."
    assert headline(*shown(two, {"threshold": 0.5})).more == ""


def cost_of(values: list[dict[str, Any]], base: list[dict[str, Any]] | None = None) -> str:
    """Return what the page says of the cost of a run."""
    run, old = (
        each and view("run", [{"eval_id": f"c{n}", "score": 1, "threshold": 1, **v} for n, v in enumerate(each)])
        for each in (values, base)
    )
    run = compared(run, old)
    found = [f"{each.value} {each.text}" for each in figures(cases_of(run), run) if each.label == "Cost"]
    return "".join(found)


def paid(cost: float, **more: Any) -> dict[str, Any]:
    return {"execution_metrics": {"cost_usd": cost}, **more}


HALF, ONE, TWO, CACHED = paid(0.5), paid(1), paid(2), paid(1, cached=True)
NOT_ASKED = {"status": "error", "error": "e", "attempts": 0, "error_detail": {"stage": "setup", "kind": "config"}}
LOST = {"status": "error", "error": "HTTP 503", "attempts": 1}
THRICE = {"calls": 3, "cost_usd": 1, "cost_known": 2}
JUDGES = "– not reported; judges took $0.1000 beside it"


def judged(*costs: Any) -> list[dict[str, Any]]:
    return [{"spent": {"answer": {"calls": 1}, "judge": each}} for each in costs]


@pytest.mark.parametrize(
    ("values", "base", "told"),
    [
        ([{}, {}], None, ""),
        ([HALF, CACHED], None, "$0.5000 $0.5000 a case; 1 from the cache"),
        ([HALF, {}, CACHED], None, "$0.5000 $0.5000 a case, known for 1 of 2 calls; 1 from the cache"),
        ([HALF, NOT_ASKED], None, "$0.5000 $0.5000 a case"),
        ([HALF, LOST], None, "$0.5000 $0.5000 a case, known for 1 of 2 calls"),
        (
            [paid(0.5, spent={"answer": THRICE}, reruns=2)],
            None,
            "$1.0000 $1.0000 a case, known for 2 of 3 calls; with 2 reruns",
        ),
        (
            [ONE, {}, {}],
            [ONE] * 3,
            "$1.0000 $1.0000 a case, known for 1 of 3 calls; as much as the baseline over 1 case",
        ),
        ([TWO] * 3, [ONE] * 2, "$6.0000 $2.0000 a case; +100 % against the baseline over 2 cases"),
        ([TWO] * 2, [CACHED] * 2, "$4.0000 $2.0000 a case; +100 % against the baseline"),
        ([ONE | {"eval_id": "a"}, TWO | {"eval_id": "a"}], None, "$2.0000 $2.0000 a case"),
        (judged({"calls": 2, "cost_known": 1, "cost_usd": 0.1}), None, f"{JUDGES}, known for 1 of 2 calls"),
        (judged({"calls": 1, "cost_known": 1, "cost_usd": 0.1}, {"calls": 0}, None), None, JUDGES),
        (judged({"calls": "x", "cost_known": [], "cost_usd": "y"}, "z"), None, ""),
    ],
)
def test_the_cost_of_a_run(values: list[dict[str, Any]], base: list[dict[str, Any]] | None, told: str) -> None:
    assert cost_of(values, base) == told


def test_a_case_that_never_called_its_target_took_no_time() -> None:
    broken = {"status": "error", "error": "no key", "attempts": 0, "duration_ms": 0.4}
    took = [{"duration_ms": 9_000, "execution_metrics": {"duration_ms": ms}} for ms in (100, 300, 500)]
    time = next(each for each in figures(*shown(*took, broken)) if each.label == "Time of the target")
    assert (time.value, time.text) == ("300 ms", "p50; p95 500 ms; 3 answers")
    assert [each.label for each in figures(*shown(broken))] == ["Pass rate"]


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
    run = view(HOSTILE, [{"eval_id": HOSTILE, "score": 0, "threshold": 1, "eval_file": HOSTILE, **values}])
    page = report_text(run)
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
    metrics = {"duration_ms": 9, "tool_durations": {"search": [float("inf"), 4]}, "seen": float("nan")}
    run = view("run.jsonl", [{"eval_id": "a", "score": 1, "threshold": 1, "execution_metrics": metrics}])
    detail = unpacked(report_text(run), "d0")[0]
    shown_metrics = {"duration_ms": 9, "tool_durations": {"search": [None, 4]}}
    assert detail["raw"]["execution_metrics"] == shown_metrics
    assert [milliseconds for _, milliseconds in detail["time"]] == [5, 4]


def test_a_lone_surrogate_is_not_replaced_so_that_the_page_can_mark_it() -> None:
    for more in ({}, {"seen": float("nan")}):
        run = view("run.jsonl", [{"eval_id": "a", "score": 1, "threshold": 1, "candidate_answer": "x\ud800", **more}])
        assert unpacked(report_text(run), "d0")[0]["raw"]["candidate_answer"] == "x\ud800"


@pytest.mark.parametrize("score", [-1, 1e308, math.inf, 85])
def test_a_score_of_others_beyond_the_scale_stands_at_its_end(score: float) -> None:
    judged = {"name": "a", "type": "code_judge", "score": score}
    run = view("run", [{"eval_id": "c", "score": 1, "evaluator_results": [judged]}])
    [histogram] = histograms(cases_of(run))
    assert histogram["counts"] == ((1, *[0] * 9) if score < 0 else (*[0] * 9, 1))


def test_scores_without_a_threshold_are_told_as_scores() -> None:
    repeat = {"repeat": {"scores": [0.5, 1], "planned": 2}}
    values = [{"eval_id": "a", "score": 0}, {"eval_id": "b", "score": 0.75, **repeat}]
    run, older = (view(f"{name}.jsonl", values) for name in ("new", "old"))
    cases = cases_of(run)
    assert [(case.judged.eval_id, case.status, case.marks, case.is_flaky, case.low) for case in cases] == [
        ("a", "scored", "s", False, ()),
        ("b", "scored", "ss", False, ()),
    ]
    assert next((each.label, each.value) for each in figures(cases, run)) == ("Mean score", "37.5 %")
    text = report_text(compared(run, older))
    assert "Passed" not in re.sub(r"<script.*?</script>", "", text.replace("✓ Passed 0", ""), flags=re.DOTALL)
    assert re.search(r'data-outcome="scored"[^>]*>○ Scored 2<', text)
    assert re.findall(r"Pass rate|Mean score|>passes<|>mean score<", text) == [
        "Mean score", ">mean score<", "Mean score", "Mean score", ">mean score<", "Mean score"
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
    run = view("run.jsonl", [{"eval_id": "a", "score": 0, "threshold": 1, "answers": answers}])
    [detail] = unpacked(report_text(run), "d0")
    assert [each["status"] for part in ("answers", "lanes") for each in detail[part]] == [status] * 4


def test_the_costs_of_the_history() -> None:
    runs = ([ONE, CACHED], [ONE, TWO], [CACHED], [{}], [ONE, {}], [HALF, LOST], [HALF, NOT_ASKED])
    named = ([{"eval_id": f"c{n}", "score": 1, **each} for n, each in enumerate(values)] for values in runs)
    plot = history_plot([view("run", values) for values in named])
    assert plot is not None
    assert [point["cost"] for point in plot["points"]] == [
        *("$1.0000", "$3.0000", "from the cache", "cost not known", "$1.0000, known for 1 of 2 calls"),
        *("$0.5000, known for 1 of 2 calls", "$0.5000"),
    ]


def test_long_texts_are_cut_and_say_so() -> None:
    run = view("run.jsonl", [{"eval_id": "a", "score": 1, "candidate_answer": "x" * 50_000}])
    detail = unpacked(report_text(run), "d0")[0]
    assert "30,000 more characters are in the results file" in detail["text"]


def test_size_of_500_cases(page: str) -> None:
    data = sum(len(block) for block in re.findall(r'<script type="text/plain"[^>]*>([^<]*)', page))
    assert len(page.encode()) < 1_000_000
    assert len(page.encode()) - data < 150_000
    assert data < 1_000 * 500


def test_a_broken_case_has_no_threshold_to_disagree_with() -> None:
    judged = {"name": "facts", "type": "contains", "score": 0}
    cases, _ = shown({"score": 0, "evaluator_results": [judged]}, {"status": "error", "error": "x", "threshold": None})
    assert [each["threshold"] for each in histograms(cases)] == [1]
    mixed, _ = shown({"evaluator_results": [judged]}, {"threshold": 0.5, "evaluator_results": [judged]})
    assert [each["threshold"] for each in histograms(mixed)] == [None]


def test_the_link_of_a_reason_finds_as_many_cases_as_its_figure_says() -> None:
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
    assert (whole["counts"][0], whole["counts"][9], whole["is_partial"]) == (1, 1, False)
    [partial] = histograms(shown(repeated)[0])
    assert (sum(partial["counts"]), partial["is_partial"]) == (1, True)
