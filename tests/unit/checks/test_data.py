"""Checks of data: JSON, XML, YAML, and parts of them."""

import asyncio
import json
import time

import pytest
from thorough import varied

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.evaluators.context import Context
from pytest_agentv.evaluators.run import run_evaluator

from .conftest import CASE

DEEP = "[" * 50_000
SVG = (
    '<?xml version="1.0"?><!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd">'
    '<svg xmlns="http://www.w3.org/2000/svg"/>'
)
LISTED = "Sure, see [1]:\n```json\n%s\n```"
BROKEN = "the JSON in the answer is cut or broken: "
CUT = '{"item": {"price": 120}, "ids": [1, 2], "note": "say "yes""}'


@pytest.mark.parametrize(
    ("check", "answer", "misses"),
    [
        ({"is-json": True}, "So: {}", ("is no JSON: Expecting value: line 1 column 1 (char 0)",)),
        ({"is-json": True}, "NaN", ("is no JSON: NaN is no JSON",)),
        ({"not-is-json": True}, "7" * 5001, ("is JSON",)),
        ({"is-yaml": True}, "- []\n" * 200, ()),
        ({"not-is-xml": True}, "<a>" * 30_000, ()),
        ({"is-xml": True}, SVG, ()),
        ({"is-xml": True}, "<!DOCTYPE a><a>&b;</a>", ("is no XML: undefined entity: line 1, column 15",)),
        ({"is-json": {"items": {"required": ["p"]}}}, "[{}]", ('[0]: "p" is a required property',)),
        ({"is-json": False}, "{}", ("False schema does not allow {}",)),
        ({"contains-json": {"required": ["b"]}}, '{"a": 1} and {"b": 1}', ()),
        ({"contains-json": True}, "See [above] for it: [1, 2]", ()),
        ({"contains-json": True}, "first [1] then [2]", ("contains no JSON",)),
        ({"contains-json": True}, "see [above] and {below}", ("contains no JSON",)),
        ({"contains-json": True}, DEEP, ("contains no JSON",)),
        ({"contains-json": True}, '{"a": {"b": 1}', (f"{BROKEN}Expecting ',' delimiter: line 1 column 15 (char 14)",)),
        ({"contains-json": {"required": ["b"]}}, 'No: {"a": {"b": 1}\n```json\n{"b": 1}\n```', ()),
        ({"equals": 1, "path": "b"}, '[{"b": 1}, {"b": "say \\"', ("b is missing: the answer holds no JSON",)),
        ({"equals": 1, "path": "b"}, '{"b": 1}, as of [1, 2', ()),
        (
            {"is-json": {"patternProperties": {"^a": {"type": "number"}}, "additionalProperties": False}},
            '{"ab": "x", "b": 1}',
            ("Additional properties are not allowed ('b' was unexpected)", 'ab: "x" is not of type "number"'),
        ),
        ({"is-json": {"format": "date-time"}}, '"2024-02-28"', ('"2024-02-28" is not a "date-time"',)),
        ({"is-yaml": True}, "a: *b", ("is no YAML: the alias *b has no anchor",)),
        ({"is-yaml": True}, "a: &b [1]\nc: *b", ()),
        ({"is-yaml": True}, '{"url": "\\ud83d\\ude00"}', ()),
        ({"is-yaml": True}, '{"a":' * 150 + "1" + "}" * 150, ()),
        ({"contains": "x", "path": "a.b"}, "text", ("a.b is missing: the answer holds no JSON",)),
        ({"contains": "x", "path": "a.b"}, '{"a": "text"}', ("a.b is missing: a is no mapping and no list",)),
        ({"equals": 2, "path": "a.length"}, '{"a": [1, 1]}', ()),
        ({"field": {"path": "a", "equals": 1}}, 'Fill {name} in: {"a": 1}', ()),
        ({"not-equals": {"a": 1}}, 'Is it {"a": 1} or {"a": 1.0}?', ('is {"a":1}',)),
        ({"not-equals": [1, 2]}, "The list: [1, 2]", ("is [1,2]",)),
        ({"not-equals": {"a": 1}}, '```json\n[{"a": 1}, {"a": 1}]\n```', ()),
        ({"python": "data is None"}, "as [1] says", ()),
        ({"not-field": "a.b"}, '{"a": {"b": null}}\n{"c": 1}', ("a.b is there",)),
        ({"not-field": "a.b"}, '{"a": 1}\n{"c": 1}', ()),
        ({"not-field": {"path": "a", "field": "b"}}, '{"a": "text"}', ()),
        ({"equals": {"a": 1}}, LISTED % '[{"a": 1}]', ('is [{"a":1}], not {"a":1}',)),
        ({"not-field": "item"}, CUT, ("the answer holds no JSON, so item could not be checked",)),
        ({"not-field": "a"}, "I cannot.", ("the answer holds no JSON, so a could not be checked",)),
        ({"not-field": {"path": "a", "equals": 1}}, "I cannot.", ("a is missing: the answer holds no JSON",)),
    ],
)
def test_what_a_check_finds(bench, check, answer, misses):
    result = bench.judged(check, answer)
    assert (result.misses, result.error) == (misses, None)
    assert result.score == (0.0 if misses else 1.0)


