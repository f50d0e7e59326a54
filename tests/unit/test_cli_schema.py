"""JSON Schemas: what loads without a complaint is valid, what is plainly wrong is not."""

import copy
import importlib
import json
from functools import cache
from pathlib import Path

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentv.cases.cases import load_case
from pytest_agentv.cases.references import LoadContext
from pytest_agentv.cases.suites import read_suite
from pytest_agentv.cli.init import KINDS, schema_path
from pytest_agentv.errors import AgentvError
from pytest_agentv.evaluators.table import EVALUATORS
from pytest_agentv.files.source import read_jsonl, read_yaml
from pytest_agentv.providers.table import KINDS as TARGET_KINDS
from pytest_agentv.targets.definitions import load_targets_file

EXAMPLES = Path(__file__).parents[2] / "examples"


@cache
def schema_of(kind: str) -> dict:
    return json.loads(schema_path(kind).read_text("utf-8"))


@cache
def validator_of(kind: str) -> jsonschema_rs.Draft7Validator:
    """Return what checks a kind of file, or a `case`."""
    if kind == "case":
        definitions = schema_of("eval")["definitions"]
        return jsonschema_rs.Draft7Validator({"$ref": "#/definitions/case", "definitions": definitions})
    return jsonschema_rs.Draft7Validator(schema_of(kind))


SUITE = {
    "description": "x", "execution": {"target": "t", "threshold": 0.5}, "repeat": 5, "min_pass_rate": 0.8,
    "evalcases": [
        {
            "id": "a", "repeat": 10, "required": True, "group": "g", "expected_outcome": "o",
            "input_messages": [{"role": "user", "content": ["x", {"type": "text", "value": "y"}]}],
            "expected_messages": [{"role": "assistant", "tool_calls": [{"tool": "t", "input": {"x": 1}}]}],
            "rubrics": ["short", {"id": "r", "description": "d", "weight": 2, "required": False}],
            "evaluators": [
                {"name": "n", "type": "latency", "threshold": 1, "weight": 0.5},
                {"name": "n", "type": "cost", "budget": 0.1},
                {"name": "n", "type": "token_usage", "maxTotal": 5},
                {"name": "n", "type": "heuristic", "hits": "one", "misses": ["two"]},
                {"name": "n", "type": "code_judge", "script": ["x"], "target": {"maxCalls": 3}, "mine": 1},
                {"name": "n", "type": "code", "script": "x", "target": True},
                {"name": "n", "type": "llm_judge", "rubrics": ["a"], "includeTrace": True},
                {"name": "n", "type": "rubric", "rubrics": [{"description": "d"}]},
                {"name": "n", "type": "tool_trajectory", "mode": "exact", "expected": [{"tool": "t", "args": "any"}]},
                {"name": "n", "type": "tool_trajectory", "mode": "any_order", "minimums": {"t": 1}},
                {"name": "n", "type": "field_accuracy", "fields": [{"path": "a", "match": "date", "formats": ["D.M"]}]},
                {
                    "name": "n", "type": "composite", "assert": [{"name": "m", "type": "latency", "threshold": 1}],
                    "aggregator": {"type": "weighted_average", "weights": {"m": 1}},
                },
                {"contains": "x", "weight": 2, "path": "a.b", "required": True},
                {"not-is_json": {"type": "object"}},
                {"length": {"min_words": 3, "max_chars": 80}},
                {"contains-all": ["a", "b"], "negate": False},
                {"field": {"path": "a[0]", "equals": 3}},
                {"field": "a[0]", "contains": "x"},
                {"tool-called": {"name": "search", "args": {"q": {"regex": "x"}}}, "times": 2},
                {"regex": "a+", "flags": "i"},
                {"is-xml": True},
                {"heuristic": ["a"]},
                "Is polite",
            ],
        },
        {"id": "b", "criteria": "o", "input": "q", "expected_output": {"x": [1]}, "execution": {"assert": []}},
        {"id": "m", "criteria": "o", "input": {"role": "user", "content": "q"}},
    ],
}  # fmt: skip
TARGETS = {
    "$schema": "agentv-targets-v2.2",
    "targets": [
        {"name": "a", "provider": "azure", "endpoint": "${{ E }}", "apiKey": "k", "temperature": 0.1, "workers": 2},
        {"name": "n", "provider": "anthropic", "model": "m", "retry_status_codes": [500, 503], "max_retries": "3"},
        {"name": "c", "provider": "cli", "command_template": "{PROMPT}", "timeout_seconds": "${{T}}", "env": {"A": ""}},
        {"name": "h", "provider": "cli", "commandTemplate": "x", "healthcheck": {"type": "http", "url": "http://x"}},
        {"name": "x", "provider": "codex", "args": ["a"], "log_format": "json", "judge_target": "a"},
        {"name": "m", "provider": "mock", "response": "r", "delayMs": 5, "trace": [{"type": "message"}]},
        {"name": "p", "provider": "python", "callable": "a:b", "arguments": {"x": 1}},
        {"name": "v", "provider": "vscode", "wait": "true", "provider_batching": True},
    ],
}  # fmt: skip
ODD = st.sampled_from(
    [None, True, 0, -1, 5, 0.5, "", "x", "5", "${{ X }}", [], ["x"], [{}], {}, {"x": 1}, {"type": "text"}]
)


