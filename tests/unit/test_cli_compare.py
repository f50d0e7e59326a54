"""`agentv compare`: what it prints where, and its exit codes."""

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


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def results(name: str, **scores: float) -> str:
    lines = (json.dumps({"eval_id": eval_id, "score": score}) for eval_id, score in scores.items())
    Path(name).write_text("".join(f"{line}\n" for line in lines))
    return name


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
        *("TestA::test_x", "test_two", "test_two::named", "p[a::b]", "TestB::test_x", "test_x", "last::named")
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
