"""Evaluators that need nothing but their own keys."""

from pathlib import Path
from typing import Any

import pytest

from pytest_agentv.cases.evaluators import load_evaluators
from pytest_agentv.cases.references import References, Scope
from pytest_agentv.evaluators.calls import ExpectedCall, ToolTrajectory
from pytest_agentv.evaluators.field_accuracy import FieldAccuracy, FieldCheck
from pytest_agentv.evaluators.limits import Cost, Latency, TokenUsageLimit
from pytest_agentv.evaluators.table import EVALUATORS
from pytest_agentv.evaluators.text import Heuristic
from pytest_agentv.files.places import Place
from pytest_agentv.files.source import read_yaml


class Loaded:
    """The outcome of loading a list of evaluators, its first item on line 2."""

    def __init__(self, text: str) -> None:
        path = Path("qa.yaml").absolute()
        path.write_text(f"evaluators:\n{text}\n", encoding="utf-8")
        source = read_yaml(path)
        place = Place(source, ("evaluators",), [])
        references = References(path.parent, path.parent, path.parent)
        scope = Scope(source.value["evaluators"], place, references, EVALUATORS.with_own({"my_kind": print}))
        self.specs = load_evaluators(scope)
        self.errors = [str(problem) for problem in place.problems if problem.level == "error"]
        self.warnings = [str(problem) for problem in place.problems if problem.level == "warning"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def load(settings: str) -> Loaded:
    return Loaded(f"  - {{name: e, {settings}}}")


def config_of(settings: str) -> Any:
    loaded = load(settings)
    assert (loaded.errors, loaded.warnings) == ([], [])
    found: Any = loaded.specs[0]
    return found.model_copy(update={"name": None})


@pytest.mark.parametrize(
    ("settings", "config"),
    [
        ("type: latency, threshold: 0", Latency(threshold=0)),
        ("type: cost, budget: 0.5", Cost(budget=0.5)),
        (
            "type: token_usage, max_total: 1, max_input: 2, max_output: 3",
            TokenUsageLimit(max_total=1, max_input=2, max_output=3),
        ),
        (
            "type: token_usage, maxTotal: 1, maxInput: 2, maxOutput: 3",
            TokenUsageLimit(max_total=1, max_input=2, max_output=3),
        ),
        ("type: token_usage, max_output: 3, max_total: null", TokenUsageLimit(max_output=3)),
        ("type: heuristic, hits: [a, b], misses: c", Heuristic(hits=("a", "b"), misses=("c",))),
        (
            "type: tool_trajectory, mode: any_order, minimums: {}",
            ToolTrajectory(mode="any_order", minimums={}),
        ),
        (
            "type: tool_trajectory, mode: any_order, minimums: {A: 2, B: 0}",
            ToolTrajectory(mode="any_order", minimums={"A": 2, "B": 0}),
        ),
        ("type: tool_trajectory, mode: exact, expected: []", ToolTrajectory(mode="exact", expected=())),
        (
            "type: tool_trajectory, mode: in_order, expected:"
            " [{tool: A}, {tool: B, args: any}, {tool: C, args: {}},"
            " {tool: D, args: null, input: {x: 1}, output: y, max_duration_ms: 5}]",
            ToolTrajectory(
                mode="in_order",
                expected=(
                    ExpectedCall(tool="A"),
                    ExpectedCall(tool="B", args="any"),
                    ExpectedCall(tool="C", args={}),
                    ExpectedCall(tool="D", input={"x": 1}, output="y", max_duration_ms=5),
                ),
            ),
        ),
        (
            "type: field_accuracy, fields: [{path: a, match: exact}]",
            FieldAccuracy(fields=(FieldCheck(path="a", match="exact"),)),
        ),
        (
            "type: field_accuracy, aggregation: all_or_nothing, fields: [{path: a, match: numeric_tolerance,"
            " required: false, weight: 2, tolerance: 0.5, relative: true},"
            " {path: d, match: date, formats: [DD/MM/YYYY]}]",
            FieldAccuracy(
                fields=(
                    FieldCheck(
                        path="a", match="numeric_tolerance", required=False, weight=2, tolerance=0.5, relative=True
                    ),
                    FieldCheck(path="d", match="date", formats=("DD/MM/YYYY",)),
                ),
                aggregation="all_or_nothing",
            ),
        ),
    ],
)
def test_the_settings_of_each_kind(settings: str, config: Any) -> None:
    assert config_of(settings) == config


@pytest.mark.scenario("User defines multiple evaluators in YAML")
def test_a_list_of_evaluators_keeps_names_kinds_and_weights() -> None:
    loaded = Loaded("  - {name: a, type: latency, threshold: 1}\n  - {name: b, type: code, script: x, weight: 0}\n")
    assert [(spec.label, spec.kind, spec.weight) for spec in loaded.specs] == [
        ("a", "latency", 1.0),
        ("b", "code_judge", 0.0),
    ]


KINDS = ", ".join(sorted((*EVALUATORS, "my_kind")))


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ("type: nope", f".type: expected one of {KINDS}, got the text 'nope'"),
        ("type: latancy", ".type: expected a kind of evaluator, got the text 'latancy' (did you mean 'latency'?)"),
        ("type: 5", f".type: expected one of {KINDS}, got the number 5"),
        ("weight: 1", f".type: is missing: expected one of {KINDS}"),
        ("type: latency, threshold: 1, weight: -1", ".weight: expected a number of 0 or more, got the number -1"),
        ("type: latency, threshold: 1, weight: '1'", ".weight: expected a number, got the text '1'"),
        ("type: latency, threshold: 1, weight: true", ".weight: expected a number, got true"),
        ("type: latency, threshold: 1, weight: .inf", ".weight: expected a finite number, got the number inf"),
        ("type: latency, threshold: 1, weight: .nan", ".weight: expected a finite number, got the number nan"),
        ("type: latency", ".threshold: is missing"),
        ("type: latency, treshold: 5", ".threshold: is missing (is 'treshold' a misspelling of it?)"),
        ("type: latency, threshold: null", ".threshold: expected a value, got null"),
        ("type: cost, budget: {}", ".budget: expected a number, got an empty mapping"),
        ("type: token_usage", ": token_usage needs a limit: max_total, max_input or max_output"),
        ("type: token_usage, maxTotal: -5", ".maxTotal: expected a number of 0 or more, got the number -5"),
        ("type: heuristic, hits: [a, ' ']", ".hits[1]: expected a non-empty text, got the text ' '"),
        ("type: heuristic, hits: 5", ".hits: expected a list, got the number 5"),
        ("type: heuristic", ": heuristic needs keywords, or every answer would pass: hits, misses or both"),
        (
            "type: tool_trajectory, mode: any",
            ".mode: expected one of any_order, in_order, exact, got the text 'any'",
        ),
        (
            "type: tool_trajectory, mode: inorder",
            ".mode: expected one of any_order, in_order, exact, got the text 'inorder' (did you mean 'in_order'?)",
        ),
        ("type: tool_trajectory, mode: any_order", ": mode any_order needs the key 'minimums'"),
        ("type: tool_trajectory, mode: exact, minimums: {A: 1}", ": mode exact needs the key 'expected'"),
        (
            "type: tool_trajectory, mode: any_order, minimums: {A: -1}",
            ".minimums.A: expected a number of 0 or more, got the number -1",
        ),
        ("type: tool_trajectory, mode: any_order, minimums: [A]", ".minimums: expected a mapping, got a list"),
        ("type: tool_trajectory, mode: exact, expected: [A]", ".expected[0]: expected a mapping, got the text 'A'"),
        (
            "type: tool_trajectory, mode: exact, expected: [{tol: A}]",
            ".expected[0].tool: is missing (is 'tol' a misspelling of it?)",
        ),
        (
            "type: tool_trajectory, mode: exact, expected: [{tool: A, args: [x]}]",
            ".expected[0].args: expected a mapping of arguments or the word any, got a list",
        ),
        ("type: field_accuracy", ".fields: is missing"),
        ("type: field_accuracy, fields: []", ".fields: expected at least one entry, got an empty list"),
        ("type: field_accuracy, fields: [{path: a}]", ".fields[0].match: is missing"),
        ("type: field_accuracy, fields: [{match: exact}]", ".fields[0].path: is missing"),
        (
            "type: field_accuracy, fields: [{path: a, match: date, formats: [DD/MM/YYYY, EU]}]",
            ".fields[0].formats[1]: expected a date format (YYYY or YY, MMMM, MMM, MM or M, DD or D, and separators), "
            "such as DD/MM/YYYY, got the text 'EU'",
        ),
        (
            "type: field_accuracy, fields: [{path: a, match: exact, required: 'no'}]",
            ".fields[0].required: expected true or false, got the text 'no'",
        ),
        (
            "type: field_accuracy, fields: [{path: a, match: exact}], aggregation: mean",
            ".aggregation: expected one of weighted_average, all_or_nothing, got the text 'mean'",
        ),
    ],
)
def test_a_broken_evaluator_says_what_is_wrong(settings: str, error: str) -> None:
    loaded = load(settings)
    assert loaded.errors == [f"qa.yaml:2: evaluators[0]{error}"]
    assert loaded.specs == ()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "  - 5",
            "2: evaluators[0]: expected an evaluator: a mapping such as {contains: 30 days}, or a text that a judge "
            "checks, got the number 5",
        ),
        ("  - ' '", "2: evaluators[0]: expected a non-empty text, got the text ' '"),
        ("  name: x", "1: evaluators: expected a list of evaluators, got a mapping (put `- ` before its first key)"),
        (
            "  - {type: heuristic, name: 5}",
            '2: evaluators[0].name: expected a non-empty text, got the number 5 (put it into quotes: "5")',
        ),
    ],
)
def test_what_is_no_evaluator_and_no_list_of_them_is_an_error(text: str, error: str) -> None:
    assert Loaded(text).errors == [f"qa.yaml:{error}"]


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ("type: latency, threshold: 1, wieght: 2", ".wieght: unknown key (did you mean 'weight'?)"),
        ("type: heuristic, hits: x, zzz: 2", ".zzz: unknown key"),
        (
            "type: token_usage, max_total: 9, maxTotal: 1",
            ".maxTotal: is not read, because it is another word for 'max_total' (keep one of them)",
        ),
        (
            "type: tool_trajectory, mode: exact, expected: [{tool: a, maxDurationMs: 1, max_duration_ms: 2}]",
            ".expected[0].maxDurationMs: is not read, because it is another word for 'max_duration_ms' "
            "(keep one of them)",
        ),
        (
            "type: token_usage, max_total: 1, maxTotals: 2",
            ".maxTotals: unknown key (did you mean 'maxTotal'?)",
        ),
        (
            "type: field_accuracy, fields: [{path: a, match: exact, tolerence: 1}]",
            ".fields[0].tolerence: unknown key (did you mean 'tolerance'?)",
        ),
        (
            "type: tool_trajectory, mode: exact, expected: [{tool: A, max_duration: 1}]",
            ".expected[0].max_duration: unknown key (did you mean 'max_duration_ms'?)",
        ),
        (
            "type: tool_trajectory, mode: exact, expected: [], minimums: {A: 1}",
            ".minimums: nobody reads this key (mode exact reads 'expected' only)",
        ),
        (
            "type: tool_trajectory, mode: any_order, minimums: {A: 1}, expected: []",
            ".expected: nobody reads this key (mode any_order reads 'minimums' only)",
        ),
        (
            "type: field_accuracy, fields: [{path: a, match: exact, tolerance: 0.1}]",
            ".fields[0].tolerance: nobody reads this key (it belongs to match: numeric_tolerance)",
        ),
        (
            "type: field_accuracy, fields: [{path: a, match: exact, formats: [DD/MM/YYYY]}]",
            ".fields[0].formats: nobody reads this key (it belongs to match: date)",
        ),
    ],
)
def test_a_key_that_nobody_reads_is_an_error(settings: str, error: str) -> None:
    assert load(settings).errors == [f"qa.yaml:2: evaluators[0]{error}"]
