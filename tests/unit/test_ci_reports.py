"""Reports of stored results: a comment, code quality, JUnit, CSV; no text of a result gets out of its place."""

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

from pytest_agentv.model.results import EvalResult
from pytest_agentv.model.secrets import Masker
from pytest_agentv.reports.ci import MARKDOWN_LIMIT, annotation_lines, markdown_lines
from pytest_agentv.reports.view import RunEnding, RunView, Trouble

MARKER = "<!-- pytest-agentv: evaluations -->"
FORMS = ("html", "markdown", "junit", "gitlab-codequality")


def line(eval_id: str, score: float = 1.0, **changes: Any) -> dict[str, Any]:
    place = {"node_id": f"evals/a.yaml::{eval_id}", "eval_file": "evals/a.yaml", "line": 3, "duration_ms": 1500.0}
    usual = {"timestamp": "t", "dataset": "qa", "hits": [], "misses": [], "candidate_answer": "answer"}
    verdict = {"target": "default", "threshold": 0.8, "status": "pass" if score >= 0.8 else "fail", "attempts": 1}
    return {"eval_id": eval_id, "score": score, **usual, **place, **verdict, **changes}


def judged(name: str, score: float, **more: Any) -> list[dict[str, Any]]:
    return [{"name": name, "type": "llm_judge", "score": score, "hits": [], "misses": [], **more}]


def paid(cost: float, duration_ms: float) -> dict[str, Any]:
    return {"execution_metrics": {"cost_usd": cost, "duration_ms": duration_ms}}


