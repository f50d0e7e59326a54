"""The summary's lines. The golden file shows the whole of one."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pytest_agentv.model.messages import ExecutionMetrics, TokenUsage, TraceSummary
from pytest_agentv.model.results import ErrorDetail, EvalResult
from pytest_agentv.reports.summary import summary_lines
from pytest_agentv.reports.totals import waiting_hint

GOLDEN = Path(__file__).parents[1] / "golden" / "reporting"


def result(eval_id: str, score: float = 1.0, **changes: Any) -> EvalResult:
    plain = EvalResult("2026-11-20T13:11:09.075Z", eval_id, "qa", score, (), (), "answer", "agent")
    place = {"node_id": f"evals/qa.eval.yaml::{eval_id}", "eval_file": "evals/qa.eval.yaml", "line": 12}
    return plain.replace(**(place | changes))


def broken(eval_id: str, error: str, **changes: Any) -> EvalResult:
    detail = ErrorDetail("provider", "timeout")
    return result(eval_id, 0.0, **({"status": "error", "error": error, "error_detail": detail} | changes))


def metered(cost: float, tokens: TokenUsage) -> dict[str, Any]:
    return {"execution_metrics": ExecutionMetrics(token_usage=tokens, cost_usd=cost)}


def summary(*results: EvalResult, **options: Any) -> list[str]:
    return [line.text for line in summary_lines(results, **options)]


@pytest.mark.scenario("Statistics and distribution")
@pytest.mark.scenario("Error surfacing")
def test_the_summary_of_a_run() -> None:
    results = [
        result("greets", 1.0, **metered(0.0123, TokenUsage(1000, 250, 50))),
        result("refund-policy", 0.4, status="fail", **metered(0.01, TokenUsage(500, 100))),
        broken("slow", "no answer within 120 s\n  stderr: waiting for the model"),
        broken("slower", "no answer within 120 s\n  stderr: waiting for the model", line=20),
        result("apologises", 0.85, status="pass"),
        broken("no-key", "target 'azure': AZURE_KEY is not set", error_detail=ErrorDetail("setup", "auth")),
        result("from-cache", 1.0, cached=True, **metered(5, TokenUsage(9, 9))),
    ]
    lines = summary(*results, results_path=Path("/r/.agentv/results/eval_1.jsonl"), elapsed_ms=75_400)
    assert "\n".join(lines) + "\n" == (GOLDEN / "summary.txt").read_text()
    assert max(map(len, lines)) <= 80


def test_without_results_there_is_nothing_to_summarize() -> None:
    assert summary(results_path=Path("x")) == ["No results to summarize"]


def test_without_scores_there_are_counts_and_errors_only() -> None:
    assert summary(broken("a", "boom")) == [
        "ERRORS",
        "evals/qa.eval.yaml::a",
        "  [provider, timeout] boom",
        "  evals/qa.eval.yaml:12",
        "EVALUATION SUMMARY",
        "Total eval cases: 1 (0 passed, 0 failed, 1 error)",
    ]


def test_counts_of_thousands_have_a_separator_throughout_the_line() -> None:
    few, many = [result("a", 0.0, status="fail")] * 1_500, [broken("b", "boom")] * 2_500
    counts = "Total eval cases: 5,000 (1,000 passed, 1,500 failed, 2,500 errors)"
    assert counts in summary(*[result("c")] * 1_000, *few, *many)


def test_a_dry_run_says_that_scores_mean_nothing() -> None:
    assert summary(result("a"), dry_run=True)[:3] == [
        "EVALUATION SUMMARY",
        "Dry run: answers and judgements were mocked, so the scores mean nothing.",
        "Total eval cases: 1 (1 passed, 0 failed, 0 errors)",
    ]


def test_a_single_score_has_no_deviation() -> None:
    assert not any(line.startswith("Std deviation") for line in summary(result("a")))


def test_long_errors_are_cut_to_four_lines() -> None:
    lines = summary(broken("a", "many words " * 500))
    assert lines[2:7] == [
        "  [provider, timeout] many words many words many words many words many words",
        "  many words many words many words many words many words many words many words",
        "  many words many words many words many words many words many words many words",
        "  ... (the full text is in the results file)",
        "  evals/qa.eval.yaml:12",
    ]


def test_an_endless_word_is_cut() -> None:
    lines = summary(broken("a", "x" * 100_000))
    assert lines[2:4] == ["  [provider, timeout]", f"  {'x' * 1000}..."]


def test_errors_and_names_cannot_paint_on_the_terminal() -> None:
    lines = summary(broken("a", "\x1b[2Jgone\r\n\tnext", node_id="x::\x1b[31m\nred", error_detail=None, eval_file=None))
    assert lines[1:4] == ["x::\\x1b[31m red", "  \\x1b[2Jgone", "      next"]


def test_a_case_without_node_id_is_named_by_its_id() -> None:
    assert summary(broken("a", "boom", node_id=None))[1] == "a"


def test_an_error_of_a_file_without_a_line_is_shown_with_the_file() -> None:
    assert summary(broken("a", "boom", line=None))[3] == "  evals/qa.eval.yaml"


def test_long_names_keep_their_end_within_80_columns() -> None:
    failed = result("a", 0.5, status="fail", node_id="evals/" + "deep/" * 30 + "qa.eval.yaml::a")
    name = summary(failed, result("b"))[-2]
    assert len(name) == 80
    assert name.startswith("  1. 0.500  ...")
    assert name.endswith("/deep/qa.eval.yaml::a")


def test_bars_of_large_runs_stay_within_40_signs() -> None:
    results = [result("bad", 0.5, status="fail"), *(result(f"c{number}") for number in range(999))]
    distribution = [line for line in summary(*results) if line.startswith(("  0.4", "  0.8"))]
    assert distribution == ["  0.4-0.6:   1  #", "  0.8-1.0: 999  " + "#" * 40]


def test_metrics_are_taken_from_the_trace_summary_where_it_alone_has_them() -> None:
    traced = TraceSummary(0, (), {}, 0, token_usage=TokenUsage(1, 2), cost_usd=0.000_45)
    lines = summary(result("a", trace_summary=traced, execution_metrics=ExecutionMetrics()))
    assert "Cost:             $0.000450" in lines
    assert "Tokens:           3 (1 in, 2 out)" in lines


def test_styles_say_how_the_run_went() -> None:
    def style_of_counts(*results: EvalResult) -> str:
        return next(line.style for line in summary_lines(results) if line.text.startswith("Total"))

    failed = result("b", 0.1, status="fail")
    assert style_of_counts(result("a")) == "pass"
    assert style_of_counts(result("a"), failed) == "fail"
    assert style_of_counts(result("a"), failed, broken("c", "boom")) == "error"


def test_titles_headings_and_cases_have_styles_of_their_own() -> None:
    lines = list(summary_lines([result("a"), result("c", 0.9), broken("b", "boom")], dry_run=True))
    styled = [(line.style, line.text) for line in lines if line.style != "plain"]
    assert styled == [
        ("title", "ERRORS"),
        ("error", "evals/qa.eval.yaml::b"),
        ("title", "EVALUATION SUMMARY"),
        ("warning", "Dry run: answers and judgements were mocked, so the scores mean nothing."),
        ("error", "Total eval cases: 3 (2 passed, 0 failed, 1 error)"),
        ("heading", "Score distribution:"),
        ("heading", "Lowest performing eval cases:"),
        ("pass", "  1. 0.900  evals/qa.eval.yaml::c"),
        ("pass", "  2. 1.000  evals/qa.eval.yaml::a"),
    ]


def test_a_run_without_failures_takes_at_most_eight_lines() -> None:
    metrics = ExecutionMetrics(TokenUsage(1, 2), 0.5)
    results = [result("a", 0.9, execution_metrics=metrics), result("b", cached=True), result("c", 0.85)]
    lines = summary(*results, earlier=results[:1], elapsed_ms=1.0, results_path=Path("/r/out.jsonl"))
    assert lines == [
        "EVALUATION SUMMARY",
        "Total eval cases: 3 (3 passed, 0 failed, 0 errors)",
        "Mean score:       0.917, median 0.900, min 0.850, max 1.000, std deviation 0.076",
        "Cost:             $1.0000, known for 2 of 3 results",
        "Tokens:           6 (2 in, 4 out), known for 2 of 3 results",
        "Reruns:           1",
        "From the cache:   1",
        "Results written to: /r/out.jsonl",
    ]


NOT_ASKED = broken("b", "no such key", error_detail=ErrorDetail("setup", "config"), duration_ms=0.0)
CRASHED = broken("b", "worker died", error_detail=ErrorDetail("setup", "crash"))


@pytest.mark.parametrize(
    ("last", "earlier", "told"),
    [
        (NOT_ASKED, [], ["Cost:             $0.5000"]),
        (NOT_ASKED, ["b"], ["Cost:             $1.0000"]),
        (NOT_ASKED, ["b", "b"], ["Cost:             $1.5000", "Reruns:           1"]),
        (NOT_ASKED, ["a"], ["Cost:             $1.0000", "Reruns:           1"]),
        (CRASHED, [], ["Cost:             $0.5000, known for 1 of 2 cases"]),
        (broken("b", "HTTP 503"), [], ["Cost:             $0.5000, known for 1 of 2 cases"]),
    ],
    ids=["broken", "broken later", "broken after a rerun", "another rerun", "worker died", "asked"],
)
def test_a_case_that_could_not_be_asked_has_no_unknown_cost_and_no_rerun(
    last: EvalResult, earlier: list[str], told: list[str]
) -> None:
    paid = ExecutionMetrics(cost_usd=0.5)
    before = [result(name, execution_metrics=paid) for name in earlier]
    lines = summary(result("a", execution_metrics=paid), last, earlier=before)
    assert [line for line in lines if line.startswith(("Cost:", "Reruns:"))] == told


def test_an_error_that_pytest_has_told_takes_one_line() -> None:
    lines = summary(broken("a", "many words " * 50), shown_errors={"evals/qa.eval.yaml::a"})
    assert lines[:4] == [
        "ERRORS",
        "evals/qa.eval.yaml::a",
        "  [provider, timeout] many words many words many words many words many words ...",
        "EVALUATION SUMMARY",
    ]


@pytest.mark.parametrize(
    ("cases", "case_ms", "cpu_ms", "options", "hint"),
    [
        (48, 1_000, 900, {}, "48 cases one after another, 98 % waiting: try --agentv-workers=20"),
        (6, 8_000, 900, {}, "6 cases one after another, 98 % waiting: try --agentv-workers=6"),
        (4, 12_000, 900, {}, None),  # few cases
        (48, 100, 90, {"elapsed_ms": 4_900}, None),  # a short run
        (48, 1_000, 900, {"apart_ms": 500}, None),  # two at a time
        (48, 1_000, 900, {"apart_ms": 900}, None),  # now and then two at a time
        (48, 1_000, 900, {"apart_ms": 999}, "48 cases one after another, 98 % waiting: try --agentv-workers=20"),
        (48, 1_000, 20_000, {}, None),  # it computed
        (48, 1_000, 900, {"cached": True}, None),
    ],
)
def test_a_run_that_waited_for_one_case_after_another_says_what_to_do(
    cases: int, case_ms: float, cpu_ms: float, options: dict[str, Any], hint: str | None
) -> None:
    apart = timedelta(milliseconds=options.get("apart_ms", case_ms))
    times = [(datetime(2026, 11, 26, tzinfo=UTC) + n * apart).isoformat() for n in range(cases)]
    cached = options.get("cached")
    results = [result(f"c{n}", timestamp=time, duration_ms=case_ms, cached=cached) for n, time in enumerate(times)]
    assert waiting_hint(results, options.get("elapsed_ms", 49_000), cpu_ms) == hint
