"""The page: its verdict, its policy, its escaping, its size, and the data in it."""

import base64
import gzip
import hashlib
import html
import json
import re
from collections.abc import Iterable
from typing import Any

import pytest
import report_runs
from thorough import varied

from pytest_agentv.reports.html import page as pages
from pytest_agentv.reports.html.overview import CaseRow, cases_of, headline
from pytest_agentv.reports.html.page import STATIC_ROWS, Gallery, report_text
from pytest_agentv.reports.read import case_in, key_of, view_of
from pytest_agentv.reports.verdict import compared
from pytest_agentv.reports.view import RunEnding, RunView, Trouble


def view(name: str, values: Iterable[dict[str, Any]], **changes: Any) -> RunView:
    """Return the view of a results file with these lines, which are not compared."""
    cases = {key_of(value): case_in(value | repeated(value)) for value in values}
    return compared(view_of(name, cases.values()), None).replace(**changes)


def repeated(value: dict[str, Any]) -> dict[str, Any]:
    """Return the key `repeat` of a result with all its figures, of which a test names some; nothing without it."""
    named = value.get("repeat")
    if named is None:
        return {}
    scores = named.get("scores", [value["score"]])
    planned = named.get("planned", named.get("asked", len(scores)))
    counts = {"planned": planned, "asked": planned, "judged": len(scores), "errors": 0, "needed": planned}
    rest = {"scores": scores, "passes": 0, "min_pass_rate": 1.0, "min_pass_rate_source": "case"}
    return {"repeat": counts | rest | named}


HOSTILE = "</script><script>alert(1)</script><img src=x onerror='alert(1)'>\x1b[31m\u202e"


def shown(*values: dict[str, Any]) -> tuple[tuple[CaseRow, ...], RunView]:
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


GATED = RunEnding(replaces_cases=True, judged_with_run=frozenset({"x"}))
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
        ([{}], RunEnding(red=(LOW,)), "fail", f"Failed at a gate: {LOW}."),
        ([{}, FAILED], RunEnding(red=(LOW,)), "fail", f"Failed: 1 of 2 fail. The gate says: {LOW}."),
        ([{}], RunEnding(troubles=(Trouble("Results were lost"),)), "fail", "Failed: results were lost."),
        (
            [{}, {}],
            RunEnding(unjudged="-k a"),
            "none",
            "No verdict: all 2 cases pass. No verdict on the run as a whole: -k a.",
        ),
        ([{}, FAILED], RunEnding(unjudged="a part"), "fail", "Failed"),
        (
            [{}, FAILED | {"node_id": "x"}],
            RunEnding(expected=frozenset("x")),
            "pass",
            "Passed: 1 of 2 cases pass, 1 failed as",
        ),
        ([SCORED] * 3, RunEnding(), "none", "No verdict: 3 cases have a score, and no threshold is known."),
        (
            [SCORED, {}],
            RunEnding(),
            "none",
            "No verdict: 1 of 2 cases pass, 1 case has a score, and no threshold is known.",
        ),
        ([SCORED, FAILED], RunEnding(), "fail", "Failed: 1 of 2 fail."),
        ([SCORED | {"status": "pass"}], RunEnding(), "pass", "Passed"),
    ],
)
def test_the_headline(values: list[dict[str, Any]], ending: RunEnding, tone: str, text: str) -> None:
    cases, run = shown(*values)
    found = headline(cases, run.replace(ending=ending))
    assert found.tone == tone
    assert f"{found.text} {found.more}".startswith(text)


def judged(*costs: Any) -> list[dict[str, Any]]:
    return [{"spent": {"answer": {"calls": 1}, "judge": each}} for each in costs]


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
    details = [detail for number in range(index["chunks"]) for detail in unpacked(page, f"d{number}")]
    assert (len(index["rows"]), len(details)) == (500, 500)
    first, passing = details[0], details[-1]
    assert (first["baseline"]["title"], len(first["answers"])) == ("Broken", 5)
    assert [past["run"] for past in first["history"]] == ["base.jsonl", "old.jsonl", "run.jsonl"]
    assert "answers" not in passing
    assert "answers" not in passing["raw"]
    data = sum(len(block) for block in re.findall(r'<script type="text/plain"[^>]*>([^<]*)', page))
    assert len(page.encode()) - data < 150_000
    assert data < 1_000 * 500