def places(value, where=()):
    """Yield the place of each value within a value."""
    yield where
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(inner, (*where, key))


def changed(value, where, new):
    """Return a copy with the value at a place replaced, or dropped for `...`."""
    copied = copy.deepcopy(value)
    *above, last = where
    inner = copied
    for key in above:
        inner = inner[key]
    if new is ...:
        del inner[last]
    else:
        inner[last] = new
    return copied


def changed_suite(where, new):
    """Return a changed `SUITE` without the evaluators that are not concerned: to validate all of them takes long."""
    place = ("evalcases", 0, "evaluators")
    is_within = where[:3] == place and len(where) > 3
    suite = copy.deepcopy(SUITE)
    suite["evalcases"][0]["evaluators"] = [suite["evalcases"][0]["evaluators"][where[3] if is_within else 0]]
    return changed(suite, (*place, 0, *where[4:]) if is_within else where, new)


def loads(path):
    """Tell whether an eval file loads without an error or a warning."""
    context = LoadContext(path.parent, path.parent, strict=True, evaluators=EVALUATORS)
    try:
        suite = read_suite(path)
        for entry in suite.entries:
            load_case(suite, entry, context)
    except AgentvError:
        return False
    return all("no eval cases" in problem.message or "used twice" in problem.message for problem in suite.problems)


def targets_load(path):
    try:
        return not load_targets_file(path, TARGET_KINDS).warnings
    except AgentvError:
        return False


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tmp_path_factory.mktemp("schema") / "file.yaml"


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_is_what_the_command_prints_and_is_that_of_the_classes(agentv, kind, monkeypatch):
    run = agentv("schema", kind)
    assert (run.exit_code, run.err, json.loads(run.out)) == (0, "", schema_of(kind))
    jsonschema_rs.meta.validate(schema_of(kind))
    assert agentv("schema", kind, "--path").out == f"{schema_path(kind)}\n"
    monkeypatch.syspath_prepend(EXAMPLES.with_name("scripts"))
    text = importlib.import_module("json_schemas").schema_text(kind)
    assert schema_path(kind).read_text("utf-8") == text, "run `python scripts/json_schemas.py`"


def test_each_file_of_the_examples_is_valid():
    for path in sorted(EXAMPLES.rglob("*.y*ml")):
        if "kubernetes" not in path.parts:
            validator_of("targets" if path.name == "targets.yaml" else "eval").validate(read_yaml(path).value)
    for path in EXAMPLES.rglob("*.eval.jsonl"):
        for case in read_jsonl(path).value:
            validator_of("case").validate(case)


@given(st.sampled_from([where for where in places(SUITE) if where]), st.just(...) | ODD)
def test_an_eval_file_that_loads_without_a_complaint_is_valid(file, where, new):
    suite = changed_suite(where, new)
    file.write_text(json.dumps(suite))
    if loads(file):
        validator_of("eval").validate(suite)


