"""The programs that judges run. `tests/corpus/mistakes-values-of-evaluators` shows what is said of wrong keys."""

import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_agentv.cases.evaluators import load_evaluators
from pytest_agentv.cases.references import References, Scope
from pytest_agentv.evaluators.calls import ExpectedCall, TokenUsageLimit
from pytest_agentv.evaluators.composite import CodeAggregator
from pytest_agentv.evaluators.script import CodeJudge
from pytest_agentv.evaluators.table import EVALUATORS
from pytest_agentv.files.places import Place
from pytest_agentv.files.source import read_yaml


def load(settings: str) -> tuple[Any, list[str]]:
    """Return an evaluator of a file in the working folder, and the problems."""
    path = Path("qa.yaml").absolute()
    path.write_text(f"evaluators:\n  - {{name: e, {settings}}}\n", encoding="utf-8")
    source = read_yaml(path)
    place = Place(source, ("evaluators",), [])
    references = References(path.parent, path.parent, path.parent)
    loaded: Any = load_evaluators(Scope(source.value["evaluators"], place, references, EVALUATORS)) or (None,)
    return loaded[0], [str(problem) for problem in place.problems]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "judges").mkdir()
    for name in ("plain.py", "plain.js", "plain.mjs", "plain.sh", "bang.py", "bang.sh", "bangless.sh", "locked.sh"):
        (tmp_path / "judges" / name).write_text("#!/usr/bin/env -S uv run --script\n" if "bang." in name else "echo")
        (tmp_path / "judges" / name).chmod(0o755 if name.startswith("bang") else 0o644)
    (tmp_path / "judges" / "locked.sh").write_text("#!/bin/bash\n")
    return tmp_path


@pytest.mark.parametrize(
    ("script", "command"),
    [
        ("[python3, judges/plain.py, --strict]", ("python3", "judges/plain.py", "--strict")),
        ("'python3 judges/plain.py'", ("sh", "-lc", "python3 judges/plain.py")),
        ("x.py", ("sh", "-lc", "x.py")),
        ("check", ("sh", "-lc", "check")),
        ("judges/plain.py", (sys.executable, "FOLDER/judges/plain.py")),
        ("' ./judges/plain.js '", ("node", "FOLDER/judges/plain.js")),
        ("judges/plain.mjs", ("node", "FOLDER/judges/plain.mjs")),
        ("judges/plain.sh", ("sh", "FOLDER/judges/plain.sh")),
        ("./judges/bang.py", ("FOLDER/judges/bang.py",)),
        ("./judges/bang.sh", ("FOLDER/judges/bang.sh",)),
        ("./judges/bangless.sh", ("sh", "FOLDER/judges/bangless.sh")),
        ("./judges/locked.sh", ("sh", "FOLDER/judges/locked.sh")),
    ],
)
def test_a_script_is_a_command_or_a_file_that_its_interpreter_runs(
    folder: Path, script: str, command: tuple[str, ...]
) -> None:
    judge, problems = load(f"type: code_judge, script: {script}")
    expected = tuple(word.replace("FOLDER", str(folder)) for word in command)
    assert (judge, problems) == (CodeJudge(name="e", script=expected, cwd=str(folder)), [])


def test_programs_run_in_the_folder_of_the_eval_file_unless_told_otherwise(folder: Path) -> None:
    judge, _ = load("type: code, script: plain.py, cwd: judges, camelKey: {innerKey: 1}, config: null")
    script = (sys.executable, str(folder / "judges" / "plain.py"))
    others: dict[str, Any] = {"camelKey": {"innerKey": 1}, "config": None}
    assert judge == CodeJudge(name="e", script=script, cwd=str(folder / "judges"), **others)
    for extra, cwd in (("", folder), (", cwd: judges", folder / "judges")):
        members = "evaluators: [{name: a, type: latency, threshold: 1}]"
        found, _ = load(f"type: composite, {members}, aggregator: {{type: code_judge, path: node gate.js{extra}}}")
        assert found.aggregator == CodeAggregator(path="node gate.js", cwd=str(cwd))


def test_faults_of_members_are_told_once_beside_unknown_keys_at_every_level() -> None:
    settings = "type: code, script: [x], cwd: gone, target: {max_cals: 1}"
    for _ in range(30):
        member = f"evaluators: [{{name: c, {settings}}}]"
        settings = f"type: composite, zzz: 1, aggregator: {{type: weighted_average}}, {member}"
    _, errors = load(settings)
    told = ["zzz: unknown key", "folder 'gone' was not found", "max_cals: unknown key"]
    assert [sum(text in error for error in errors) for text in told] == [30, 1, 1]
    assert len(errors) == 32


def test_a_value_of_null_is_as_if_it_were_left_out() -> None:
    trajectory, problems = load("type: tool_trajectory, mode: exact, expected: [{tool: A, args: null}]")
    assert (trajectory.expected, problems) == ((ExpectedCall(tool="A"),), [])
    limit, problems = load("type: token_usage, max_output: 3, max_total: null")
    assert (limit, problems) == (TokenUsageLimit(name="e", max_output=3), [])
