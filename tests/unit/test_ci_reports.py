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

from pytest_agentv.cases.table_files import read_delimited
from pytest_agentv.engine.repeats import RepeatPlan, combine_answers
from pytest_agentv.model.messages import ExecutionMetrics, JudgeMetrics, TokenUsage
from pytest_agentv.model.results import ErrorDetail, EvalResult, EvaluatorResult
from pytest_agentv.model.secrets import Masker
from pytest_agentv.reports.ci import annotation_lines, code_quality, junit_xml, results_csv
from pytest_agentv.reports.markdown import MARKER, comment_lines
from pytest_agentv.store.writers import ResultSink

EVIL = "=1+1 </details> <script>x</script> ```\n````\n::error::x @team [a](javascript:x) s3cret-value \x1b[31m"


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


def test_a_comment_names_regressions_changed_answers_and_deltas() -> None:
    lines = list(comment_lines(NOW, BASE, Masker()))
    text = "\n".join(lines)
    assert lines[0] == MARKER
    assert lines[1] == "## ❌ Evaluations: 1 passed, 1 failed, 1 error"
    assert "| Passed | 100.0% | 50.0% | -50.0 points |" in lines
    assert "| Cost | $0.0400 | $0.0600 | +50% |" in lines
    assert "| Mean latency | 1.0 s | 500 ms | -50% |" in lines
    assert "| `evals/a.yaml::worse` | 1.000 pass | 0.500 fail | `facts: 30 days (0.50 < 0.80)` |" in lines
    assert "```diff\n@@ -1,2 +1,2 @@\n-Within 30 days.\n+Within 14 days.\n By post.\n```" in text
    assert lines.index("### Regressions (1)") < lines.index("<details>") < lines.index("### Errors (1)")


def test_a_comment_compares_only_what_both_runs_judged_in_the_same_way() -> None:
    """Errors counted as lower pass rates, and changed cases as regressions; new and gone cases were not told."""
    base = (*BASE, result("broken"), result("other", case_hash="a"), result("graded", grading_hash="a"))
    now = (*NOW, result("other", 0.1, case_hash="b"), result("graded", 0.1, grading_hash="b"), result("new"))
    lines = list(comment_lines(now, base, Masker()))
    assert (
        "Compared with the base over 2 cases of both. "
        "Not compared: 1 without a score, 2 changed, 1 new, 1 gone." in lines
    )
    assert "| Passed | 100.0% | 50.0% | -50.0 points |" in lines
    assert "### Regressions (2)" in lines, "worse, broken"
    assert not any("`evals/a.yaml::other` | 1.000 pass" in line for line in lines)


def test_a_comment_matches_a_run_of_several_targets_with_a_run_of_one() -> None:
    """The node ids of the one run end with its targets, so that all cases were new."""
    one = [result("a"), result("b")]
    several = [
        result(eval_id, target=target, node_id=f"evals/a.yaml::{eval_id}@{target}")
        for eval_id in "ab"
        for target in ("default", "alt")
    ]
    told = "Compared with the base over 2 cases of both. Not compared: 2"
    assert f"{told} new." in list(comment_lines(several, one, Masker()))
    assert f"{told} gone." in list(comment_lines(one, several, Masker()))
    assert "Compared with the base over 4 cases of both." in list(comment_lines(several, several, Masker()))


def test_a_comment_compares_a_run_of_one_target_with_a_run_of_another() -> None:
    other = [result("a", 0.1, target="alt"), result("b", target="alt")]
    lines = list(comment_lines(other, [result("a"), result("b")], Masker()))
    assert "Compared with the base over 2 cases of both." in lines
    assert "### Regressions (1)" in lines


def test_a_comment_tells_tests_that_share_an_id_apart() -> None:
    """As parametrized tests do that evaluate under one id."""
    tests = [
        result("same", score, eval_file="tests/test_a.py", node_id=f"tests/test_a.py::test_it[{score}]")
        for score in (1.0, 0.1)
    ]
    lines = list(comment_lines(tests, tests, Masker()))
    assert "Compared with the base over 2 cases of both." in lines
    assert not any(line.startswith("### Regressions") for line in lines)