@given(st.sampled_from([where for where in places(TARGETS) if where]), st.just(...) | ODD)
def test_a_targets_file_that_loads_without_a_complaint_is_valid(file, where, new):
    targets = changed(TARGETS, where, new)
    file.write_text(json.dumps(targets))
    if targets_load(file):
        validator_of("targets").validate(targets)


@pytest.mark.parametrize(
    ("where", "new"),
    [
        (("descriptoin",), "x"),
        (("evalcases", 0, "id"), ...),
        (("repeat",), 0),
        (("evalcases", 0, "group"), 5),
        (("evalcases", 0, "input_messages", 0, "role"), "usr"),
        (("evalcases", 0, "evaluators", 0, "treshold"), 1),
        (("evalcases", 0, "evaluators", 8, "mode"), "some"),
        (("evalcases", 0, "evaluators", 12, "contains"), 5),
        (("evalcases", 0, "evaluators", 11, "aggregator", "type"), "mean"),
        (("tags",), 5),
        (("evalcases", 0, "skip"), " N/a "),
        (("include",), ""),
    ],
)  # fmt: skip
def test_a_fault_of_an_eval_file_is_invalid(where, new):
    assert not validator_of("eval").is_valid(changed_suite(where, new))


@pytest.mark.parametrize(
    ("where", "new"),
    [
        (("targets",), ...),
        (("targets", 0, "temprature"), 1),
        (("targets", 2, "command_template"), ...),
        (("targets", 3, "healthcheck", "type"), "ping"),
        (("targets", 6, "arguments"), [1]),
    ],
)
def test_a_fault_of_a_targets_file_is_invalid(where, new):
    assert not validator_of("targets").is_valid(changed(TARGETS, where, new))


@pytest.mark.parametrize(
    "evaluator",
    [
        {"name": "n", "type": "levenshtein"},
        {"name": "n", "type": "levenshtein", "value": "x", "threshold": 2},
        {"name": "n", "type": "levenshtein", "value": "x", "treshold": 1},
        {"name": "n", "type": "rubric", "rubrics": []},
        {"name": "n", "type": "llm_judge", "model": "m"},
        {"contains-any": []},
        {"type": "contains", "value": None},
        {"regex": "x", "flags": "g"},
        {"field": {"path": "a", "check": "Is polite"}},
    ],
)
def test_what_is_wrong_with_an_evaluator_is_wrong_by_the_schema_too(evaluator):
    case = {"id": "a", "expected_outcome": "o", "input": "q", "evaluators": [evaluator]}
    assert not validator_of("case").is_valid(case)


def resolved(schema, document):
    """Return what a reference of a schema stands for; a schema that is none as it is."""
    while "$ref" in schema:
        schema = document["definitions"][schema["$ref"].removeprefix("#/definitions/")]
    return schema


def properties(schema):
    """Yield each property of a schema with its name; conditions say nothing to editors."""
    if isinstance(schema, list):
        for item in schema:
            yield from properties(item)
    elif isinstance(schema, dict):
        yield from schema.get("properties", {}).items()
        for key, item in schema.items():
            if key not in ("if", "not", "examples", "enum", "const"):
                yield from properties(item)


@pytest.mark.parametrize("kind", KINDS)
def test_every_property_has_a_description_and_an_example(kind):
    schema = schema_of(kind)
    found = [(key, resolved(value, schema)) for key, value in properties(schema)]
    assert found
    assert [key for key, value in found if not value.get("description") or not value.get("examples")] == []


def test_the_schema_knows_each_kind_of_target_and_each_kind_describes_its_keys() -> None:
    target = schema_of("targets")["definitions"]["target"]
    shapes = {case["if"]["properties"]["provider"]["const"]: case["then"]["$ref"] for case in target["allOf"]}
    kinds = TARGET_KINDS.table
    assert set(target["properties"]["provider"]["anyOf"][0]["enum"]) == {*kinds, *TARGET_KINDS.unsupported}
    assert shapes == {word: f"#/definitions/{kinds[word].__name__}" for word in kinds}
    assert [
        (word, name) for word in kinds for name, field in kinds[word].model_fields.items() if not field.description
    ] == []
