"""`agentv compare`: what it prints where, and its exit codes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentv.reports.compare import compare_scores as compare_cases
from pytest_agentv.reports.compare import comparison_lines
from pytest_agentv.reports.reading import case_in, read_view

MEASURE = (
    "import re, sys; from pytest_agentv.cli.main import main; code = main();"
    "sys.stderr.write(re.search('VmHWM:[^0-9]*([0-9]+)', open('/proc/self/status').read())[1]); raise SystemExit(code)"
)
"""Prints the peak of the process's own memory in kB; `ru_maxrss` would tell that of the process that started it."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def results(name: str, **scores: float) -> str:
    lines = (json.dumps({"eval_id": eval_id, "score": score}) for eval_id, score in scores.items())
    Path(name).write_text("".join(f"{line}\n" for line in lines))
    return name


def test_a_terminal_shows_the_table_and_a_pipe_gets_json(agentv, monkeypatch):
    arguments = ("compare", results("a.jsonl", x=0.8), results("b.jsonl", x=0.9))
    assert json.loads(agentv(*arguments).out)["summary"]["wins"] == 1
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert agentv(*arguments).out.splitlines()[-1] == ("Summary: 1 win, 0 losses, 0 ties | Mean delta: +0.100 | better")
    assert json.loads(agentv(*arguments, "--json").out)["summary"]["wins"] == 1


def test_what_is_odd_about_the_files_is_told_on_standard_error(agentv, golden):
    good = '{"eval_id": "a", "score": 1}\n'
    Path("a.jsonl").write_text(good * 3 + '[1]\nno json\n{"eval_id": "b", "score": 0, "error": "timed out"}\n{"eval')
    Path("b.jsonl").write_text(good + "{}\n" * 12)
    run = agentv("compare", "a.jsonl", "b.jsonl")
    assert run.exit_code == 2
    assert run.err == golden("cli/compare_remarks.txt")


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="measured through /proc")
def test_two_large_files_are_compared_in_little_memory(folder):
    with (folder / "a.jsonl").open("w") as file:
        for number in range(3_000):
            file.write(f'{{"eval_id": "case-{number:06}", "score": 0.5, "candidate_answer": "{"x" * 15_000}"}}\n')
    (folder / "b.jsonl").hardlink_to(folder / "a.jsonl")
    command = [sys.executable, "-c", MEASURE, "compare", "a.jsonl", "b.jsonl"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(run.stdout)["summary"]["ties"] == 3_000
    assert int(run.stderr) / 1024 < 45, "megabytes: each file has as many, and the program half"


def test_all_disagreements_are_listed_on_request(agentv):
    files = [
        results(f"{name}.jsonl", **{f"q{n}": score for n in range(12)})
        for name, score in (("a", 1), ("b", 1), ("c", 0))
    ]
    assert "  … and 2 more\n" in agentv("compare", *files).out
    assert agentv("compare", *files, "--format=verbose").out.count("  q") == 12


scores = st.dictionaries(st.text(max_size=5), st.floats(0, 1), max_size=8)


def compare_scores(first, second, threshold):
    """Compare scores by id."""
    runs = (
        [case_in({"eval_id": name, "score": score}) for name, score in scores.items()] for scores in (first, second)
    )
    return compare_cases(*runs, threshold)


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
    path = tmp_path / "r.jsonl"
    path.write_text(f'{{"eval_id": "a", "score": 1}}\n{line}\n')
    found = read_view(path)
    assert [(each.eval_id, each.score) for each in found.results] == [("a", 1)]
    assert found.problems == (f"r.jsonl:2: {message}; it was skipped",)


def test_a_number_of_any_size_is_no_crash(tmp_path):
    path = tmp_path / "r.jsonl"
    lines = f'{{"eval_id": "a", "score": {"9" * 400}}}\n{{"score": {"9" * 5000}}}\n'
    path.write_text(f'{lines}{{"eval_id": "b", "score": 1}}\n')
    found = read_view(path)
    assert ([each.eval_id for each in found.results], len(found.problems)) == (["b"], 2)
