"""Reports of stored results: a comment, code quality, JUnit, CSV."""

import base64
import csv
import gzip
import io
import json
import os
import re
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from thorough import varied
from views import view_of_results

from pytest_agentv.cases.tables import read_delimited
from pytest_agentv.engine.repeats import RepeatPlan, combine_answers
from pytest_agentv.model.messages import Costs, ExecutionMetrics, TokenUsage
from pytest_agentv.model.results import ErrorDetail, EvalResult, EvaluatorResult, Spent
from pytest_agentv.model.secrets import Masker
from pytest_agentv.reports.ci import MARKER, annotation_lines, code_quality, comment_lines, junit_xml, results_csv
from pytest_agentv.reports.compare import compare_scores, comparison_lines
from pytest_agentv.reports.figures import result_properties
from pytest_agentv.reports.html.page import cost_line
from pytest_agentv.reports.view import Ending
from pytest_agentv.store.writers import ResultSink


def result(eval_id: str, score: float = 1.0, **changes: Any) -> EvalResult:
    plain = EvalResult("t", eval_id, "qa", score, (), (), "answer", "default", threshold=0.8, line=3)
    place = {"node_id": f"evals/a.yaml::{eval_id}", "eval_file": "evals/a.yaml", "duration_ms": 1500.0}
    return plain.replace(**(place | {"status": "pass" if score >= 0.8 else "fail"} | changes))


def paid(cost: float, duration_ms: float) -> ExecutionMetrics:
    return ExecutionMetrics(cost_usd=cost, duration_ms=duration_ms)


BASE = (
    result("good", execution_metrics=paid(0.02, 1_000)),
    result("worse", candidate_answer="Within 30 days.\nBy post.", execution_metrics=paid(0.02, 1_000)),
    result("gone"),
)
NOW = (
    result("good", execution_metrics=paid(0.03, 500)),
    result(
        "worse",
        0.5,
        misses=("30 days",),
        candidate_answer="Within 14 days.\nBy post.",
        execution_metrics=paid(0.03, 500),
        evaluator_results=(EvaluatorResult("facts", "llm_judge", 0.5, 1.0, misses=("30 days",)),),
    ),
    result("broken", 0.0, status="error", error="no key", error_detail=ErrorDetail("setup", "auth")),
)


def stored(path: Path, *results: EvalResult) -> str:
    sink = ResultSink(path, "jsonl", Masker())
    path.write_text("".join(map(sink.serialize, results)))
    return str(path)


def test_a_comment_shows_no_empty_diff() -> None:
    old, new = result("a", candidate_answer="x" * 2_000), result("a", candidate_answer="x" * 2_001)
    lines = list(comment_lines(view_of_results(new), view_of_results(old), Masker()))
    assert "They are the same in what is shown: 2,000 characters, without secrets." in lines
    assert "```diff" not in lines


def test_a_report_on_mocked_answers_beside_others_claims_nothing(agentv: Any, tmp_path: Path) -> None:
    run = stored(tmp_path / "run.jsonl", result("a"), result("b", dry_run=True))
    told = agentv("report", run).out
    assert "## ⚠️ Evaluations: 2 passed" in told
    assert "`1 of 2 cases are of a dry run: their scores mean nothing`" in told
    assert "dry run" not in agentv("report", stored(tmp_path / "real.jsonl", result("a"))).out


def test_a_comment_compares_no_cost_of_some_answers_with_that_of_all() -> None:
    answers = [result("a", execution_metrics=metrics) for metrics in (paid(0.01, 10), None)]
    part = combine_answers(answers, RepeatPlan(2, 0.5, "file", stops_early=False), together=True)
    base = [part.replace(execution_metrics=paid(0.02, 20), repeat=None), result("b", execution_metrics=paid(0.02, 9))]
    now = [part, result("b", execution_metrics=paid(0.03, 9))]
    assert "| Cost, known for 1 of 2 | $0.0200 | $0.0300 | +50% |" in list(
        comment_lines(view_of_results(*now), view_of_results(*base), Masker())
    )