@pytest.mark.parametrize("prefix", ["", "not-"])
@pytest.mark.parametrize(
    ("check", "answer", "error"),
    [
        ("is-json", "[" * 200_000 + "]" * 200_000, "the answer is nested too deeply to be read as JSON"),
        ("is-yaml", "a: " + "[" * 100 + "]" * 100, "the answer is nested more than 100 levels deep, which is not read"),
        (
            "is-xml",
            '<!DOCTYPE a [<!ENTITY e "x">]><a>&e;</a>',
            "the answer has a DOCTYPE with declarations, which are not read",
        ),
    ],
)
def test_an_answer_that_is_not_read_to_its_end_is_not_judged(bench, prefix, check, answer, error):
    assert bench.judged({f"{prefix}{check}": True}, answer).error == error


@pytest.mark.parametrize(
    ("pattern", "text", "is_found"),
    [*((r"^\d{4}$", "2024", True), (r"^\d{4}$", "2024\n", False), (r"^\d{4}$", "٢٠٢٤", False))],
)
def test_a_pattern_of_a_schema_is_in_the_language_of_javascript(bench, pattern, text, is_found):
    names = {"patternProperties": {pattern: {}}}
    checks = [
        ({"pattern": pattern}, text),
        ({"propertyNames": {"pattern": pattern}}, {text: 1}),
        ({**names, "additionalProperties": False}, {text: 1}),
        ({**names, "unevaluatedProperties": False}, {text: 1}),
    ]
    scores = [bench.judged({"is-json": schema}, json.dumps(data)).score for schema, data in checks]
    assert scores == [float(is_found)] * len(checks)


@pytest.mark.parametrize(
    ("check", "answer"),
    [
        ({"contains": "x", "path": "a"}, "[" * 60_000),
        varied({"field": "a"}, "[{" * 200_000),
        varied({"equals": {"a": 1}}, '{"a":' * 100_000),
    ],
)
def test_a_long_answer_that_is_almost_json_does_not_hold_up_the_loop(bench, check, answer):
    evaluator, pauses = bench.one(check), []

    async def judge_and_look():
        judging = asyncio.ensure_future(run_evaluator(evaluator, Context(CASE, Prompt("q"), answer)))
        while not judging.done():
            started = time.process_time()
            await asyncio.sleep(0.01)
            pauses.append(time.process_time() - started)
        return judging.result()

    assert asyncio.run(judge_and_look()).score == 0.0
    # In the loop, the longest pause would be nearly all of the time.
    assert max(pauses) < 0.3 * sum(pauses), pauses


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        ({"$ref": "http://127.0.0.1:9/x.json"}, "Retrieval is disabled, cannot fetch http://127.0.0.1:9/x.json"),
        ({"$ref": "file:///etc/passwd"}, "Retrieval is disabled, cannot fetch file:///etc/passwd"),
        ({"$ref": "#/definitions/x"}, "is no JSON Schema: Pointer '/definitions/x' does not exist"),
        ({"type": "strin"}, 'is no JSON Schema: type: "strin" is not valid under any of the schemas listed'),
        ({"properties": {"a": {"pattern": "("}}}, 'is no JSON Schema: properties.a.pattern: "(" is not a "regex"'),
    ],
)
def test_a_schema_that_cannot_be_used_is_an_error_of_the_case(bench, schema, fault):
    _, faults = bench.load({"is-json": schema})
    assert len(faults) == 1
    assert fault in faults[0]


@pytest.mark.parametrize(
    "schema",
    [{"properties": {"a": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}, "additionalProperties": {"$ref": "#"}}],
)
def test_a_schema_may_refer_to_itself_for_parts_of_a_value(bench, schema):
    assert bench.judged({"is-json": schema}, '{"a": {"a": null}}').score == 1.0


@pytest.mark.parametrize(
    ("check", "passes"),
    [
        ({"contains-json": True}, True),
        ({"not-contains-json": True}, False),
        ({"equals": 1, "path": "b"}, True),
        ({"not-field": "b"}, False),
    ],
)
@pytest.mark.parametrize("text", ["{}", "The numbers: {}"])
def test_a_number_of_more_digits_than_python_converts_leaves_json_as_it_is(bench, check, passes, text):
    answer = text.replace("{}", f'{{"a": {"9" * 5000}, "b": 1}}')
    result = bench.judged(check, answer)
    assert (result.score, result.error) == (float(passes), None)


IN_A_TEXT = [
    '```json\n{"code": "}", "draft": {"price": 120}, "note": "to be cont',
    '{"patch": "+ return x;\\n+}", "draft": {"price": 120}, "note": "he said "hi" to me", "price": 99}',
    'Here: {"code": "}", "draft": {"price": 120}, "price": 99,}',
    '{"a": [1, 2}, "draft": {"price": 120}, "n": 1',
    '```json\n[{"price": 120}, {"name": "x"\n```',
    '[{"price": 120}, {"name": "he said "hi""}]',
    '"code": "{", "draft": {"price": 120}, "price": 99}',
]


@pytest.mark.parametrize(
    "check",
    [
        {"contains-json": {"required": ["price"]}},
        {"field": {"path": "price", "equals": 120}},
        {"not-field": "draft"},
        {"not-contains-json": {"required": ["price"]}},
    ],
)
@pytest.mark.parametrize("answer", IN_A_TEXT)
def test_a_part_of_a_damaged_answer_passes_no_check(bench, check, answer):
    result = bench.judged(check, answer)
    assert result.score == 0.0 or result.error is not None