def test_a_comment_claims_nothing_where_nothing_can_be_compared() -> None:
    lines = list(comment_lines([result("a")], [result("b")], Masker()))
    assert "Compared with the base over no case of both. Not compared: 1 new, 1 gone." in lines
    assert not any(line.startswith("| Passed") for line in lines)


def test_a_comment_shows_no_empty_diff() -> None:
    old, new = result("a", candidate_answer="x" * 2_000), result("a", candidate_answer="x" * 2_001)
    lines = list(comment_lines([new], [old], Masker()))
    assert "They are the same in what is shown: 2,000 characters, without secrets." in lines
    assert "```diff" not in lines


def test_a_comment_on_a_dry_run_claims_nothing() -> None:
    lines = list(comment_lines([each.replace(dry_run=True) for each in BASE], BASE, Masker()))
    assert lines[1] == "## ⚠️ Evaluations: 3 passed"
    assert "**Dry run**: answers and judgements were mocked, so the scores mean nothing." in lines
    assert "Compared with the base over no case of both. Not compared: 3 without a score." in lines
    assert not any(line.startswith("| Passed") for line in lines)


def test_a_report_on_mocked_answers_beside_others_claims_nothing(agentv: Any, tmp_path: Path) -> None:
    run = stored(tmp_path / "run.jsonl", result("a"), result("b", dry_run=True))
    told = agentv("report", run).out
    assert "## ⚠️ Evaluations: 2 passed" in told
    assert "`1 of 2 cases are of a dry run: their scores mean nothing`" in told
    assert "dry run" not in agentv("report", stored(tmp_path / "real.jsonl", result("a"))).out


def test_a_comment_says_of_how_many_cases_a_cost_is_known() -> None:
    base = [result("a", execution_metrics=paid(0.02, 1_000)), result("b"), result("c")]
    now = [result("a", execution_metrics=paid(0.03, 1_000)), result("b"), result("c")]
    assert "| Cost, known for 1 of 3 | $0.0200 | $0.0300 | +50% |" in list(comment_lines(now, base, Masker()))


def test_a_comment_compares_no_cost_of_some_answers_with_that_of_all() -> None:
    answers = [result("a", execution_metrics=metrics) for metrics in (paid(0.01, 10), None)]
    part = combine_answers(answers, RepeatPlan(2, 0.5, "file", stops_early=False), together=True)
    base = [part.replace(execution_metrics=paid(0.02, 20), repeat=None), result("b", execution_metrics=paid(0.02, 9))]
    now = [part, result("b", execution_metrics=paid(0.03, 9))]
    assert "| Cost, known for 1 of 2 | $0.0200 | $0.0300 | +50% |" in list(comment_lines(now, base, Masker()))


def test_a_comment_without_a_base_has_no_comparison() -> None:
    lines = list(comment_lines(NOW, None, Masker()))
    assert lines[1].startswith("## ❌ Evaluations")
    assert not any("Base" in line or line == "<details>" for line in lines)


def test_no_text_leaves_its_place_in_a_comment() -> None:
    old = result("x", candidate_answer="before")
    new = result("x", 0.1, candidate_answer=EVIL, misses=(EVIL,), error=EVIL)
    lines = list(comment_lines([new], [old], Masker(["s3cret-value"])))
    assert "s3cret-value" not in "\n".join(lines)
    assert "\x1b" not in "\n".join(lines)
    start = next(index for index, line in enumerate(lines) if line.endswith("`diff"))
    fence = lines[start].removesuffix("diff")
    assert len(fence) == 5, "longer than any in the answer"
    end = lines.index(fence)
    outside = lines[:start] + lines[end:]
    assert not any("<script>" in line and "`" not in line for line in outside)
    assert sum(line == "</details>" for line in outside) == 1


