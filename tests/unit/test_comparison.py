"""Two runs compared: deltas, outcomes, means; and the table of it."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentv.reports.compare import CaseKey, comparison_lines, read_scores
from pytest_agentv.reports.compare import compare_scores as compare_by_key

scores = st.dictionaries(st.text(max_size=5), st.floats(0, 1), max_size=8)


def compare_scores(first, second, threshold):
    """Compare scores by id."""
    by_key = ({CaseKey(eval_id): score for eval_id, score in scores.items()} for scores in (first, second))
    return compare_by_key(*by_key, threshold)


def by_id(found):
    return {key.eval_id: score for key, score in found.by_key.items()}


def compared(first: float, second: float, threshold: float = 0.1) -> tuple[float, str]:
    case = compare_scores({"a": first}, {"a": second}, threshold).matched[0]
    return case.delta, case.outcome


@pytest.mark.scenario("Basic comparison")
@pytest.mark.parametrize(
    ("first", "second", "delta", "outcome"),
    [
        (0.8, 0.9, 0.1, "win"),  # 0.09999999999999998 in floating point
        (0.9, 0.8, -0.1, "loss"),
        (0.8, 0.89, 0.09, "tie"),
        (0.5, 0.5, 0, "tie"),
        (0, 1, 1, "win"),
        (1, 0, -1, "loss"),
    ],
)
def test_a_case_is_won_or_lost_by_the_threshold_or_more(first, second, delta, outcome):
    assert compared(first, second) == (delta, outcome)


@pytest.mark.scenario("Configurable threshold")
@pytest.mark.parametrize(
    ("threshold", "outcome"), [(0.2, "tie"), (0.05, "win"), (0.050001, "tie"), (0, "win"), (1, "tie")]
)
def test_the_threshold_is_the_least_difference_that_counts(threshold, outcome):
    assert compared(0.5, 0.55, threshold)[1] == outcome


@pytest.mark.scenario("Exit code indicates comparison result")
@pytest.mark.parametrize(
    ("first", "second", "is_worse"),
    [
        ({"a": 0.5}, {"a": 0.5}, False),
        ({"a": 0.5}, {"a": 0.6}, False),
        ({"a": 0.5}, {"a": 0.4999}, True),  # however small: it rounds to 0 in the summary only
        ({"a": 0.1, "b": 0.3}, {"a": 0.3, "b": 0.1}, False),
        ({"a": 1.0}, {"b": 0.0}, False),
    ],
)
def test_the_candidate_is_worse_when_its_mean_is_lower(first, second, is_worse):
    assert compare_scores(first, second, 0.1).is_worse is is_worse


@given(scores, scores, st.floats(0, 1))
def test_counts_add_up_and_swapping_the_files_swaps_wins_and_losses(first, second, threshold):
    there, back = (compare_scores(*pair, threshold) for pair in ((first, second), (second, first)))
    summary = there.contract()["summary"]
    assert summary["total"] == len(first.keys() | second.keys())
    assert summary["matched"] == summary["wins"] + summary["losses"] + summary["ties"]
    assert (there.count("win"), there.count("loss")) == (back.count("loss"), back.count("win"))
    assert not (there.is_worse and back.is_worse)
    json.dumps(there.contract(), allow_nan=False)


def test_of_many_unmatched_cases_the_table_names_some():
    only = {f"case {number}\n": 1.0 for number in range(1_012)}
    lines = list(comparison_lines(compare_scores(only, {}, 0.1), "a", "b"))
    assert lines[1] == (
        f"Only in the baseline (1,012): {', '.join(f'case {number} ' for number in range(10))}, … and 1,002 more"
    )


def test_a_difference_too_small_to_be_seen_has_no_sign_of_a_loss():
    lines = list(comparison_lines(compare_scores({"a": 0.5}, {"a": 0.499}, 0.1), "a", "b"))
    assert lines[3] == "a            0.50       0.50   +0.00  = tie"


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"score": 1}', "the result has no eval_id: expected a text, got null"),
        ('{"eval_id": 5, "score": 1}', "the result has no eval_id: expected a text, got the number 5"),
        ('{"eval_id": "b", "score": "1"}', "the result of 'b' has no score: expected a number, got the text '1'"),
        ('{"eval_id": "b", "score": true}', "the result of 'b' has no score: expected a number, got true"),
        ('{"eval_id": "b", "score": NaN}', "the result of 'b' has no score: expected a number, got the number nan"),
        ('{"eval_id": "b", "score": 1e999}', "the result of 'b' has no score: expected a number, got the number inf"),
    ],
)
def test_a_result_without_id_or_score_is_skipped_and_told(tmp_path, line, message):
    path = write(tmp_path / "r.jsonl", f'{{"eval_id": "a", "score": 1}}\n{line}\n')
    found = read_scores(path)
    assert by_id(found) == {"a": 1}
    assert [str(problem) for problem in found.problems] == [f"{path}:2: {message}; it was skipped"]


def test_a_number_of_any_size_is_no_crash(tmp_path):
    digits = "9" * 400
    found = read_scores(
        write(tmp_path / "r.jsonl", f'{{"eval_id": "a", "score": {digits}}}\n{{"score": {"9" * 5000}}}\n')
    )
    assert found.by_key == {}
    assert [problem.line for problem in found.problems] == [1, 2]
