"""Verdicts beside those of other tools whose checks have the same names."""

import json

import pytest
from docs_pages import ROOT, read_page

from pytest_agentv.model.cases import EvalCase

CASE = EvalCase("c", "d", "/e/x.eval.yaml", 1, "outcome", "q", (), ())
NEEDS_PRICE = {"contains-json": {"required": ["price"]}}
NEEDS_B = {"is-json": {"dependencies": {"a": ["b"]}}}
DRAFT_7 = "http://json-schema.org/draft-07/schema#"


@pytest.mark.parametrize(
    ("check", "answer", "passes"),
    [
        # The answer is a text, so the encoding that its XML declares does not count.
        ({"is-xml": True}, '<?xml version="1.0" encoding="UTF-16"?><a>é</a>', True),
        ({"is-xml": True}, "<p:a/>", False),
        ({"is-xml": True}, "<a:/>", False),
        (NEEDS_PRICE, "We do not know [1].", False),
        (NEEDS_PRICE, "[]", False),
        (NEEDS_PRICE, 'As [1] says: {"price": 120}', True),
        ({"contains-json": {"properties": {}, "type": ["array", "object"]}}, "[1]", True),
        (NEEDS_B, '{"a": 1}', False),
        ({"is-json": {"properties": {"x": {"dependencies": {"a": {"required": ["b"]}}}}}}, '{"x": {"a": 1}}', False),
        # As floats, 19.99 / 0.01 is 1998.9999999999998.
        ({"is-json": {"multipleOf": 0.01}}, "19.99", True),
        ({"is-json": {"multipleOf": 0.01}}, "19.995", False),
        ({"is-json": {"multipleOf": 3}}, "9007199254740993", True),
        ({"is-json": {"$schema": DRAFT_7, "dependencies": {"a": ["b"]}}}, '{"a": 1}', False),
    ],
)
def test_a_check_finds_what_the_same_check_of_another_tool_finds(bench, check, answer, passes):
    result = bench.judged(check, answer)
    assert (result.score, result.error) == (float(passes), None)


@pytest.mark.parametrize(
    ("format_name", "text", "passes"),
    [
        ("email", "ann.o'neill+shop@mail-1.example.com", True),
        ("email", '"ann b"@example.com', True),
        ("email", "Write to us @ the shop", False),
        ("email", "ann@example.com\n", False),
        ("email", "ann@-example.com", False),
        ("idn-email", "änn@example.com", True),
        ("idn-email", "nobody", False),
        ("idn-email", "änn@ex\u00a0ample.com", False),
        ("date-time", "2020-02-29t10:00:00z", True),
        ("date-time", "2020-02-29T10:00:00+0100", False),
    ],
)
def test_a_format_of_a_schema_takes_what_its_standard_says(bench, format_name, text, passes):
    result = bench.judged({"is-json": {"format": format_name}}, json.dumps(text))
    assert (result.score, result.error) == (float(passes), None)


@pytest.mark.parametrize(
    ("answer", "target", "verdicts"),
    [
        ("ANSWER: 3.14", 3, "III"),
        ("ANSWER: 3", 3, "ICC"),
        ("ANSWER: C", "C++", "III"),
        ("The ANSWER: A or maybe ANSWER: B", "A", "III"),
        ("ANSWER: yes (or no)", "yes", "III"),
        ("ANSWER: A\nANSWER: B", "A", "III"),
        ("B", "B", "III"),
        ("ANSWER:\nB", "B", "CCC"),
        ("ANSWER: the tent", "The tent", "IIC"),
    ],
)
def test_the_functions_of_the_docs_judge_an_answer_after_a_mark_as_inspect_ai_does(bench, answer, target, verdicts):
    page = read_page(ROOT / "docs/coming-from.md")
    (block,) = [block for block in page.blocks if block.name == "evals/marks.py"]
    (bench.folder / "marks.py").write_text(block.text, "utf-8")
    case = CASE.replace(vars={"target": target})
    kinds = ("is_letter", "is_word", "is_line")
    found = [bench.judged({"python": f"marks.py:{kind}"}, answer, case=case).score for kind in kinds]
    assert "".join("C" if score else "I" for score in found) == verdicts


@pytest.mark.parametrize("schema", [{}, {"title": "an order"}])
def test_a_schema_of_keywords_that_check_little_stays_one(bench, schema):
    checks, faults = bench.load({"is-json": schema})
    assert (len(checks), faults) == (1, [])


def test_a_key_of_the_check_within_its_schema_is_an_error(bench):
    fault = "is no keyword of a schema: keys of the check stand beside it"
    _, faults = bench.load(
        {"is-json": {"negate": True}},
        {"type": "is-json", "value": {"weight": 2, "type": "object"}},
        {"is-json": {"type": "object", "name": "order", "properties": {"path": {}, "weight": {}}}},
    )
    assert faults == [
        f"/qa.yaml:2: evaluators[0].is-json: 'negate' {fault}",
        f"/qa.yaml:3: evaluators[1].value: 'weight' {fault}",
    ]
