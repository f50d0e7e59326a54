"""`agentv compare`: what it prints where, and its exit codes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

RUN = [sys.executable, "-c", "from pytest_agentv.cli.main import main; raise SystemExit(main())"]
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


@pytest.mark.scenario("Basic comparison")
def test_json_goes_to_standard_output_and_nothing_else(agentv):
    run = agentv("compare", results("a.jsonl", x=0.8, y=1, z=1), results("b.jsonl", x=0.9, y=1), "--allow-missing")
    assert (run.exit_code, run.err) == (0, "")
    assert json.loads(run.out) == {
        "matched": [
            {"eval_id": "x", "score1": 0.8, "score2": 0.9, "delta": 0.1, "outcome": "win"},
            {"eval_id": "y", "score1": 1, "score2": 1, "delta": 0, "outcome": "tie"},
        ],
        "unmatched": {"file1": 1, "file2": 0},
        "summary": {"total": 3, "matched": 2, "wins": 1, "losses": 0, "ties": 1, "meanDelta": 0.05, "errors": 0},
        "unmatched_cases": {"file1": [{"eval_id": "z"}], "file2": []},
        "error_cases": {"file1": [], "file2": []},
    }


@pytest.mark.scenario("Configurable threshold")
@pytest.mark.parametrize("flag", ["--threshold", "-t"])
def test_the_threshold_can_be_chosen(agentv, flag):
    run = agentv("compare", results("a.jsonl", x=0.8), results("b.jsonl", x=0.9), flag, "0.2")
    assert json.loads(run.out)["summary"]["ties"] == 1


@pytest.mark.scenario("Basic comparison")
@pytest.mark.parametrize(("score", "outcome"), [(0.6, "win"), (0.595, "tie"), (0.405, "tie"), (0.4, "loss")])
def test_a_tenth_is_the_threshold_unless_another_is_given(agentv, score, outcome):
    run = agentv("compare", results("a.jsonl", x=0.5), results("b.jsonl", x=score))
    assert [case["outcome"] for case in json.loads(run.out)["matched"]] == [outcome]


@pytest.mark.scenario("Exit code indicates comparison result")
@pytest.mark.parametrize(("score", "exit_code"), [(0.6, 0), (0.5, 0), (0.4, 1)])
def test_the_exit_code_tells_whether_the_candidate_is_worse(agentv, score, exit_code):
    assert agentv("compare", results("a.jsonl", x=0.5), results("b.jsonl", x=score)).exit_code == exit_code


def test_a_table_goes_to_standard_output_when_it_is_asked_for(agentv):
    run = agentv("compare", "--format=table", results("a.jsonl", x=0.8), results("b.jsonl", x=0.7, y=1))
    assert (run.exit_code, run.err) == (1, "")
    assert run.out == (
        "Comparing: a.jsonl → b.jsonl\n"
        "\n"
        "Eval ID  Baseline  Candidate   Delta  Result\n"
        "x            0.80       0.70   -0.10  ✗ loss\n"
        "\n"
        "Only in the candidate (1): y\n"
        "Summary: 0 wins, 1 loss, 0 ties | Mean delta: -0.100 | worse\n"
    )


def test_the_table_tells_cases_of_the_same_id_apart(agentv):
    cases = [("x", "a.yaml", "gpt"), ("x", "a.yaml", "claude"), ("y", "a.yaml", "gpt"), ("y", "b.yaml", "gpt")]
    keys = ("eval_id", "eval_file", "target")
    lines = [
        json.dumps({**dict(zip(keys, case, strict=True)), "score": 1}) for case in (*cases, ("z", "b.yaml", "gpt"))
    ]
    Path("a.jsonl").write_text("\n".join(lines))
    shown = agentv("compare", "--format=table", "a.jsonl", "a.jsonl").out.splitlines()[3:8]
    assert [line.partition("  ")[0] for line in shown] == ["x (gpt)", "x (claude)", "a.yaml::y", "b.yaml::y", "z"]


def test_the_table_tells_tests_of_one_name_apart(agentv):
    nodes = {"test_x": "TestA::test_x", "test_two": "test_two", "named": "test_two", "p[a::b]": "p[a::b]"}
    cases = [(eval_id, "test_a.py", item) for eval_id, item in nodes.items()]
    cases += [
        ("test_x", "test_a.py", "TestB::test_x"),
        ("test_x", "test_b.py", "test_x"),
        ("named", "test_a.py", "last"),
    ]
    lines = [
        json.dumps({"eval_id": eval_id, "eval_file": file, "node_id": f"{file}::{item}", "score": 1})
        for eval_id, file, item in cases
    ]
    Path("a.jsonl").write_text("\n".join(lines))
    shown = agentv("compare", "--format=table", "a.jsonl", "a.jsonl").out.splitlines()[3:10]
    assert [line.partition("  ")[0] for line in shown] == [
        *("TestA::test_x", "test_two", "test_two::named", "p[a::b]", "TestB::test_x", "test_x", "last::named"),
    ]


def test_cases_that_are_missing_have_their_own_names(agentv):
    case = {"eval_file": "test_a.py", "score": 1}
    tests = [case | {"eval_id": "test_x", "node_id": f"test_a.py::{kind}::test_x"} for kind in ("TestA", "TestB")]
    named = [case | {"eval_id": eval_id, "node_id": "test_a.py::test_two"} for eval_id in ("test_two", "named")]
    Path("a.jsonl").write_text("\n".join(map(json.dumps, tests + named)))
    Path("b.jsonl").write_text("\n".join(map(json.dumps, tests)))
    out = agentv("compare", "--format=table", "a.jsonl", "b.jsonl").out
    assert "Only in the baseline (2): test_a.py::test_two, test_a.py::test_two (named)\n" in out


def test_on_a_terminal_the_table_is_on_standard_error_and_json_stays_what_it_is(agentv, monkeypatch):
    arguments = ("compare", results("a.jsonl", x=0.8), results("b.jsonl", x=0.9))
    plain = agentv(*arguments)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    run = agentv(*arguments)
    assert run.out == plain.out
    assert run.err.splitlines()[-1] == "Summary: 1 win, 0 losses, 0 ties | Mean delta: +0.100 | better"


def test_what_is_odd_about_the_files_is_told_on_standard_error(agentv, golden):
    good = '{"eval_id": "a", "score": 1}\n'
    Path("a.jsonl").write_text(good * 3 + '[1]\nno json\n{"eval_id": "b", "score": 0, "error": "timed out"}\n{"eval')
    Path("b.jsonl").write_text(good + "{}\n" * 12)
    run = agentv("compare", "a.jsonl", "b.jsonl")
    assert run.exit_code == 2
    assert run.err == golden("cli/compare_remarks.txt")


def test_files_without_a_common_case_cannot_be_compared(agentv):
    run = agentv("compare", results("a.jsonl", x=1), results("b.jsonl", y=0), "--allow-missing")
    assert run.exit_code == 2
    assert json.loads(run.out)["unmatched"] == {"file1": 1, "file2": 1}
    assert run.err == (
        "agentv compare: no case is in both files, so there is nothing to compare: the baseline has x, "
        "the candidate y\n"
    )


def test_two_runs_of_errors_cannot_be_compared(agentv):
    for name in ("a.jsonl", "b.jsonl"):
        Path(name).write_text('{"eval_id": "x", "score": 0, "error": "timed out"}\n')
    run = agentv("compare", "a.jsonl", "b.jsonl")
    assert (run.exit_code, run.err.splitlines()[-1]) == (
        *(2, "agentv compare: no case has a score in both files, so there is nothing to compare"),
    )
    assert json.loads(run.out)["summary"]["ties"] == 0


@pytest.mark.parametrize(("flags", "exit_code"), [((), 2), (("--allow-missing",), 0)])
def test_a_candidate_that_lacks_cases_is_not_as_good(agentv, flags, exit_code):
    run = agentv("compare", results("a.jsonl", x=1, y=0, z=0), results("b.jsonl", x=1), *flags)
    assert run.exit_code == exit_code
    assert json.loads(run.out)["unmatched_cases"]["file1"] == [{"eval_id": "y"}, {"eval_id": "z"}]
    assert run.err == (
        "" if flags else "agentv compare: the candidate lacks 2 cases of the baseline: y, z (or use --allow-missing)\n"
    )


@pytest.mark.parametrize("text", ["", "\n\n"])
def test_a_file_without_results_cannot_be_compared(agentv, text):
    Path("empty.jsonl").write_text(text)
    run = agentv("compare", results("a.jsonl", x=1), "empty.jsonl")
    assert (run.exit_code, run.out) == (2, "")
    assert run.err == (
        "agentv compare: empty.jsonl: holds no results: expected lines of JSON, or YAML documents, "
        "with eval_id and score\n"
    )


@pytest.mark.parametrize(("name", "reason"), [("gone.jsonl", "No such file or directory"), (".", "Is a directory")])
def test_a_file_that_cannot_be_read_is_told(agentv, name, reason):
    run = agentv("compare", name, "gone.jsonl")
    assert (run.exit_code, run.out) == (2, "")
    assert run.err == f"agentv compare: {name}: cannot be read: {reason}\n"


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