def test_a_number_that_json_has_not_leaves_the_other_cases_readable() -> None:
    metrics = {"duration_ms": 9, "tool_durations": {"search": [float("inf"), 4]}, "seen": float("nan")}
    answer = {"candidate_answer": "x\ud800", "execution_metrics": metrics}
    run = view("run.jsonl", [{"eval_id": "a", "score": 1, "threshold": 1, **answer}])
    detail = unpacked(report_text(run), "d0")[0]
    shown_metrics = {"duration_ms": 9, "tool_durations": {"search": [None, 4]}}
    assert detail["raw"]["execution_metrics"] == shown_metrics
    assert [milliseconds for _, milliseconds in detail["time"]] == [5, 4]
    assert detail["raw"]["candidate_answer"] == "x\ud800", "the page marks it"


@pytest.mark.parametrize(
    ("written", "status"),
    [({}, "scored"), ({"status": "ok"}, "scored"), ({"error": "HTTP 503"}, "error"), ({"status": "fail"}, "fail")],
)
def test_an_answer_passes_only_if_the_results_say_so(written: dict[str, Any], status: str) -> None:
    answers = [{"score": 0, "candidate_answer": "x", **written}] * 2
    run = view("run.jsonl", [{"eval_id": "a", "score": 0, "threshold": 1, "answers": answers}])
    [detail] = unpacked(report_text(run), "d0")
    assert [each["status"] for part in ("answers", "lanes") for each in detail[part]] == [status] * 4


def png(width: int = 2, height: int = 2, padding: int = 0) -> str:
    head = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + width.to_bytes(4) + height.to_bytes(4)
    return base64.b64encode(head + bytes(padding)).decode()


JPEG = base64.b64encode(b"\xff\xd8\xff\xe0\0\x04\0\0\xff\xc0\0\x0b\x08\0\x20\0\x10\0\0\0").decode()
GIF = base64.b64encode(b"GIF89a\x01\0\x01\0").decode()
PNG = png()
URI = f"data:image/png;base64,{PNG}"

SHAPES: dict[str, dict[str, Any]] = {
    "openai": {"type": "image_url", "image_url": {"url": URI}},
    "responses": {"type": "input_image", "image_url": URI},
    "anthropic": {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
    "gemini": {"inlineData": {"mimeType": "image/png", "data": PNG}},
    "mcp": {"type": "image", "data": PNG, "mimeType": "image/png"},
    "plain": {"type": "image", "value": URI},
}


def taken_out(value: Any) -> tuple[Any, list[bool]]:
    found, images = Gallery().take_out(value)
    return found, ["source" in image for image in images]


@pytest.mark.parametrize("value", [*SHAPES.values(), [URI], f"Here: ![tent]({URI}).", {"deep": [{"er": URI}]}])
def test_bytes_give_way_to_a_name(value: Any) -> None:
    found, images = taken_out(value)
    assert PNG not in json.dumps(found)
    assert images == [True]


@pytest.mark.parametrize(
    ("data", "is_shown"),
    [
        (PNG, True),
        (JPEG, True),
        (GIF, True),
        (png(padding=pages.MOST_BYTES), False),
        (base64.b64encode(b"<svg onload=alert(1)>").decode(), False),
        ("not base64 !", False),
    ],
)
def test_only_what_a_browser_draws_safely_is_shown(data: str, *, is_shown: bool) -> None:
    part = {"type": "image", "source": {"media_type": "image/svg+xml", "data": data}}
    assert taken_out(part)[1] == [is_shown]


def case(**values: Any) -> CaseRow:
    return cases_of(view("run.jsonl", [{"eval_id": "a", "score": 1, "threshold": 1, **values}]))[0]


@pytest.mark.parametrize("value", [None, "text", varied(5), [1], {"a": {"b": 1}}, varied(True)])
def test_values_of_other_shapes_count_as_missing(value: object) -> None:
    keys = (
        *("candidate_answer", "evaluator_results", "lm_provider_request", "execution_metrics", "answers", "reasoning"),
        *("output_messages", "retrieved_context", "line", "row", "expected_outcome", "reference_answer", "duration_ms"),
        *("error_detail", "hits", "misses", "timestamp", "cost_source", "attempts", "trace_summary", "log_file"),
    )
    run = view("run.jsonl", [{"eval_id": "a", "score": 1, "threshold": 1, **dict.fromkeys(keys, value)}])
    assert "</html>" in report_text(run)