@pytest.fixture
def report(agentv: Any) -> Any:
    """Return the text of a report on some results, compared with others."""

    def report(form: str, now: list[dict[str, Any]], base: list[dict[str, Any]] | None = None) -> str:
        for name, lines in (("run", now), ("base", base or [])):
            Path(f"{name}.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
        bases = ["base.jsonl"] if base else []
        words = ["convert", "run.jsonl"] if form in ("csv", "junit") else ["report", "run.jsonl", *bases]
        done = agentv(*words, f"--format={form}", "-o", "out", *(["--force"] if words[0] == "convert" else []))
        assert done.exit_code == 0, done.err
        return Path("out").read_text("utf-8-sig")

    return report


def test_a_comment_shows_no_empty_diff(report: Any) -> None:
    text = report("markdown", [line("a", candidate_answer="x" * 2_001)], [line("a", candidate_answer="x" * 2_000)])
    assert "They are the same in what is shown: 2,000 characters, without secrets." in text
    assert "```diff" not in text


def test_a_report_on_mocked_answers_beside_others_claims_nothing(report: Any) -> None:
    told = report("markdown", [line("a"), line("b", dry_run=True)])
    assert "## ⚠️ Evaluations: 2 passed" in told
    assert "`1 of 2 cases are of a dry run: their scores mean nothing`" in told


def test_a_comment_stays_within_its_limit(report: Any) -> None:
    old = [line(f"c{n}", candidate_answer="a" * 5_000) for n in range(100)]
    new = [line(f"c{n}", 0.1, candidate_answer="b" * 5_000, misses=["m" * 500]) for n in range(100)]
    text = report("markdown", new, old)
    assert 30_000 < len(text.encode()) <= 65_536
    assert text.startswith(MARKER)


def test_csv_begins_with_a_byte_order_mark_in_a_file_only(agentv: Any, report: Any) -> None:
    text = report("csv", [line("東京", candidate_answer="営業時間は9時から")])
    assert Path("out").read_bytes().startswith(b"\xef\xbb\xbfeval_file,")
    (row,) = csv.DictReader(io.StringIO(text))
    assert (row["eval_id"], next(iter(row))) == ("東京", "eval_file")
    os.mkfifo("pipe")
    with ThreadPoolExecutor(1) as reader:
        read = reader.submit(Path("pipe").read_text, "utf-8")
        assert agentv("convert", "run.jsonl", "-o", "pipe", "--format=csv", "--force").exit_code == 0
        assert read.result(10).splitlines() == text.splitlines()


@pytest.mark.parametrize("form", FORMS)
def test_a_report_masks_what_its_results_show(report: Any, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    secret = "sk-4f9a8b7c6d5e"
    texts = {"candidate_answer": secret, "reasoning": secret, "misses": [secret], "expected_outcome": secret}
    now = line("worse", 0.5, evaluator_results=judged("facts", 0.5, misses=[secret], reasoning=secret), **texts)
    detail = {"stage": "setup", "kind": "auth"}
    broken = line("broken", 0.0, status="error", error=f"bad key {secret}", error_detail=detail)
    monkeypatch.setenv("SHOP_API_KEY", secret)
    text = report(form, [now, broken], [line("worse", **texts)] if form in ("html", "markdown") else None)
    packed = [gzip.decompress(base64.b64decode(each)).decode() for each in re.findall(r">(H4sI[\w+/=]+)<", text)]
    assert bool(packed) == (form == "html")
    assert secret not in "".join((text, *packed))
    assert "***" in "".join((text, *packed))
    assert "worse" in text


@pytest.mark.parametrize("odd", ["NaN", varied("1e999"), "1e308", varied("-1e308"), varied("-1")])
def test_times_costs_and_tokens_that_are_no_numbers_are_not_known(agentv: Any, odd: str) -> None:
    figures = {"calls": 1, "cost_usd": 0.5, "cost_known": 1, "input": 1, "output": 2, "tokens_known": 1}
    text = "".join(json.dumps(line(name, spent={"answer": figures, "judge": figures}, **paid(0.5, 9))) for name in "ab")
    text = re.sub(r'"(cost_usd|input|duration_ms)": [\d.]+', rf'"\1": {odd}', text).replace("}{", "}\n{")
    Path("run.jsonl").write_text(text)
    for form in ("html", "markdown", "junit"):
        assert agentv("report", "run.jsonl", f"--format={form}", "-o", form).exit_code == 0
    assert agentv("convert", "run.jsonl", "-o", "r.csv").exit_code == 0
    assert not {"Cost", "Tokens", "Mean latency"} & {each.strip() for each in Path("markdown").read_text().split("|")}
    assert "agentv_cost_usd" not in Path("junit").read_text()
    [suite] = ElementTree.parse("junit").getroot()
    assert {each.get("time") for each in suite.iter()} - {None} == {"0.000"}


@pytest.mark.parametrize("score", ["1e308", "-1e308", "1e999", "1" + "0" * 400])
def test_a_score_that_nothing_can_be_computed_with_is_none(agentv: Any, score: str) -> None:
    lines = [f'{{"eval_id": "{number}", "score": {score}, "threshold": 60}}' for number in range(3)]
    Path("run.jsonl").write_text("\n".join([*lines, '{"eval_id": "x", "score": 70, "threshold": 60}']))
    done = agentv("report", "run.jsonl", "-o", "r.html")
    assert (done.exit_code, done.err.count("has no score")) == (0, 3)
    done = agentv("compare", "run.jsonl", "run.jsonl")
    assert (done.exit_code, done.err.count("has no score"), json.loads(done.out)["summary"]["total"]) == (0, 6, 1)


OTHERS = (
    *({"repeat": 3}, {"repeat": "3"}, {"repeat": [1]}, {"repeat": {}}, {"repeat": {"scores": [1, None]}}),
    *({"repeat": {"passes": -3}}, {"repeat": {"passes": None}}, {"repeat": {"asked": "x", "planned": []}}),
    *({"repeat": {"stopped": [1]}}, {"repeat": {"confirm": 5}}, {"repeat": {"confirm": {"asked": 1}}}),
    *({"repeat": {"confirm": {"asked": a, "judged": b, "passes": c}}} for a, b, c in ((9, 5, 6), (5, 9, 3))),
    *({"repeat": {"tools": 5}}, {"repeat": {"tools": [1, 2]}}, {"repeat": {"same_text": "x"}}),
    *({"tags": 5}, {"tags": "abc"}, {"group": {}}, {"conversation_id": [5]}, {"status": ["pass"]}),
    *({"eval_file": 5}, {"target": ["x"]}, {"node_id": 5}, {"case_hash": 3}, {"required": "no"}),
)


def test_what_another_tool_writes_under_our_keys_ends_nothing(agentv: Any, report: Any) -> None:
    lines = [{"eval_id": f"a{n}", "score": 0.9, "threshold": 0.8, **other} for n, other in enumerate(OTHERS)]
    assert "</html>" in report("html", lines)
    told = json.loads(agentv("compare", "run.jsonl", "run.jsonl", "--statistics", "--format=json").out)
    assert (told["n"], told["mean"]) == (len(OTHERS), 1)


HOSTILE = (
    "=1+1", " =1+1", "\n=cmd()", "\uff1d1+1", "@SUM(1)", "a;=cmd()", "a\t+cmd()", 'x";"=cmd()', "x\ufffey\uffff\0",
    "<img src=x onerror=alert(1)>", "[a](javascript:x)", "![x](http://evil.example/x.png)", "`code` ``two``", "`", "\\",
    "a|b\\|c", "@team #12 http://evil.example", "</details><script>x</script>", "``````\n</details>\n<img src=x>",
    "-->", "\u202e\u2028x\x85y", "]]>", "```\n# H", "~~~\n<b>x</b>", "<!-- x", "\x00\x1b[31m", "x\\`<b>", "\ud800",
    "| a |\n|---|\n| <i>c</i> |", "::error::x\n::set-output name=a::b", "a\r::error::x", "##vso[task.setvariable]x",
)  # fmt: skip


@pytest.fixture(params=["fail", "error"])
def hostile(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    """Results of which each text is an attack: names, answers, reasons, errors."""
    return [
        line(
            f"{number} {text}", 0.1, status=request.param, misses=[text], hits=[text], candidate_answer=text,
            target=text or "t", node_id=f"a/{text}.yaml::{number} {text}", eval_file=f"a/{text}.yaml", reasoning=text,
            expected_outcome=text, reference_answer=text, tags=[text],
            evaluator_results=judged(text, 0.1, misses=[text], reasoning=text),
            **({"error": text} if request.param == "error" else {}),
        )
        for number, text in enumerate(HOSTILE)
    ]  # fmt: skip


def test_no_text_breaks_junit_code_quality_or_csv(report: Any, hostile: list[dict[str, Any]]) -> None:
    root = ElementTree.fromstring(report("junit", hostile))
    assert len(list(root.iter("testcase"))) == len(HOSTILE)
    entries = json.loads(report("gitlab-codequality", hostile))
    assert len({entry["fingerprint"] for entry in entries}) == len(HOSTILE)
    table = report("csv", hostile)
    for delimiter in (",", ";", "\t"):
        rows = list(csv.reader(io.StringIO(table, newline=""), delimiter=delimiter))
        assert not [cell for row in rows for cell in row if re.match(r"\s*([=@\uff1d]|[+-]\S)", cell)]
        assert delimiter != "," or len(rows) == len(HOSTILE) + 1


def test_a_comment_renders_to_tables_and_code_alone(report: Any, hostile: list[dict[str, Any]]) -> None:
    markdown = pytest.importorskip("markdown_it", reason="rich brings it along")
    base = [{**each, "candidate_answer": "other", "score": 1.0, "status": "pass", "error": None} for each in hostile]
    text = report("markdown", hostile, base)
    html = markdown.MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
    html = html.replace(MARKER, "", 1)
    allowed = "code|p|pre|h2|h3|table|thead|tbody|tr|th|td|details|summary"
    assert re.findall(rf"<(?!/?(?:{allowed})\b)[^>]*>", html) == []
    assert html.count("<details>") == html.count("</details>") <= 2


def result(eval_id: str, score: float = 0.0, **changes: Any) -> EvalResult:
    return EvalResult.from_plain(line(eval_id, score, **changes))


def test_no_text_can_give_commands_to_github_or_hold_secrets(hostile: list[dict[str, Any]]) -> None:
    for told in annotation_lines(RunView(tuple(map(EvalResult.from_plain, hostile)), RunEnding()), Masker()):
        assert told.startswith("::error ")
        assert told.count("::") == 2
        assert not set(told) & set("\r\n\x1b\0")
    evil = "100%\r\n::add-mask::x\n::error::y s3cret-value ::stop-commands::z"
    shown = result("x", 0.5, misses=[evil], eval_file="a,b:c%\n.yaml", node_id=f"a::{evil}")
    [told] = annotation_lines(RunView((shown,), RunEnding()), Masker(["s3cret-value"]))
    assert "100%25" in told
    assert "file=a%2Cb%3Ac%25%0A.yaml,line=3,title=" in told
    assert told.count("::") == 2, "that of the command and that before its text"
    assert "s3cret-value" not in told.split("::")[2]


@pytest.mark.parametrize("limit", [0, 400, 5_000, MARKDOWN_LIMIT])
def test_a_step_summary_stays_below_its_limit_and_says_what_is_left_out(limit: int) -> None:
    broken = [
        result(f"b{number}", status="error", error=f"{number}{'日|`' * 500}", node_id="|日" * 500)
        for number in range(3_000)
    ]
    bad = [result(f"c{number}", 0.5, node_id="|日" * 500) for number in range(4_000)]
    trouble = Trouble("日" * 50, ("|日`" * 5_000,) * 100)
    text = "".join(
        f"{each}\n"
        for each in markdown_lines(RunView((*broken, *bad), RunEnding(troubles=(trouble,))), Masker(), limit)
    )
    assert len(text.encode()) <= limit
    assert bool(text) == (limit >= 5_000)
    if limit == MARKDOWN_LIMIT:
        assert len(text.encode()) > 32_000
        assert "### Errors (3,000)" in text
        assert "### Failed (4,000)" in text
        assert len(re.findall(r"^… and [\d,]+ more$", text, re.MULTILINE)) == 2