@pytest.mark.parametrize("limit", [3_000, 10_000, 65_000])
def test_a_comment_stays_within_its_limit(limit: int) -> None:
    old = [result(f"c{n}", candidate_answer="a" * 5_000) for n in range(100)]
    new = [result(f"c{n}", 0.1, candidate_answer="b" * 5_000, misses=("m" * 500,)) for n in range(100)]
    lines = list(comment_lines(new, old, Masker(), limit))
    assert sum(len(line.encode()) + 1 for line in lines) <= limit
    assert lines[0] == MARKER


def test_a_comment_counts_the_cost_of_reruns_as_the_summary_does(agentv: Any, tmp_path: Path) -> None:
    lines = [
        result("a", run_id="r", timestamp=str(n), execution_metrics=paid(cost, 1.0)) for n, cost in enumerate((1, 2, 4))
    ]
    told = agentv("report", stored(tmp_path / "run.jsonl", *lines)).out
    assert "| $7.0000 | 2 |" in told
    again = stored(tmp_path / "again.jsonl", lines[0], lines[0].replace(tags=("new",)), *lines[1:])
    assert "| $7.0000 | 2 |" in agentv("report", again).out  # a line that says a result anew was paid for once
    others = [each.replace(run_id=str(n)) for n, each in enumerate(lines)]
    assert "| $4.0000 |" in agentv("report", stored(tmp_path / "other.jsonl", *others)).out


def test_a_comment_compares_costs_with_those_of_reruns(agentv: Any, tmp_path: Path) -> None:
    """It said $7.0000 above a table with $4.0000."""
    lines = [result("a", run_id="r", timestamp=str(n), execution_metrics=paid(n, 1.0)) for n in (1, 2, 4)]
    run, base = stored(tmp_path / "run.jsonl", *lines), stored(tmp_path / "base.jsonl", *lines[1:])
    assert "| Cost | $6.0000 | $7.0000 | +17% |" in agentv("report", run, base).out
    unknown = stored(tmp_path / "unknown.jsonl", lines[0].replace(execution_metrics=None), *lines[1:])
    assert "| Cost |" not in agentv("report", unknown, base).out.split("Compared with")[1]
    cached = stored(tmp_path / "cached.jsonl", lines[0].replace(cached=True), *lines[1:])
    assert "| Cost | $6.0000 | $6.0000 | +0% |" in agentv("report", cached, base).out


def test_report_prints_and_writes(agentv: Any, tmp_path: Path) -> None:
    run, base = stored(tmp_path / "run.jsonl", *NOW, NOW[0]), stored(tmp_path / "base.jsonl", *BASE)
    printed = agentv("report", run, base)
    assert printed.exit_code == 0
    assert printed.out.startswith(MARKER)
    assert "run.jsonl: 1 earlier result of the same cases was left out" in printed.err
    written = agentv("report", run, "--format=gitlab-codequality", "-o", str(tmp_path / "q.json"))
    assert written.exit_code == 0
    entries = json.loads((tmp_path / "q.json").read_text())
    assert [(entry["severity"], entry["location"]) for entry in entries] == [
        ("major", {"path": "evals/a.yaml", "lines": {"begin": 3}}),
        ("critical", {"path": "evals/a.yaml", "lines": {"begin": 3}}),
    ]
    assert entries[0]["description"] == "evals/a.yaml::worse: facts: 30 days (0.50 < 0.80)"
    assert len({entry["fingerprint"] for entry in entries}) == 2
    (tmp_path / "empty.jsonl").write_text("")
    assert agentv("report", str(tmp_path / "empty.jsonl")).exit_code == 2
    for written in ("junit", "gitlab-codequality"):
        refused = agentv("report", run, base, f"--format={written}")
        assert (refused.exit_code, refused.out) == (2, "")
        assert f"--format={written} compares with no other run: leave out {base}" in refused.err


