"""`heuristic`: ratios of keywords and signs of errors."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_agentv.evaluators.text import Heuristic, error_sign, score_keywords
from pytest_agentv.model.results import Score


def score_of(answer, hits=(), misses=()) -> Score:
    # A heuristic without keywords is refused; the arithmetic holds without them all the same.
    return score_keywords(Heuristic.model_construct(hits=tuple(hits), misses=tuple(misses)), answer)


@pytest.mark.parametrize(
    ("answer", "sign"),
    [
        ("ValueError: nope", "ValueError: nope"),
        ("Error: no such file", "Error: no such file"),
        ("text\n  error: expected ';'\nmore", "error: expected ';'"),
        ("Uncaught TypeError: x is undefined", "Uncaught TypeError: x is undefined"),
        ("java.io.IOException: closed", "java.io.IOException: closed"),
        ('Exception in thread "main" x', 'Exception in thread "main" x'),
        ("a\n    at run (/src/index.js:10:5)\n", "at run (/src/index.js:10:5)"),
        ("a\n\tat com.acme.Main.run(Main.java:42)", "at com.acme.Main.run(Main.java:42)"),
        ("fatal: not a git repository", "fatal: not a git repository"),
        ("panic: nil dereference", "panic: nil dereference"),
        ("thread 'main' panicked at src/main.rs:2:5:", "thread 'main' panicked at src/main.rs:2:5:"),
        ("Segmentation fault (core dumped)", "Segmentation fault (core dumped)"),
        ("Error: " + "x" * 200, "Error: " + "x" * 93 + "…"),
    ],
)
def test_errors_of_programs_are_recognised(answer, sign):
    assert error_sign(answer) == sign


@pytest.mark.parametrize(
    "answer",
    [
        "All good.",
        "Errors: none",
        "**Error handling:** wrap it in try",
        "The function raises ValueError: see the docs.",
        "Error handling: use try",
        "I cannot find an error here.",
        "Meet me at noon (room 5:30)",
    ],
)
def test_prose_about_errors_is_no_error(answer):
    assert error_sign(answer) is None


@given(st.text(), st.lists(st.text(min_size=1)), st.lists(st.text(min_size=1)))
@example("ab", ["a", "x"], ["b", "y"])
def test_the_score_is_the_hit_ratio_less_the_share_of_the_miss_ratio(answer, hits, misses):
    score = score_of(answer, hits, misses)
    assert score.value == score.details["hit_ratio"] * (1 - score.details["miss_ratio"])
    assert 0 <= score.value <= 1
