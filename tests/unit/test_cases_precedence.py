"""What a case takes from itself and what from its file: target, threshold, evaluators."""

from pathlib import Path

import pytest

from pytest_agentv.cases.cases import LoadedCase, load_case
from pytest_agentv.cases.suites import read_suite
from pytest_agentv.cases.written import LoadContext
from pytest_agentv.errors import CaseError
from pytest_agentv.evaluators.judge import Rubric, RubricJudge
from pytest_agentv.evaluators.limits import Latency
from pytest_agentv.evaluators.own import FactoryEvaluator
from pytest_agentv.evaluators.table import EVALUATORS
from pytest_agentv.evaluators.text import Heuristic
from pytest_agentv.model.cases import EvalCase

BASE = "id: a\nexpected_outcome: ok\ninput: hi\n"


@pytest.fixture(autouse=True)
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evals").mkdir()
    return tmp_path


def load_from(path: Path, index: int = 0) -> LoadedCase:
    suite = read_suite(path)
    context = LoadContext(Path.cwd(), Path.cwd(), evaluators=EVALUATORS.with_own({"my_kind": print}))
    return load_case(suite, suite.entries[index], context)


def load(case: str, header: str = "") -> LoadedCase:
    path = Path("evals/qa.yaml")
    lines = "".join(f"    {line}\n" for line in case.splitlines())
    path.write_text(f"{header}evalcases:\n  - {lines.strip()}\n", encoding="utf-8")
    return load_from(path)


def case_of(case: str, header: str = "") -> EvalCase:
    return load(case, header).case


def names_of(case: EvalCase) -> list[str] | None:
    return None if case.evaluators is None else [spec.label for spec in case.evaluators]


@pytest.mark.parametrize(
    ("case", "header", "target"),
    [
        ("execution: {target: ' c '}", "execution: {target: f}\n", "c"),
        ("target: c", "target: f\n", "c"),
        ("execution: {threshold: 1}", "target: f\n", "f"),
        ("note: x", "", None),
    ],
)
def test_the_target_of_a_case_comes_before_that_of_its_file(case: str, header: str, target: str | None) -> None:
    assert case_of(BASE + case, header).target == target


@pytest.mark.parametrize(
    ("case", "header", "threshold", "source"),
    [
        ("threshold: 0", "threshold: 0.5\n", 0.0, "case"),
        ("execution: {threshold: 0.2}", "threshold: 0.5\n", 0.2, "case"),
        ("threshold: 0.1\nexecution: {threshold: 0.2}", "", 0.1, "case"),
        ("execution: {target: x}", "threshold: 0\n", 0.0, "file"),
        ("note: x", "execution: {threshold: 0.5}\n", 0.5, "file"),
        ("note: x", "", None, None),
    ],
)
def test_the_threshold_of_a_case_comes_before_that_of_its_file(
    case: str, header: str, threshold: float | None, source: str | None
) -> None:
    loaded = case_of(BASE + case, header)
    assert (loaded.threshold, loaded.threshold_source) == (threshold, source)


EXECUTION_OF_FILE = "execution:\n  evaluators: [{name: f, type: heuristic, hits: [x]}]\n"


@pytest.mark.parametrize(
    ("case", "header", "names"),
    [
        (
            "execution: {evaluators: [{name: e, type: heuristic, hits: [x]}]}\n"
            "evaluators: [{name: c, type: heuristic, hits: [x]}]",
            EXECUTION_OF_FILE,
            ["e"],
        ),
        ("execution: {target: x}\nevaluators: [{name: c, type: heuristic, hits: [x]}]", EXECUTION_OF_FILE, ["c"]),
        ("assertions: [{name: c, type: heuristic, hits: [x]}]", EXECUTION_OF_FILE, ["c"]),
        ("execution: {assert: [{name: e, type: heuristic, hits: [x]}]}", EXECUTION_OF_FILE, ["e"]),
        ("execution: {target: x}", EXECUTION_OF_FILE, ["f"]),
        ("evaluators: null", EXECUTION_OF_FILE, ["f"]),
        ("note: x", "evaluators: [{name: g, type: heuristic, hits: [x]}]\n", ["g"]),
        ("note: x", EXECUTION_OF_FILE + "assert: [{name: g, type: heuristic, hits: [x]}]\n", ["f"]),
        ("evaluators: []", EXECUTION_OF_FILE, None),
        ("note: x", "", None),
        ("rubrics: [one]", EXECUTION_OF_FILE, ["rubric", "f"]),
        ("rubrics: []", "", None),
    ],
)
def test_the_nearest_list_of_evaluators_applies(case: str, header: str, names: list[str] | None) -> None:
    assert names_of(case_of(BASE + case, header)) == names