@pytest.mark.parametrize("limit", [3_000, 10_000, 65_000])
def test_a_comment_stays_within_its_limit(limit: int) -> None:
    old = [result(f"c{n}", candidate_answer="a" * 5_000) for n in range(100)]
    new = [result(f"c{n}", 0.1, candidate_answer="b" * 5_000, misses=("m" * 500,)) for n in range(100)]
    lines = list(comment_lines(view_of_results(*new), view_of_results(*old), Masker(), limit))
    assert sum(len(line.encode()) + 1 for line in lines) <= limit
    assert lines[0] == MARKER


def test_csv_begins_with_a_byte_order_mark_in_a_file_only(agentv: Any, tmp_path: Path) -> None:
    run = stored(tmp_path / "run.jsonl", result("東京", 1.0, candidate_answer="営業時間は9時から"))
    path = tmp_path / "run.csv"
    for _ in range(2):
        assert agentv("convert", run, "-o", str(path), "--force").exit_code == 0
        assert path.read_bytes().startswith(b"\xef\xbb\xbfeval_file,")
    assert b"\xef\xbb\xbf" not in path.read_bytes()[3:]
    (row,) = read_delimited(path)
    assert (row.values["eval_id"], next(iter(row.values))) == ("東京", "eval_file")
    assert agentv("convert", run, "-o", str(tmp_path / "run.xml")).exit_code == 0
    assert (tmp_path / "run.xml").read_bytes().startswith(b"<?xml")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as reader:
        read = reader.submit(pipe.read_bytes)
        assert agentv("convert", run, "-o", str(pipe), "--format=csv", "--force").exit_code == 0
        assert read.result(10) == path.read_bytes()[3:]


