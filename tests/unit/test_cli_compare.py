"""`agentv compare`: what it prints where, and its exit codes. The folders `compare-*` of the corpus show the rest."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

MEASURE = (
    "import re, sys; from pytest_agentv.cli.main import main; code = main();"
    "sys.stderr.write(re.search('VmHWM:[^0-9]*([0-9]+)', open('/proc/self/status').read())[1]); raise SystemExit(code)"
)
"""Prints the peak of the process's own memory in kB; `ru_maxrss` would tell that of the process that started it."""


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
    assert (run.exit_code, run.err) == (2, golden("cli/compare_remarks.txt"))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="measured through /proc")
def test_two_large_files_are_compared_in_little_memory(tmp_path):
    with (tmp_path / "a.jsonl").open("w") as file:
        for number in range(3_000):
            file.write(f'{{"eval_id": "case-{number:06}", "score": 0.5, "candidate_answer": "{"x" * 15_000}"}}\n')
    (tmp_path / "b.jsonl").hardlink_to(tmp_path / "a.jsonl")
    command = [sys.executable, "-c", MEASURE, "compare", "a.jsonl", "b.jsonl"]
    run = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert json.loads(run.stdout)["summary"]["ties"] == 3_000
    assert int(run.stderr) / 1024 < 45, "megabytes: each file has as many, and the program half"


def test_all_disagreements_are_listed_on_request(agentv):
    files = [
        results(f"{name}.jsonl", **{f"q{n}": score for n in range(12)})
        for name, score in (("a", 1), ("b", 1), ("c", 0))
    ]
    assert "  … and 2 more\n" in agentv("compare", *files).out
    assert agentv("compare", *files, "--format=verbose").out.count("  q") == 12


PAIRS = {
    "a": (0.8, 0.9, 0.1, "win"),  # 0.09999999999999998 in floating point
    "b": (0.9, 0.8, -0.1, "loss"),
    "c": (0.8, 0.89, 0.09, "tie"),
    "d": (0.5, 0.5, 0, "tie"),
    "e": (0, 1, 1, "win"),
    "f": (1, 0, -1, "loss"),
    "g": (0.5, 0.499, -0.001, "tie"),
}


def test_a_case_is_won_or_lost_by_the_threshold_or_more_and_of_many_unmatched_cases_some_are_named(agentv):
    only = {f"only{number}": 1.0 for number in range(1_012)}
    first = results("a.jsonl", **{name: pair[0] for name, pair in PAIRS.items()}, **only)
    second = results("b.jsonl", **{name: pair[1] for name, pair in PAIRS.items()})
    told = json.loads(agentv("compare", first, second).out)
    found = {each["eval_id"]: (each["delta"], each["outcome"]) for each in told["matched"]}
    assert found == {name: pair[2:] for name, pair in PAIRS.items()}
    lines = agentv("compare", first, second, "--format=table").out.splitlines()
    ten = ", ".join(f"only{number}" for number in range(10))
    assert f"Only in the baseline (1,012): {ten}, … and 1,002 more" in lines
    assert "g            0.50       0.50   +0.00  = tie" in lines, "no sign of a loss that nobody can see"


SKIPPED = [
    ('{"score": 1}', "the result has no eval_id: expected a text, got null"),
    ('{"eval_id": 5, "score": 1}', "the result has no eval_id: expected a text, got the number 5"),
    ('{"eval_id": "b", "score": "1"}', "the result of 'b' has no score: expected a number, got the text '1'"),
    ('{"eval_id": "b", "score": true}', "the result of 'b' has no score: expected a number, got true"),
    ('{"eval_id": "b", "score": NaN}', "the result of 'b' has no score: expected a number, got the number nan"),
    ('{"eval_id": "b", "score": 1e999}', "the result of 'b' has no score: expected a number, got the number inf"),
    ('{"eval_id": "b", "score": 87}', "the result of 'b' has the score 87 and no threshold: expected 0 to 1"),
    (
        f'{{"eval_id": "b", "score": {"9" * 400}}}',
        "the result of 'b' has no score: expected a number of at most 1e+100, got",
    ),
    (f'{{"score": {"9" * 5000}}}', "invalid JSON"),
]


@pytest.mark.parametrize(("line", "message"), SKIPPED, ids=lambda text: text[:30])
def test_a_result_without_id_or_score_is_skipped_and_told(agentv, line, message):
    results("good.jsonl", a=1)
    Path("r.jsonl").write_text(f'{{"eval_id": "a", "score": 1}}\n{line}\n')
    run = agentv("compare", "r.jsonl", "good.jsonl")
    assert (run.exit_code, json.loads(run.out)["summary"]["total"]) == (0, 1)
    assert run.err.count("it was skipped") == 1
    assert message in run.err
    assert "r.jsonl:2: " in run.err
