"""The texts of failed and broken cases; the golden files show them whole."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import tries

from pytest_agentv.model.messages import ExecutionMetrics, TokenUsage, TraceSummary
from pytest_agentv.model.results import ErrorDetail, EvalResult, EvaluatorResult
from pytest_agentv.model.secrets import Masker
from pytest_agentv.reports.failure import TEXT_LIMIT, error_text, failure_text, one_line
from pytest_agentv.reports.figures import cut, escaped_size, visible
from pytest_agentv.session.texts import rerun_command, short_reason

GOLDEN = Path(__file__).parents[1] / "golden" / "reporting"
RERUN = "pytest 'evals/qa.eval.yaml::refund-policy'"


def result(**changes: Any) -> EvalResult:
    plain = EvalResult(
        timestamp="2026-11-20T13:11:09.075Z",
        eval_id="refund-policy",
        dataset="qa",
        score=0.3,
        hits=("30 days",),
        misses=("names the form", "no valid JSON", "is polite\nand short"),
        candidate_answer="You can return it\r\nwithin \x1b[1m30\x1b[0m days.\n",
        target="azure-prod",
        status="fail",
        threshold=0.8,
        attempts=1,
        eval_file="evals/qa.eval.yaml",
        line=12,
    )
    return plain.replace(**changes)


def failure(source: str | None = "case", **changes: Any) -> str:
    return failure_text(result(**changes).replace(threshold_source=source), rerun_command=RERUN, masker=Masker())


def json_size(text: str) -> int:
    return len(json.dumps(text))


def assert_golden(text: str, name: str) -> None:
    assert f"{text}\n" == (GOLDEN / name).read_text()
    assert json_size(text) <= TEXT_LIMIT


def test_a_failure_with_far_too_much_to_say_keeps_a_part_of_everything() -> None:
    text = failure(
        evaluator_results=tuple(EvaluatorResult(f"e{n}", "heuristic", 0.5, 1.0, "fail") for n in range(80)),
        misses=tuple(f"statement {number} is not met, and here is at length why" for number in range(80)),
        hits=tuple(f"statement {number} is met" for number in range(80)),
        reasoning="because " * 500,
        candidate_answer="答え" * 100_000,
    )
    assert_golden(text, "failure_cut.txt")


def test_all_is_shown_where_nothing_limits_the_text() -> None:
    answer, reference, miss = "a" * 50_000, "r" * 50_000, "m" * 50_000
    text = failure_text(
        result(candidate_answer=answer, misses=(miss,)),
        rerun_command=None,
        masker=Masker(),
        reference_answer=reference,
        limit=None,
    )
    assert all(part in text for part in (answer, reference, miss))
    broken = result(status="error", error=answer)
    assert answer in error_text(broken, rerun_command=None, masker=Masker(), limit=None)


def test_a_score_just_below_the_threshold_is_not_rounded_up_to_it() -> None:
    first = failure(None, score=0.79995).split("\n")[0]
    assert first == "Score 0.79995 is below the threshold 0.8"


def test_an_empty_answer_is_named_as_such() -> None:
    assert "\n\nThe answer is empty.\n\n" in failure(candidate_answer=" \n")


def test_secrets_are_masked_before_texts_are_cut() -> None:
    secret = "s3cret-" + "x" * 200
    leaky = result(
        candidate_answer="a" * 2_950 + secret, misses=(secret,), reasoning=secret, log_file=secret, assertion=secret
    )
    assert "s3cret" not in one_line(leaky, Masker([secret]))
    assert "s3cret" not in failure_text(leaky, rerun_command=None, masker=Masker([secret]))


ANY_TEXT = st.one_of(
    st.text(st.characters(exclude_categories=[]), max_size=40),
    st.tuples(st.sampled_from(["x", "é", "😀", "\x00", "\n", "\ud800", 'a"']), st.integers(1, 5_000)).map(
        lambda pair: pair[0] * pair[1]
    ),
)


@settings(deadline=None, max_examples=tries(15, 100))  # a busy machine is no failure
@given(ANY_TEXT, ANY_TEXT, ANY_TEXT, ANY_TEXT, st.integers(0, 20))
def test_no_text_is_longer_than_clients_can_take(one: str, two: str, three: str, four: str, count: int) -> None:
    evaluators = (EvaluatorResult(one, two, 0.5, 1e21, "fail", raw_output=three),) * count
    huge = result(
        target=one,
        eval_file=two,
        candidate_answer=three,
        error=four,
        reasoning=one,
        misses=(two,) * count,
        hits=(three,) * count,
        evaluator_results=evaluators,
        error_detail=ErrorDetail("evaluator", "crash"),
        execution_metrics=ExecutionMetrics(TokenUsage(1e300, 1e300, 1e300), 1e300, 1e300),
        trace_summary=TraceSummary(1, (one,), {one: 10**30, two: 2}, 0),
        log_file=three,
    )
    assert len(one_line(huge, Masker())) <= 200
    assert "\n" not in one_line(huge, Masker())
    for text in (
        failure_text(huge.replace(threshold_source=four), rerun_command=four, masker=Masker(), reference_answer=two),
        failure_text(
            huge.replace(assertion=one, status="fail", threshold_source=four), rerun_command=four, masker=Masker()
        ),
        error_text(huge, rerun_command=four, masker=Masker()),
    ):
        assert json_size(text) <= TEXT_LIMIT
        assert text == visible(text)
        text.encode()


@settings(deadline=None)  # a busy machine is no failure
@given(st.text(st.characters(exclude_categories=[]), max_size=60), st.integers(3, 200))
def test_a_cut_text_is_the_longest_that_fits(text: str, size: int) -> None:
    short = cut(text, size)
    assert escaped_size(short) <= size
    if short != text:
        kept = short.removesuffix("...")
        assert text.startswith(kept)
        assert escaped_size(text) > size
        assert escaped_size(text[: len(kept) + 1]) > size - 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\r\nb\tc", "a\nb    c"),
        ("a\rb", "a\\rb"),
        ("\x1b[31m\x00\x7f\x9b", "\\x1b[31m\\x00\\x7f\\x9b"),
        ("\u202egnp.exe\u2028", "\\u202egnp.exe\\u2028"),
        ("\ud800", "\\ud800"),
        ("é 日本 👩‍💻", "é 日本 👩‍💻"),
    ],
)
def test_unsafe_characters_are_shown_as_escapes(text: str, expected: str) -> None:
    assert visible(text) == expected


@pytest.mark.parametrize(
    ("score", "score_line"), [(0.9, "Score 0.900, threshold 0.800"), (0.3, "Score 0.300 is below the threshold 0.800")]
)
def test_unmet_required_rubrics_are_the_headline(score: float, score_line: str) -> None:
    text = failure(score=score, unmet_required=("[price] Names\nthe price",))
    assert text.startswith("Required rubric not met: [price] Names")
    assert f"\n{score_line} (written in the case)\n" in text
    both = failure(score=score, unmet_required=("[a] A", "[b] B"))
    assert both.startswith("2 required rubrics not met: [a] A; [b] B\n")
    line = one_line(result(score=score, unmet_required=("[a] A",)), Masker())
    assert line == "refund-policy: Required rubric not met: [a] A"


@pytest.mark.parametrize(
    ("reason", "short"),
    [
        (
            "b.yaml:3: evalcases[0].input: expected a text, got 5",
            "b.yaml:3: evalcases[0].input: expected a text, got 5",
        ),
        (
            "evals/targets.yaml:2: targets[0].model: is missing (is 'modle' a misspelling of it?)",
            "targets.yaml:2: model: is 'modle' a misspelling of it? (is missing)",
        ),
        ("no whole reply from model 'gpt-4o' (openai): Cannot connect to host", "Cannot connect to host"),
        ("model 'gpt-44o' (openai) replied HTTP 404: The model does not exist", "HTTP 404: The model does not exist"),
        (
            "pytest.ini: agentv_gates: 'smoke: tier=critcal': unknown tier 'critcal' (did you mean 'critical'?)",
            "pytest.ini: agentv_gates: 'smoke: tier=critcal': unknown tier 'critcal' (did you mean 'critical'?)",
        ),
    ],
)
def test_the_short_line_of_an_error_begins_with_what_helps_most(reason: str, short: str) -> None:
    assert short_reason(reason, "a.yaml") == short


@pytest.mark.parametrize(
    ("node_id", "command"),
    [
        ("evals/a.yaml::tent", "pytest evals/a.yaml::tent --agentv-repeat=3"),
        ("evals/a.yaml::my tent", "pytest 'evals/a.yaml::my tent' --agentv-repeat=3"),
        ("test_a.py::test_a[1]", "pytest 'test_a.py::test_a[1]' --agentv-repeat=3"),
    ],
)
def test_the_command_to_run_a_case_again_is_one_that_pytest_takes(node_id, command):
    assert rerun_command(config_in(Path("/p")), node_id) == command


@pytest.mark.parametrize(
    ("folder", "file"), [("/p/evals", "a.yaml"), ("/p/evals/deep", "../a.yaml"), ("/elsewhere", "../p/evals/a.yaml")]
)
def test_the_command_is_for_the_folder_that_pytest_was_started_in(folder, file):
    assert rerun_command(config_in(Path(folder)), "evals/a.yaml::tent") == f"pytest {file}::tent --agentv-repeat=3"


def config_in(folder, **options):
    started = SimpleNamespace(dir=folder)
    return SimpleNamespace(
        getoption={"agentv_repeat": 3, **options}.get, invocation_params=started, rootpath=Path("/p")
    )
