"""The parts of a failure's account: the reason in a line, the word diff, the tool calls."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentv.model.base import ABSENT
from pytest_agentv.model.messages import Message, ToolCall
from pytest_agentv.model.results import EvalResult, EvaluatorResult
from pytest_agentv.model.secrets import Masker
from pytest_agentv.reports.failure import alike, call_lines, reason_line, word_diff

FACTS = EvaluatorResult("facts", "heuristic", 0.5, 1.0, misses=("missing: 30 days",))
TONE = EvaluatorResult("tone", "llm_judge", 0.5, 1.0, reasoning="too curt. It says nothing else.")
GOOD = EvaluatorResult("form", "heuristic", 1.0, 1.0, "pass")


def result(*evaluators: EvaluatorResult, **changes: Any) -> EvalResult:
    plain = EvalResult("t", "tent", "qa", 0.5, (), (), "answer", "default", status="fail", threshold=0.8)
    return plain.replace(**({"evaluator_results": evaluators or None} | changes))


@pytest.mark.parametrize(
    ("failed", "line"),
    [
        (result(FACTS, TONE, GOOD), 'facts: missing "30 days"; tone: too curt (0.50 < 0.80)'),
        (result(FACTS.replace(misses=("bird",))), 'facts: has "bird" (0.50 < 0.80)'),
        (result(TONE.replace(misses=tuple("abcde"))), "tone: a, b, c, and 2 more (0.50 < 0.80)"),
        (result(FACTS.replace(score=0.9), TONE), "tone: too curt (0.50 < 0.80)"),
        (result(), "the score is too low (0.50 < 0.80)"),
        (result(GOOD, score=0.7999, threshold=0.8), "the score is too low (0.7999 < 0.8)"),
        (result(GOOD.replace(weight=0), score=0), "all weights are 0, so that nothing counts (0.00 < 0.80)"),
        (
            result(EvaluatorResult("gate", "composite", 0.2, 1.0, evaluator_results=(FACTS, GOOD))),
            'gate: facts missing "30 days" (0.50 < 0.80)',
        ),
    ],
)
def test_the_line_names_the_reason_before_the_arithmetic(failed: EvalResult, line: str) -> None:
    assert reason_line(failed, Masker()) == line


def test_the_line_is_short_and_holds_no_secret() -> None:
    long = result(TONE.replace(misses=("s3cret-value " + "word " * 500,) * 3, name="n" * 400))
    line = reason_line(long, Masker(["s3cret-value"]))
    assert len(line) <= 300
    assert "s3cret" not in line
    assert line.endswith("... (0.50 < 0.80)")


@pytest.mark.parametrize(
    ("reference", "answer", "diff"),
    [
        ("Within 30 days, by post.", "Within 14 days, by post.", "Within [-30-] {+14+} days, by post."),
        ("a b\nc d", "a b\nx d", "a b\n[-c-] {+x+} d"),
        ("a b\n  c\nd", "a b\nd", "a b\n[-c\n-] d"),
        ("a b", "a   b", None),  # the same words
        ("one two three", "four five six", None),  # nothing in common
        ("", "a", None),
    ],
)
def test_a_word_diff(reference: str, answer: str, diff: str | None) -> None:
    assert word_diff(reference, answer) == diff


def test_two_json_documents_are_compared_in_one_layout() -> None:
    assert word_diff(*alike('{"a": 1,\n "b": "x"}', '{"a":1,"b":"y"}')) == '{\n  "a": 1,\n  "b": [-"x"-] {+"y"+}\n}'
    assert alike("{", "{}") == ("{", "{}")


@given(st.lists(st.sampled_from("abc"), max_size=30), st.lists(st.sampled_from("abc"), max_size=30))
def test_a_diff_holds_both_texts(old: list[str], new: list[str]) -> None:
    diff = word_diff(" ".join(old), " ".join(new))
    if diff is None:
        return
    kinds: dict[str, list[str]] = {"old": [], "new": []}
    side = "both"
    for word in diff.split():
        side = {"[-": "old", "{+": "new"}.get(word[:2], side)
        bare = word.removeprefix("[-").removeprefix("{+").removesuffix("-]").removesuffix("+}")
        for name, words in kinds.items():
            if side in ("both", name):
                words.append(bare)
        side = "both" if word.endswith(("-]", "+}")) else side
    assert (kinds["old"], kinds["new"]) == (old, new)


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


def test_many_calls_are_counted() -> None:
    message = Message("assistant", tool_calls=(ToolCall("a"),) * 25)
    assert list(call_lines([message], Masker()))[-2:] == ["a()", "... and 5 more"]


@pytest.mark.parametrize("before", range(40, 62, 3))
def test_a_secret_at_the_cut_of_a_value_is_masked_whole(before: int) -> None:
    text = "w" * before + 'QZ7kP1vX"N4mT9rLw2sY'
    calls = (ToolCall("find", {"q": text}, text), ToolCall("list", text, {"found": text}))
    shown = "\n".join(call_lines([Message("assistant", tool_calls=calls)], Masker(['QZ7kP1vX"N4mT9rLw2sY'])))
    assert "QZ7" not in shown
    assert "N4m" not in shown