def test_convert_writes_junit(agentv: Any, tmp_path: Path) -> None:
    run = stored(tmp_path / "run.jsonl", *NOW, result("evil", 0.1, candidate_answer=EVIL))
    for arguments in (("-o", str(tmp_path / "a.xml")), ("--format=junit", "-o", str(tmp_path / "b.txt"))):
        assert agentv("convert", run, *arguments).exit_code == 0
        [suite] = ElementTree.parse(arguments[-1]).getroot()
        assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("4", "2", "1")
        worse = suite[1]
        assert (worse.get("file"), worse.get("line"), worse.get("name")) == ("evals/a.yaml", "3", "worse")
        assert worse[1].get("message") == "facts: 30 days (0.50 < 0.80)"
        assert worse[1].tag == "failure"
        assert suite[2][1].tag == "error"


def test_convert_writes_csv_that_no_spreadsheet_runs(agentv: Any, tmp_path: Path) -> None:
    run = stored(tmp_path / "run.jsonl", *NOW, result("evil", 0.1, candidate_answer=EVIL))
    assert agentv("convert", run, "-o", str(tmp_path / "run.csv")).exit_code == 0
    with (tmp_path / "run.csv").open(newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    assert [row["eval_id"] for row in rows] == ["good", "worse", "broken", "evil"]
    assert rows[1]["score: facts"] == "0.5"
    assert rows[0]["score: facts"] == ""
    assert rows[2]["score"] == ""
    assert rows[3]["candidate_answer"].startswith("'=1+1")


def test_csv_begins_with_a_byte_order_mark_in_a_file_only(agentv: Any, tmp_path: Path) -> None:
    """Excel takes a file without it for one in the encoding of the system."""
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


@pytest.mark.parametrize("name", ["run.csv", "run.xml"])
def test_convert_tells_by_its_exit_code_what_it_left_out(agentv: Any, tmp_path: Path, name: str) -> None:
    run = tmp_path / "run.jsonl"
    stored(run, *NOW, NOW[0])
    assert agentv("convert", str(run), "-o", str(tmp_path / name)).exit_code == 0, "an earlier result is no fault"
    with run.open("a") as file:
        file.write('{"eval_id": "half')
    converted = agentv("convert", str(run), "-o", str(tmp_path / name), "--force")
    assert (converted.exit_code, converted.out.split(" to ")[0]) == (1, "Converted 3 results")
    assert "run.jsonl:5: the last line is incomplete" in converted.err


def test_stored_results_tell_what_judges_cost_apart_from_the_answer() -> None:
    judged = result("judged", execution_metrics=paid(0.02, 1), judge_metrics=JudgeMetrics(2, cost_usd=0.05))
    results = (judged, result("plain"))
    rows = list(csv.DictReader(io.StringIO(results_csv(results, Masker()))))
    assert [(row["cost_usd"], row["judge_cost_usd"]) for row in rows] == [("0.02", "0.05"), ("", "")]
    suite = ElementTree.fromstring(junit_xml(results, Masker()))[0]
    costs = [{each.get("name"): each.get("value") for each in case.iter("property")} for case in suite]
    names = ("agentv_cost_usd", "agentv_judge_cost_usd")
    assert [tuple(map(each.get, names)) for each in costs] == [("0.02", "0.05"), (None, None)]


@pytest.mark.parametrize(
    ("eval_file", "node_id", "eval_id", "address"),
    [
        ("evals/test_a.py", "evals/test_a.py::TestA::TestB::test_x", "test_x", ("evals.test_a.TestA.TestB", "test_x")),
        ("test_a.py", "test_a.py::test_q[a::b[c]]", "test_q[a::b[c]]", ("test_a", "test_q[a::b[c]]")),
        ("test_a.py", "test_a.py::test_q[::1]", "named", ("test_a", "test_q[::1] (named)")),
        ("a[1]/b.yaml", "a[1]/b.yaml::x@gpt-y", "x@y", ("a[1].b.yaml", "x@gpt-y")),
        (None, None, "a::b", ("qa", "a::b")),
    ],
)
def test_a_case_has_the_names_of_its_item_in_junit(
    eval_file: str | None, node_id: str | None, eval_id: str, address: tuple[str, str]
) -> None:
    [[case]] = ElementTree.fromstring(junit_xml([result(eval_id, eval_file=eval_file, node_id=node_id)], Masker()))
    assert (case.get("classname"), case.get("name")) == address


@pytest.mark.parametrize("name", ["r.html", "r.md", "r.junit", "r.gitlab-codequality"])
def test_a_report_masks_what_its_results_show(
    agentv: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Results of another program, or of a run that did not know the secret. The page showed it."""
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
    """As other programs write them. The reports ended with a traceback."""
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
    """Two costs of 1e308 ended the reports with a traceback."""
    judged = {"judge_metrics": JudgeMetrics(2, token_usage=TokenUsage(1, 2), cost_usd=0.5)}
    run = stored(tmp_path / "run.jsonl", *(each.replace(**judged) for each in NOW))
    path = tmp_path / "run.jsonl"
    path.write_text(re.sub(r'"(cost_usd|input)":[\d.]+', rf'"\1":{odd}', path.read_text()))
    for form in ("html", "markdown", "junit"):
        assert agentv("report", run, f"--format={form}", "-o", str(tmp_path / form)).exit_code == 0
    assert agentv("convert", run, "-o", str(tmp_path / "r.csv")).exit_code == 0
    assert not {"Cost", "Tokens"} & {each.strip() for each in (tmp_path / "markdown").read_text().split("|")}
    assert "agentv_cost_usd" not in (tmp_path / "junit").read_text()


@pytest.mark.parametrize("score", ["1e308", "-1e308", "1e999", "1" + "0" * 400])
def test_a_score_that_nothing_can_be_computed_with_is_none(agentv: Any, tmp_path: Path, score: str) -> None:
    """Scores beyond 0 to 1 are read beside a threshold of their scale. Large ones ended reports with a traceback."""
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
    root = ElementTree.fromstring(junit_xml(hostile, Masker()))
    assert len(list(root.iter("testcase"))) == len(HOSTILE)


def test_every_text_can_be_written_as_csv(hostile: list[EvalResult]) -> None:
    assert results_csv(hostile, Masker()).encode()


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_no_cell_is_a_formula_whatever_separates_cells(hostile: list[EvalResult], delimiter: str) -> None:
    rows = list(csv.reader(io.StringIO(results_csv(hostile, Masker()), newline=""), delimiter=delimiter))
    cells = [cell for row in rows for cell in row]
    assert not [cell for cell in cells if re.match(r"\s*([=@\uff1d]|[+-]\S)", cell)]
    assert delimiter != "," or len(rows) == len(HOSTILE) + 1


def test_a_comment_renders_to_tables_and_code_alone(hostile: list[EvalResult]) -> None:
    markdown = pytest.importorskip("markdown_it", reason="rich brings it along")
    base = [each.replace(candidate_answer="other", score=1.0, status="pass", error=None) for each in hostile]
    text = "\n".join(comment_lines(hostile, base, Masker()))
    html = markdown.MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
    html = html.replace(MARKER, "", 1)
    allowed = "code|p|pre|h2|h3|table|thead|tbody|tr|th|td|details|summary"
    assert re.findall(rf"<(?!/?(?:{allowed})\b)[^>]*>", html) == []
    assert html.count("<details>") == html.count("</details>") <= 1


def test_no_text_gives_github_a_command(hostile: list[EvalResult]) -> None:
    for line in annotation_lines(hostile, (), Masker()):
        assert line.startswith("::error ")
        assert line.count("::") == 2
        assert not set(line) & set("\r\n\x1b\0")


def test_code_quality_is_json(hostile: list[EvalResult]) -> None:
    entries = json.loads(json.dumps(code_quality(hostile, Masker())))
    assert len({entry["fingerprint"] for entry in entries}) == len(HOSTILE)
