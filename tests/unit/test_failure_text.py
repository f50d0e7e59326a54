"""The texts of failed and broken cases; the golden files show them whole."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import tries

from pytest_agentv.model.base import ABSENT
from pytest_agentv.model.messages import ExecutionMetrics, Message, TokenUsage, ToolCall, TraceSummary
from pytest_agentv.model.results import ErrorDetail, EvalResult, EvaluatorResult
from pytest_agentv.model.secrets import Masker
from pytest_agentv.reports.failure import (
    TEXT_LIMIT,
    call_lines,
    error_text,
    failure_text,
    one_line,
    reason_line,
    word_diff,
)
from pytest_agentv.reports.figures import visible
from pytest_agentv.session.outcomes import short_reason

GOLDEN = Path(__file__).parents[1] / "golden" / "reporting"
RERUN = "pytest 'evals/qa.eval.yaml::refund-policy'"


def result(**changes: Any) -> EvalResult:
    plain = EvalResult(
        "2026-11-20T13:11:09.075Z", "refund-policy", "qa", 0.3, ("30 days",),
        ("names the form", "no valid JSON", "is polite\nand short"),
        "You can return it\r\nwithin \x1b[1m30\x1b[0m days.\n", "azure-prod",
        status="fail", threshold=0.8, attempts=1, eval_file="evals/qa.eval.yaml", line=12,
    )  # fmt: skip
    return plain.replace(**changes)


def test_a_failure_with_far_too_much_to_say_keeps_a_part_of_everything() -> None:
    long = result(
        evaluator_results=tuple(EvaluatorResult(f"e{n}", "heuristic", 0.5, 1.0, "fail") for n in range(80)),
        misses=tuple(f"statement {number} is not met, and here is at length why" for number in range(80)),
        hits=tuple(f"statement {number} is met" for number in range(80)),
        reasoning="because " * 500,
        candidate_answer="答え" * 100_000,
    )
    text = failure_text(long.replace(threshold_source="case"), rerun_command=RERUN, masker=Masker())
    assert f"{text}\n" == (GOLDEN / "failure_cut.txt").read_text()
    assert len(json.dumps(text)) <= TEXT_LIMIT


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
        target=one, eval_file=two, candidate_answer=three, error=four, reasoning=one, log_file=three,
        misses=(two,) * count, hits=(three,) * count, evaluator_results=evaluators,
        error_detail=ErrorDetail("evaluator", "crash"),
        execution_metrics=ExecutionMetrics(TokenUsage(1e300, 1e300, 1e300), 1e300, 1e300),
        trace_summary=TraceSummary(1, (one,), {one: 10**30, two: 2}, 0),
    )  # fmt: skip
    assert len(one_line(huge, Masker())) <= 200
    assert "\n" not in one_line(huge, Masker())
    for text in (
        failure_text(huge.replace(threshold_source=four), rerun_command=four, masker=Masker(), reference_answer=two),
        failure_text(
            huge.replace(assertion=one, status="fail", threshold_source=four), rerun_command=four, masker=Masker()
        ),
        error_text(huge, rerun_command=four, masker=Masker()),
    ):
        assert len(json.dumps(text)) <= TEXT_LIMIT
        assert text == visible(text)
        text.encode()


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


WRONG = "evals/targets.yaml:2: targets[0].model: is missing (is 'modle' a misspelling of it?)"
GATE = "pytest.ini: agentv_gates: 'smoke: tier=critcal': unknown tier 'critcal' (did you mean 'critical'?)"


@pytest.mark.parametrize(
    ("reason", "short"),
    [
        (typed := "b.yaml:3: evalcases[0].input: expected a text, got 5", typed),
        (WRONG, "targets.yaml:2: model: is 'modle' a misspelling of it? (is missing)"),
        ("no whole reply from model 'gpt-4o' (openai): Cannot connect to host", "Cannot connect to host"),
        ("model 'gpt-44o' (openai) replied HTTP 404: The model does not exist", "HTTP 404: The model does not exist"),
        (GATE, GATE),
    ],
)
def test_the_short_line_of_an_error_begins_with_what_helps_most(reason: str, short: str) -> None:
    assert short_reason(reason, "a.yaml") == short


FACTS = EvaluatorResult("facts", "heuristic", 0.5, 1.0, misses=("missing: 30 days",))
TONE = EvaluatorResult("tone", "llm_judge", 0.5, 1.0, reasoning="too curt. It says nothing else.")
GOOD = EvaluatorResult("form", "heuristic", 1.0, 1.0, "pass")


def judged(*evaluators: EvaluatorResult, **changes: Any) -> EvalResult:
    plain = EvalResult("t", "tent", "qa", 0.5, (), (), "answer", "default", status="fail", threshold=0.8)
    return plain.replace(**({"evaluator_results": evaluators or None} | changes))


@pytest.mark.parametrize(
    ("failed", "line"),
    [
        (judged(FACTS, TONE, GOOD), 'facts: missing "30 days"; tone: too curt (0.50 < 0.80)'),
        (judged(FACTS.replace(misses=("bird",))), 'facts: has "bird" (0.50 < 0.80)'),
        (judged(TONE.replace(misses=tuple("abcde"))), "tone: a, b, c, and 2 more (0.50 < 0.80)"),
        (judged(FACTS.replace(score=0.9), TONE), "tone: too curt (0.50 < 0.80)"),
        (judged(), "the score is too low (0.50 < 0.80)"),
        (judged(GOOD, score=0.7999, threshold=0.8), "the score is too low (0.7999 < 0.8)"),
        (judged(GOOD.replace(weight=0), score=0), "all weights are 0, so that nothing counts (0.00 < 0.80)"),
        (
            judged(EvaluatorResult("gate", "composite", 0.2, 1.0, evaluator_results=(FACTS, GOOD))),
            'gate: facts missing "30 days" (0.50 < 0.80)',
        ),
    ],
)
def test_the_line_names_the_reason_before_the_arithmetic(failed: EvalResult, line: str) -> None:
    assert reason_line(failed, Masker()) == line


def test_the_line_is_short_and_holds_no_secret() -> None:
    long = judged(TONE.replace(misses=("s3cret-value " + "word " * 500,) * 3, name="n" * 400))
    line = reason_line(long, Masker(["s3cret-value"]))
    assert len(line) <= 300
    assert "s3cret" not in line
    assert line.endswith("... (0.50 < 0.80)")


@pytest.mark.parametrize(
    ("reference", "answer", "diff"),
    [
        ("Within 30 days, by post.", "Within 14 days, by post.", "Within [-30-] {+14+} days, by post."),
        ("a b\nc d", "a b\nx d", "a b\n[-c-] {+x+} d"),
        ("a b\n  c\nd", "a b\nd", "a b\n  [-c\n-]d"),
        ("a b", "a   b", None),  # the same words
        ("one two three", "four five six", None),  # nothing in common
        ("", "a", None),
    ],
)
def test_a_word_diff(reference: str, answer: str, diff: str | None) -> None:
    assert word_diff(reference, answer) == diff


def test_long_texts_get_no_diff_and_take_no_time() -> None:
    started = time.process_time()
    assert word_diff("a b " * 100_000, "b a " * 100_000) is None
    assert time.process_time() - started < 2
    long = "same " * 100_000
    assert word_diff(long + "old", long + "new") is not None, "only what differs is compared"


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (ToolCall("search", {"query": "tents"}, [{}, {}, {}]), 'search(query="tents") -> 3 rows'),
        (ToolCall("list", ABSENT, ["a"]), "list() -> 1 item"),
        (ToolCall("add", {"a": 1, "b": 2}, 3), "add(a=1, b=2) -> 3"),
        (ToolCall("read", {"path": "x" * 100}, "two\nlines"), f'read(path="{"x" * 56}...) -> two lines'),
        (ToolCall("plain"), "plain()"),
        (ToolCall("text", "hello", {"ok": True}), 'text("hello") -> {"ok":true}'),
    ],
)
def test_a_tool_call_on_a_line(call: ToolCall, line: str) -> None:
    assert list(call_lines([Message("assistant", tool_calls=(call,))], Masker())) == [line]


@pytest.mark.parametrize("before", range(40, 62, 3))
def test_a_secret_at_the_cut_of_a_value_is_masked_whole(before: int) -> None:
    text = "w" * before + 'QZ7kP1vX"N4mT9rLw2sY'
    calls = (ToolCall("find", {"q": text}, text), ToolCall("list", text, {"found": text}))
    shown = "\n".join(call_lines([Message("assistant", tool_calls=calls)], Masker(['QZ7kP1vX"N4mT9rLw2sY'])))
    assert "QZ7" not in shown
    assert "N4m" not in shown
