"""Two runs compared: deltas, outcomes, means; and the table of it."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentv.reports.compare import CaseKey, Comparison, align, comparison_lines, read_scores
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


def test_no_difference_is_a_tie_even_without_a_threshold():
    assert compared(0.5, 0.5, 0) == (0, "tie")


@pytest.mark.scenario("Basic comparison")
def test_the_contract_has_the_keys_of_the_specification():
    first = {"case-1": 0.8, "lost": 1.0, "same": 0.5, "only-1": 0.1}
    second = {"same": 0.5, "case-1": 0.9, "lost": 0.7, "only-2": 0.1, "only-3": 0.2}
    assert compare_scores(first, second, 0.1).contract() == {
        "matched": [
            {"eval_id": "case-1", "score1": 0.8, "score2": 0.9, "delta": 0.1, "outcome": "win"},
            {"eval_id": "lost", "score1": 1, "score2": 0.7, "delta": -0.3, "outcome": "loss"},
            {"eval_id": "same", "score1": 0.5, "score2": 0.5, "delta": 0, "outcome": "tie"},
        ],
        "unmatched": {"file1": 1, "file2": 2},
        "summary": {"total": 6, "matched": 3, "wins": 1, "losses": 1, "ties": 1, "meanDelta": -0.067, "errors": 0},
        "unmatched_cases": {"file1": [{"eval_id": "only-1"}], "file2": [{"eval_id": "only-2"}, {"eval_id": "only-3"}]},
        "error_cases": {"file1": [], "file2": []},
    }


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


def test_the_table_shows_every_case_and_the_summary(golden):
    first = {"case-1": 0.8, "lost\nin two lines": 1.0, "same": 0.5, "x" * 99: 0.125, "only-1": 0.1}
    second = {"same": 0.5, "case-1": 0.9, "lost\nin two lines": 0.7, "x" * 99: 0.1251, "only-2": 0.1}
    lines = comparison_lines(compare_scores(first, second, 0.1), "a.jsonl", "b.jsonl")
    assert "\n".join(lines) + "\n" == golden("cli/compare_table.txt")


@pytest.mark.parametrize(
    ("comparison", "last"),
    [
        (compare_scores({"a": 0}, {"a": 1}, 0.1), "1 win, 0 losses, 0 ties | Mean delta: +1.000 | better"),
        (compare_scores({"a": 0}, {"a": 0}, 0.1), "0 wins, 0 losses, 1 tie | Mean delta: +0.000 | no difference"),
        (Comparison((), (CaseKey("a"),)), "0 wins, 0 losses, 0 ties | Mean delta: +0.000 | no difference"),
    ],
)
def test_the_last_line_tells_which_is_better(comparison, last):
    assert list(comparison_lines(comparison, "a", "b"))[-1] == f"Summary: {last}"


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


def test_of_several_results_of_a_case_the_last_one_counts(tmp_path):
    lines = '{"eval_id": "a", "score": 1}\n{"eval_id": "b", "score": 0.5}\n{"eval_id": "a", "score": 0}\n'
    found = read_scores(write(tmp_path / "r.jsonl", lines))
    assert (by_id(found), found.counts[CaseKey("a")], found.problems) == ({"b": 0.5, "a": 0}, 2, ())


@pytest.mark.parametrize("name", ["r.yaml", "r.yml", "results"])
def test_results_in_yaml_are_read_too(tmp_path, name):
    text = "---\neval_id: a\nscore: 0.5\n\n---\neval_id: b\nscore: 1\nerror: it broke\n"
    found = read_scores(write(tmp_path / name, text))
    assert by_id(found) == {"a": 0.5, "b": None}


@pytest.mark.parametrize(
    ("line", "score"),
    [
        # The records of the original program: a result, an error, and the older shape that begins with the id.
        (
            '{"timestamp":"2026-11-20T13:11:09.075Z","eval_id":"c","dataset":"d","score":1,"hits":[],"misses":[],'
            '"candidate_answer":"x","target":"agent","lm_provider_request":{"question":"hi","guidelines":""}}',
            1,
        ),
        (
            '{"timestamp":"t","eval_id":"c","dataset":"b","score":1,"hits":[],"misses":["Error: e"],'
            '"candidate_answer":"Error occurred: e","target":"bad","error":"e"}',
            None,
        ),
        ('{"eval_id":"c","expected_aspect_count":3,"score":1.0,"raw_aspects":[],"raw_request":{}}', 1),
    ],
)
def test_results_files_of_agentv_are_read(tmp_path, line, score):
    assert by_id(read_scores(write(tmp_path / "r.jsonl", line + "\n"))) == {"c": score}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"score": 1}', "the result has no eval_id: expected a text, got null"),
        ('{"eval_id": 5, "score": 1}', "the result has no eval_id: expected a text, got the number 5"),
        ('{"eval_id": "b"}', "the result of 'b' has no score: expected a number, got null"),
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


def aligned(tmp_path, first, second):
    """Compare results given as mappings."""
    files = []
    for name, records in (("a.jsonl", first), ("b.jsonl", second)):
        text = "".join(json.dumps({"eval_id": "a", "score": 1, **record}) + "\n" for record in records)
        files.append(read_scores(write(tmp_path / name, text)))
    one, two = align(*files)
    return compare_by_key(one.by_key, two.by_key, 0.1)


def test_cases_of_two_eval_files_with_one_id_are_two_cases(tmp_path):
    first = [{"eval_file": "x.yaml", "score": 1}, {"eval_file": "y.yaml", "score": 0}]
    found = aligned(tmp_path, first, list(reversed(first)))
    assert [(case.eval_file, case.outcome) for case in found.matched] == [("x.yaml", "tie"), ("y.yaml", "tie")]


def test_a_file_that_tells_no_eval_files_is_compared_by_id(tmp_path):
    found = aligned(tmp_path, [{"eval_file": "x.yaml", "score": 0.5}], [{"score": 1}])
    assert [case.outcome for case in found.matched] == ["win"]


@pytest.mark.parametrize("node_ids", [("a.yaml::a", "b.yaml::a"), (None, None)], ids=["items", "no items"])
def test_of_a_file_that_tells_no_eval_files_an_id_of_several_is_no_case_of_the_other(tmp_path, node_ids):
    """The two cases counted as one, and the last one was compared."""
    both = [{"eval_file": file, "node_id": node_ids[i]} for i, file in enumerate(("a.yaml", "b.yaml"))]
    ours = [{**both[0], "score": 0}, {**both[1], "score": 1}, {"eval_id": "y", "eval_file": "a.yaml", "score": 1}]
    theirs = [{"score": 1}, {"eval_id": "y", "score": 0.5}]
    for found in (aligned(tmp_path, theirs, ours), aligned(tmp_path, ours, theirs)):
        assert [case.eval_id for case in found.matched] == ["y"]
        assert sorted(map(len, (found.unmatched1, found.unmatched2))) == [1, 2]
        assert "a.yaml::a" in {key.label for key in (*found.unmatched1, *found.unmatched2)}


def test_two_targets_are_compared_where_a_file_has_one_target_for_a_case(tmp_path):
    found = aligned(tmp_path, [{"target": "old", "score": 0.5}], [{"target": "new"}])
    assert [(case.target, case.outcome) for case in found.matched] == [(None, "win")]


def test_where_a_file_has_several_targets_for_a_case_each_is_compared_with_itself(tmp_path):
    first = [{"target": "x", "score": 1}, {"target": "y", "score": 0}]
    found = aligned(tmp_path, first, [{"target": "y", "score": 1}])
    assert [(case.target, case.outcome) for case in found.matched] == [("y", "win")]
    assert [key.label for key in found.unmatched1] == ["a (target x)"]


def test_evaluations_of_two_tests_with_one_id_are_two_cases(tmp_path):
    first = [{"eval_file": "t.py", "node_id": f"t.py::{name}", "score": score} for name, score in (("x", 1), ("y", 0))]
    found = aligned(tmp_path, first, list(reversed(first)))
    assert [case.outcome for case in found.matched] == ["tie", "tie"]


@pytest.mark.parametrize("mark", [{"error": "timed out"}, {"status": "error"}])
def test_errors_are_no_scores(tmp_path, mark):
    found = aligned(
        tmp_path,
        [{"eval_id": "a"}, {"eval_id": "b", "score": 0, **mark}, {"eval_id": "c"}],
        [{"eval_id": "a"}, {"eval_id": "b"}, {"eval_id": "c", "score": 0, **mark}],
    )
    contract = found.contract()
    assert [case["eval_id"] for case in contract["matched"]] == ["a"]
    assert contract["summary"] == {
        "total": 3, "matched": 1, "wins": 0, "losses": 0, "ties": 1, "meanDelta": 0, "errors": 2,
    }  # fmt: skip
    assert contract["error_cases"] == {"file1": [{"eval_id": "b"}], "file2": [{"eval_id": "c"}]}
    assert not found.is_worse
    assert list(comparison_lines(found, "a", "b"))[-3:-1] == [
        "Not judged in the baseline, left out (1): b",
        "Not judged in the candidate, left out (1): c",
    ]
