import asyncio
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.evaluators.context import Context
from pytest_agentv.evaluators.likeness import Levenshtein
from pytest_agentv.model.cases import EvalCase
from pytest_agentv.model.results import Score

CASE = EvalCase("c", "d", "/e/x.eval.yaml", 1, "outcome", "q", (), ())


def score_of(evaluator: Levenshtein, answer: str) -> Score:
    return asyncio.run(evaluator.evaluate(Context(CASE, Prompt("q"), answer)))


def test_the_score_is_the_share_of_characters_that_need_no_change() -> None:
    score = score_of(Levenshtein(value="kitten"), " sitten\n")
    assert score.value == pytest.approx(5 / 6)
    assert (score.reasoning, score.details) == ("similarity 0.833", {"similarity": score.value})


@pytest.mark.parametrize(
    ("threshold", "score", "hits", "misses"),
    [(0.75, 1.0, ("similarity 0.750 >= 0.75",), ()), (0.8, 0.0, (), ("similarity 0.750 < 0.8",))],
)
def test_a_threshold_decides(threshold: float, score: float, hits: tuple[str, ...], misses: tuple[str, ...]) -> None:
    found = score_of(Levenshtein(value="abcd", threshold=threshold), "abcx")
    assert (found.value, found.hits, found.misses) == (score, hits, misses)


@pytest.mark.parametrize("same", range(1, 10))
def test_a_similarity_that_equals_the_threshold_reaches_it(same: int) -> None:
    answer = "a" * same + "b" * (10 - same)
    assert score_of(Levenshtein(value="a" * 10, threshold=same / 10), answer).value == 1.0


def test_a_similarity_below_the_threshold_is_never_shown_as_the_threshold() -> None:
    found = score_of(Levenshtein(value="a" * 10_000, threshold=0.9), "a" * 8996 + "b" * 1004)
    assert found.misses == ("similarity 0.8996 < 0.9",)


@pytest.mark.parametrize("threshold", [-0.1, 1.1])
def test_a_threshold_is_from_0_to_1(threshold: float) -> None:
    with pytest.raises(ValidationError, match="threshold"):
        Levenshtein(value="x", threshold=threshold)


@given(st.text(min_size=1).filter(str.strip), st.text())
def test_scores_stay_within_their_bounds_and_equal_texts_score_1(value: str, answer: str) -> None:
    assert 0 <= score_of(Levenshtein(value=value), answer).value <= 1
    assert score_of(Levenshtein(value=value), value).value == 1


def test_reading_a_file_does_not_load_the_library() -> None:
    script = "import sys, pytest_agentv.evaluators.likeness; print('rapidfuzz' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", script], text=True) == "False\n"
