"""`rouge` scores as the package rouge-score does, also for long answers."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentv.evaluators import likeness

scorer = pytest.importorskip("rouge_score.rouge_scorer")

TEXTS = st.lists(st.sampled_from(["tent", "Tent!", "costs", "120", "é", "a b", ""]), max_size=12).map(" ".join)


@given(reference=TEXTS, answer=TEXTS, variant=st.sampled_from(["rouge1", "rouge2", "rougeL"]))
def test_the_score_is_that_of_the_package(reference: str, answer: str, variant: str) -> None:
    expected = scorer.RougeScorer([variant]).score(reference, answer)[variant].fmeasure
    assert likeness._f1(variant, reference, answer) == expected


@pytest.mark.parametrize("variant", ["rouge1", "rouge2", "rougeL"])
@pytest.mark.parametrize("text", ["a b", "a-b", "Größe"])
def test_an_equal_answer_scores_1(variant: str, text: str) -> None:
    assert likeness._f1(variant, likeness.Rouge(value=text, variant=variant).value, text) == 1


def test_a_long_answer_takes_memory_by_its_length() -> None:
    likeness._f1("rougeL", "a", "a")  # imports
    tracemalloc.start()
    likeness._f1("rougeL", "the tent costs 120 euros " * 400, "lorem ipsum dolor sit 120 " * 400)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 5_000_000  # a table of all pairs of words takes 32 MB
