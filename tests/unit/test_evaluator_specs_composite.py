"""Composites: their members and aggregators."""

from pathlib import Path
from typing import Any

import pytest

from pytest_agentv.cases.evaluators import load_evaluators
from pytest_agentv.cases.references import References, Scope
from pytest_agentv.evaluators.composite import CodeAggregator, Composite, LlmAggregator, WeightedAverage
from pytest_agentv.evaluators.limits import Cost, Latency
from pytest_agentv.evaluators.table import EVALUATORS
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
        scope = Scope(source.value["evaluators"], place, references, EVALUATORS)
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


MEMBERS = "evaluators: [{name: a, type: latency, threshold: 1, weight: 9}, {name: b, type: cost, budget: 1}]"


def test_a_composite_holds_its_members_and_their_weights() -> None:
    config = config_of(f"type: composite, {MEMBERS}, aggregator: {{type: weighted_average, weights: {{a: 3}}}}")
    members = (
        Latency(name="a", threshold=1, weight=9),
        Cost(name="b", budget=1),
    )
    assert config == Composite(evaluators=members, aggregator=WeightedAverage(weights={"a": 3.0}))


def test_composites_are_nested() -> None:
    inner = f"{{name: c, type: composite, {MEMBERS}, aggregator: {{type: weighted_average, weights: {{a: 9}}}}}}"
    config = config_of(f"type: composite, assertions: [{inner}], aggregator: {{type: weighted_average}}")
    assert isinstance(config, Composite)
    assert [spec.kind for spec in config.evaluators] == ["composite"]


def test_a_code_aggregator_runs_in_the_folder_of_the_eval_file_unless_told_otherwise(folder: Path) -> None:
    (folder / "gates").mkdir()
    for extra, cwd in (("", folder), (", cwd: gates", folder / "gates")):
        config = config_of(f"type: composite, {MEMBERS}, aggregator: {{type: code_judge, path: node gate.js{extra}}}")
        assert isinstance(config, Composite)
        assert config.aggregator == CodeAggregator(path="node gate.js", cwd=str(cwd))


AGGREGATORS = "code_judge, llm_judge, weighted_average"


@pytest.mark.parametrize(
    ("settings", "errors"),
    [
        ("type: composite", [".evaluators: is missing", ".aggregator: is missing"]),
        (
            "type: composite, evaluators: [], aggregator: {type: weighted_average}",
            [".evaluators: expected at least one entry, got an empty list"],
        ),
        (
            "type: composite, evaluators: [{name: x, type: latency}], aggregator: {type: mean}",
            [
                ".evaluators[0].threshold: is missing",
                f".aggregator.type: expected one of {AGGREGATORS}, got the text 'mean'",
            ],
        ),
        (
            f"type: composite, {MEMBERS}, aggregator: {{weights: {{}}}}",
            [f".aggregator.type: is missing: expected one of {AGGREGATORS}"],
        ),
        (f"type: composite, {MEMBERS}, aggregator: {{type: code_judge}}", [".aggregator.path: is missing"]),
        (
            f"type: composite, {MEMBERS}, aggregator: {{type: code_judge, path: x, cwd: no}}",
            [".aggregator.cwd: folder 'no' was not found; searched: no"],
        ),
        (
            f"type: composite, {MEMBERS}, aggregator: {{type: weighted_average, weights: {{a: x}}}}",
            [".aggregator.weights.a: expected a number, got the text 'x'"],
        ),
    ],
)
def test_a_broken_composite_says_what_is_wrong(settings: str, errors: list[str]) -> None:
    assert load(settings).errors == [f"qa.yaml:2: evaluators[0]{error}" for error in errors]


@pytest.mark.parametrize(
    ("weights", "hint"),
    [("safty: 1", "did you mean 'safety'?"), ("zzz: 1", "members: safety")],
)
def test_a_weight_for_nobody_is_an_error(weights: str, hint: str) -> None:
    member = "{name: safety, type: heuristic, hits: [x]}"
    loaded = load(
        f"type: composite, evaluators: [{member}], aggregator: {{type: weighted_average, weights: {{{weights}}}}}"
    )
    name = weights.partition(":")[0]
    assert loaded.errors == [
        f"qa.yaml:2: evaluators[0].aggregator.weights.{name}: a weight for a member that there is none of ({hint})"
    ]


def aggregator_of(settings: str) -> object:
    config = config_of(f"type: composite, {MEMBERS}, aggregator: {{type: llm_judge{settings}}}")
    assert isinstance(config, Composite)
    return config.aggregator


def test_the_prompt_of_an_aggregator_is_inline_or_read_from_its_file(folder: Path) -> None:
    (folder / "sum.md").write_text("File {{EVALUATOR_RESULTS_JSON}}")
    assert aggregator_of("") == LlmAggregator()
    assert aggregator_of(", prompt: 'Sum {{EVALUATOR_RESULTS_JSON}}'") == LlmAggregator(
        prompt="Sum {{EVALUATOR_RESULTS_JSON}}"
    )
    assert aggregator_of(", prompt: sum.md") == LlmAggregator(prompt="File {{EVALUATOR_RESULTS_JSON}}")
    assert aggregator_of(", promptPath: sum.md") == LlmAggregator(prompt="File {{EVALUATOR_RESULTS_JSON}}")


def test_a_prompt_that_does_not_show_the_results_is_a_warning() -> None:
    loaded = load(f"type: composite, {MEMBERS}, aggregator: {{type: llm_judge, prompt: Sum up}}")
    assert loaded.warnings == [
        "qa.yaml:2: evaluators[0].aggregator: the template does not use {{EVALUATOR_RESULTS_JSON}}: "
        "the judge does not see the results",
    ]
    assert loaded.errors == []


def test_an_unknown_variable_in_place_of_the_results_is_an_error() -> None:
    loaded = load(f"type: composite, {MEMBERS}, aggregator: {{type: llm_judge, prompt: 'Sum {{{{ results }}}}'}}")
    assert loaded.warnings == [
        "qa.yaml:2: evaluators[0].aggregator: the template uses the unknown variable {{ results }} "
        "(known: EVALUATOR_RESULTS_JSON)",
    ]
    assert loaded.errors == [
        "qa.yaml:2: evaluators[0].aggregator: the template does not use {{EVALUATOR_RESULTS_JSON}}: "
        "the judge does not see the results ({{ results }} is not known)",
    ]


def test_faults_of_members_are_told_once_beside_unknown_keys_at_every_level() -> None:
    evaluator = "{name: x, type: code, script: [x], cwd: gone, target: {max_cals: 1}}"
    for _ in range(30):
        evaluator = (
            f"{{name: c, type: composite, zzz: 1, aggregator: {{type: weighted_average}}, evaluators: [{evaluator}]}}"
        )
    errors = Loaded(f"  - {evaluator}").errors
    assert len([error for error in errors if "zzz: unknown key" in error]) == 30
    assert len([error for error in errors if "folder 'gone' was not found" in error]) == 1
    assert len([error for error in errors if "max_cals: unknown key" in error]) == 1
    assert len(errors) == 32