def test_the_list_of_a_sidecar_applies_to_cases_with_an_execution_map_of_their_own() -> None:
    Path("evals/qa.yaml").write_text(EXECUTION_OF_FILE.replace("evaluators", "target: t\n  evaluators"))
    path = Path("evals/qa.jsonl")
    path.write_text('{"id": "a", "outcome": "ok", "input": "hi", "execution": {"threshold": 0.5}}\n')
    case = load_from(path).case
    assert (names_of(case), case.target, case.threshold) == (["f"], "t", 0.5)


def test_faults_in_the_evaluators_of_a_file_are_told_with_their_own_lines() -> None:
    header = "execution:\n  evaluators:\n    - {name: f, type: latency}\n"
    with pytest.raises(CaseError) as caught:
        load(BASE, header)
    assert str(caught.value) == "evals/qa.yaml:3: execution.evaluators[0].threshold: is missing"


def test_the_evaluators_of_a_file_are_read_once_and_what_is_odd_about_them_comes_with_each_of_its_cases() -> None:
    Path("evals/judge.md").write_text("Is {{candidate_answer}} right?")
    header = "evaluators: [{name: f, type: llm_judge, prompt: judge.md, promt: x}]\n"
    Path("evals/qa.yaml").write_text(f"{header}evalcases:\n- {{{BASE.strip().replace(chr(10), ', ')}}}\n")
    suite = read_suite(Path("evals/qa.yaml"))
    context = LoadContext(Path.cwd(), Path.cwd(), unknown_keys="warn", evaluators=EVALUATORS)
    first = load_case(suite, suite.entries[0], context)
    Path("evals/judge.md").unlink()
    assert load_case(suite, suite.entries[0], context) == first
    assert [(problem.line, problem.key) for problem in first.warnings] == [(1, "evaluators[0].promt")]


def test_rubrics_of_a_case_are_a_judge_before_the_others() -> None:
    rubrics = (
        "rubrics:\n- Is polite\n- {id: x, description: Is short, weight: 2, required: false}\n- {description: Is true}"
    )
    case = case_of(f"{BASE}{rubrics}\nevaluators: [{{name: h, type: heuristic, hits: [x]}}]")
    expected = (
        Rubric(id="rubric-1", description="Is polite"),
        Rubric(id="x", description="Is short", weight=2, required=False),
        Rubric(id="rubric-3", description="Is true"),
    )
    assert case.evaluators == (
        RubricJudge(name="rubric", rubrics=expected),
        Heuristic(name="h", hits=("x",)),
    )


def test_kinds_of_plugins_are_handed_their_keys_as_written() -> None:
    case = case_of(f"{BASE}evaluators: [{{name: m, type: my_kind, weight: 2, depth: {{a: 1}}}}]")
    (evaluator,) = case.evaluators or ()
    assert isinstance(evaluator, FactoryEvaluator)
    assert (evaluator.label, evaluator.kind, evaluator.weight) == ("m", "my_kind", 2)
    assert evaluator.config == {"name": "m", "type": "my_kind", "weight": 2, "depth": {"a": 1}}


def test_evaluators_of_the_same_name_are_fine() -> None:
    loaded = load(
        f"{BASE}evaluators: [{{name: l, type: latency, threshold: 1}}, {{name: l, type: latency, threshold: 2}}]"
    )
    assert loaded.case.evaluators is not None
    assert list(loaded.case.evaluators) == [Latency(name="l", threshold=1), Latency(name="l", threshold=2)]
    assert loaded.warnings == ()