@pytest.mark.parametrize("name", ["r.html", "r.md", "r.junit", "r.gitlab-codequality"])
def test_a_report_masks_what_its_results_show(
    agentv: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    secret = "sk-4f9a8b7c6d5e"
    texts = {"candidate_answer": secret, "reasoning": secret, "misses": (secret,), "expected_outcome": secret}
    judged = EvaluatorResult("facts", "llm_judge", 0.5, misses=(secret,), reasoning=secret)
    now = result("worse", 0.5, evaluator_results=(judged,), **texts)
    broken = result("broken", 0.0, status="error", error=f"bad key {secret}", error_detail=ErrorDetail("setup", "auth"))
    run, base = stored(tmp_path / "run.jsonl", now, broken), stored(tmp_path / "base.jsonl", result("worse", **texts))
    monkeypatch.setenv("SHOP_API_KEY", secret)
    form = {"r.html": "html", "r.md": "markdown"}.get(name, name.removeprefix("r."))
    bases = [base] if form in ("html", "markdown") else []
    assert agentv("report", run, *bases, f"--format={form}", "-o", str(tmp_path / name)).exit_code == 0
    text = (tmp_path / name).read_text()
    packed = [gzip.decompress(base64.b64decode(each)).decode() for each in re.findall(r">(H4sI[\w+/=]+)<", text)]
    assert bool(packed) == (form == "html")
    assert secret not in "".join((text, *packed))
    assert "***" in "".join((text, *packed))
    assert "worse" in text


@pytest.mark.parametrize("odd", ["NaN", varied("1e999"), "1e308", varied("-1e308"), varied("-1")])
def test_times_that_are_no_numbers_are_not_known(agentv: Any, tmp_path: Path, odd: str) -> None:
    run, base = stored(tmp_path / "run.jsonl", *NOW), stored(tmp_path / "base.jsonl", *BASE)
    path = tmp_path / "run.jsonl"
    path.write_text(re.sub(r'"duration_ms":\d+', f'"duration_ms":{odd}', path.read_text()))
    for form in ("html", "markdown", "junit"):
        bases = [base] if form != "junit" else []
        assert agentv("report", run, *bases, f"--format={form}", "-o", str(tmp_path / form)).exit_code == 0
    comment = (tmp_path / "markdown").read_text()
    assert "Mean latency" not in comment
    assert "| Cost | $0.0400 | $0.0600 | +50% |" in comment
    [suite] = ElementTree.parse(tmp_path / "junit").getroot()
    assert {each.get("time") for each in suite.iter()} - {None} == {"0.000"}


@pytest.mark.parametrize("odd", ["NaN", varied("1e999"), "1e308", varied("-1e308"), varied("-1")])
def test_costs_and_tokens_that_are_no_numbers_are_not_known(agentv: Any, tmp_path: Path, odd: str) -> None:
    paid = Costs.of_call(TokenUsage(1, 2), 0.5)
    run = stored(tmp_path / "run.jsonl", *(each.replace(spent=Spent(paid, paid)) for each in NOW))
    path = tmp_path / "run.jsonl"
    path.write_text(re.sub(r'"(cost_usd|input)":[\d.]+', rf'"\1":{odd}', path.read_text()))
    for form in ("html", "markdown", "junit"):
        assert agentv("report", run, f"--format={form}", "-o", str(tmp_path / form)).exit_code == 0
    assert agentv("convert", run, "-o", str(tmp_path / "r.csv")).exit_code == 0
    assert not {"Cost", "Tokens"} & {each.strip() for each in (tmp_path / "markdown").read_text().split("|")}
    assert "agentv_cost_usd" not in (tmp_path / "junit").read_text()


@pytest.mark.parametrize("score", ["1e308", "-1e308", "1e999", "1" + "0" * 400])
def test_a_score_that_nothing_can_be_computed_with_is_none(agentv: Any, tmp_path: Path, score: str) -> None:
    lines = [f'{{"eval_id": "{number}", "score": {score}, "threshold": 60}}' for number in range(3)]
    (tmp_path / "run.jsonl").write_text("\n".join([*lines, '{"eval_id": "x", "score": 70, "threshold": 60}']))
    path, page = str(tmp_path / "run.jsonl"), tmp_path / "r.html"
    done = agentv("report", path, "-o", str(page))
    assert (done.exit_code, done.err.count("has no score")) == (0, 3)
    done = agentv("compare", path, path)
    assert (done.exit_code, done.err.count("has no score"), json.loads(done.out)["summary"]["total"]) == (0, 6, 1)


HOSTILE = (
    "=1+1", " =1+1", "\n=cmd()", "\uff1d1+1", "@SUM(1)", "a;=cmd()", "a\t+cmd()", 'x";"=cmd()', "x\ufffey\uffff\0",
    "<img src=x onerror=alert(1)>", "[a](javascript:x)", "![x](http://evil.example/x.png)", "`code` ``two``", "`", "\\",
    "a|b\\|c", "@team #12 http://evil.example", "</details><script>x</script>", "``````\n</details>\n<img src=x>",
    "-->", "\u202e\u2028x\x85y", "]]>", "```\n# H", "~~~\n<b>x</b>", "<!-- x", "\x00\x1b[31m", "x\\`<b>", "\ud800",
    "| a |\n|---|\n| <i>c</i> |", "::error::x\n::set-output name=a::b", "a\r::error::x", "##vso[task.setvariable]x",
)  # fmt: skip


@pytest.fixture(params=["fail", "error"])
def hostile(request: pytest.FixtureRequest) -> list[EvalResult]:
    """Results of which each text is an attack: names, answers, reasons, errors."""
    return [
        result(
            f"{number} {text}", 0.1, status=request.param, misses=(text,), hits=(text,), candidate_answer=text,
            target=text or "t", node_id=f"a/{text}.yaml::{number} {text}", eval_file=f"a/{text}.yaml", reasoning=text,
            expected_outcome=text, reference_answer=text, tags=(text,),
            error=text if request.param == "error" else None,
            evaluator_results=(EvaluatorResult(text, "llm_judge", 0.1, misses=(text,), reasoning=text),),
        )
        for number, text in enumerate(HOSTILE)
    ]  # fmt: skip


def test_no_text_breaks_junit(hostile: list[EvalResult]) -> None:
    root = ElementTree.fromstring(junit_xml(view_of_results(*hostile), Masker()))
    assert len(list(root.iter("testcase"))) == len(HOSTILE)


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_no_cell_is_a_formula_whatever_separates_cells(hostile: list[EvalResult], delimiter: str) -> None:
    rows = list(
        csv.reader(io.StringIO(results_csv(view_of_results(*hostile), Masker()), newline=""), delimiter=delimiter)
    )
    cells = [cell for row in rows for cell in row]
    assert not [cell for cell in cells if re.match(r"\s*([=@\uff1d]|[+-]\S)", cell)]
    assert delimiter != "," or len(rows) == len(HOSTILE) + 1


def test_a_comment_renders_to_tables_and_code_alone(hostile: list[EvalResult]) -> None:
    markdown = pytest.importorskip("markdown_it", reason="rich brings it along")
    base = [each.replace(candidate_answer="other", score=1.0, status="pass", error=None) for each in hostile]
    text = "\n".join(comment_lines(view_of_results(*hostile), view_of_results(*base), Masker()))
    html = markdown.MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
    html = html.replace(MARKER, "", 1)
    allowed = "code|p|pre|h2|h3|table|thead|tbody|tr|th|td|details|summary"
    assert re.findall(rf"<(?!/?(?:{allowed})\b)[^>]*>", html) == []
    assert html.count("<details>") == html.count("</details>") <= 2


def test_no_text_gives_github_a_command(hostile: list[EvalResult]) -> None:
    for line in annotation_lines(view_of_results(*hostile), Masker()):
        assert line.startswith("::error ")
        assert line.count("::") == 2
        assert not set(line) & set("\r\n\x1b\0")


def test_code_quality_is_json(hostile: list[EvalResult]) -> None:
    entries = json.loads(json.dumps(code_quality(view_of_results(*hostile), Masker())))
    assert len({entry["fingerprint"] for entry in entries}) == len(HOSTILE)


def test_an_error_is_marked_on_github_where_a_failure_was_expected() -> None:
    broken = result("tent", 0.0, status="error", error="no key")
    ending = Ending(expected=frozenset({"evals/a.yaml::tent"}))
    [line] = annotation_lines(view_of_results(broken, ending=ending), Masker())
    assert line.endswith("::no key")


def test_no_text_can_give_commands_to_github_or_hold_secrets() -> None:
    evil = "100%\r\n::add-mask::x\n::error::y s3cret-value ::stop-commands::z"
    told = result("x", 0.5, misses=(evil,), eval_file="a,b:c%\n.yaml", node_id=f"a::{evil}")
    [line] = annotation_lines(view_of_results(told), Masker(["s3cret-value"]))
    assert not set(line) & {"\n", "\r"}
    assert "100%25" in line
    assert "file=a%2Cb%3Ac%25%0A.yaml,line=3,title=" in line
    assert line.count("::") == 2, "that of the command and that before its text"
    assert "s3cret-value" not in line.split("::")[2]


def test_a_field_of_the_table_is_in_each_output() -> None:
    """`model` has an entry in the table of fields, and no output names it."""
    old, new = result("a", model="gpt-4.1-mini"), result("a", model="gpt-5-mini")
    row = next(csv.DictReader(io.StringIO(results_csv(view_of_results(new), Masker()))))
    assert row["model"] == "gpt-5-mini"
    assert dict(result_properties(new))["agentv_model"] == "gpt-5-mini"
    assert cost_line(new).startswith("gpt-5-mini")
    both = [view_of_results(each).cases for each in (old, new)]
    assert "Model: gpt-4.1-mini → gpt-5-mini" in list(comparison_lines(compare_scores(*both, 0.1), "old", "new"))
