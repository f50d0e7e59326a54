"""Every kind in one table: passing, failing, negated, with a path, with a wrong value, short and long."""

import json
from dataclasses import dataclass, replace
from typing import Any

import pytest

from pytest_agentv.evaluators.table import EVALUATORS
from pytest_agentv.model.messages import Message, ToolCall

SCHEMA = {"type": "object", "required": ["price"]}


@dataclass(frozen=True)
class Row:
    """A kind, what passes and fails it, and a value that is wrong with its message."""

    value: Any
    passing: str
    failing: str
    wrong: Any
    message: str
    more: tuple[tuple[str, Any], ...] = ()
    """Further keys."""

    @property
    def keys(self) -> dict[str, Any]:
        return dict(self.more)


TEXT = "expected a non-empty text, got the number 5"
LIST = "expected a list, got the text 'x'"
ROWS = {
    "bleu": Row("a b c d e", "a b c d e", "q", 5, TEXT, (("threshold", 0.9),)),
    "contains": Row("tent", "a tent", "a car", 5, TEXT),
    "contains-all": Row(["a", "b"], "a b", "c", "x", LIST),
    "contains-any": Row(["a", "b"], "b", "c", "x", LIST),
    "contains-json": Row(SCHEMA, 'so: {"price": 1}', "so: {}", {"type": 5}, "is no JSON Schema: type: 5 is not valid"),
    "ends-with": Row("end", "the end\n", "the start", 5, TEXT),
    "equals": Row("yes", " yes\n", "no", None, "expected a value, got null"),
    "field": Row("x", '{"x": 1}', '{"y": 1}', "a..b", "expected a path such as items[0].price, got the text 'a..b'"),
    "icontains": Row("Tent", "a TENT", "a car", 5, TEXT),
    "icontains-all": Row(["A", "b"], "a B", "c", [], "expected at least one entry, got an empty list"),
    "icontains-any": Row(["A", "b"], "a", "c", "x", LIST),
    "is-json": Row(SCHEMA, '{"price": 1}', "{}", 5, "expected a JSON Schema (a mapping) or the path of its file"),
    "is-xml": Row(True, "<a/>", "<a>", 5, "expected a mapping of its keys, got the number 5"),
    "is-yaml": Row(True, "a: 1", "a: [", "x", "expected a mapping of its keys, got the text 'x'"),
    "length": Row({"max_words": 2}, "a b", "a b c", {"max_words": -1}, "expected a number of 0 or more"),
    "levenshtein": Row("abcd", "abcx", "wxyz", 5, TEXT, (("threshold", 0.7),)),
    "python": Row("'tent' in answer", "a tent", "a car", "len(", "is no Python expression: '(' was never closed"),
    "regex": Row("t.nt", "a tent", "a car", "(a", "is no regular expression: missing ), unterminated subpattern"),
    "rouge": Row("a b c", "a b c", "d", 5, TEXT, (("threshold", 0.9),)),
    "starts-with": Row("so", " so it is", "it is so", 5, TEXT),
    "statements": Row(["tent"], "a tent", "a car", ["x", " "], "expected a non-empty text, got the text ' '"),
    "tool-called": Row("search", "called", "other", 5, TEXT),
    "word": Row("30", "for 30 euros", "for 130 euros", 5, TEXT),
    "words": Row(["30", "days"], "30 days", "130 holidays", "x", LIST),
}
CALLS = {"called": (ToolCall("search"),), "other": (ToolCall("read"),)}


def judged(bench, item, answer):
    messages = (Message("assistant", "x", CALLS.get(answer, ())),)
    return bench.judged(item, answer, output_messages=messages)


def long_form(kind, row):
    if isinstance(row.value, dict) and not EVALUATORS[kind].takes_data:
        return {"type": kind, **row.value, **row.keys}
    key = EVALUATORS[kind].short_key
    return {"type": kind, **({key: row.value} if key else {}), **row.keys}


each_kind = pytest.mark.parametrize("kind", ROWS)


def test_the_table_has_every_check():
    assert set(ROWS) == {word for word, kind in EVALUATORS.items() if kind.examples} - {"similar"}


@each_kind
def test_short_and_long_form_say_the_same(bench, kind):
    row = ROWS[kind]
    short, long = bench.one({kind: row.value, **row.keys}), bench.one(long_form(kind, row))
    assert short == long
    snake = bench.one({kind.replace("-", "_"): row.value, **row.keys})
    assert snake == short


@each_kind
def test_it_passes_and_fails(bench, kind):
    row = ROWS[kind]
    for item in ({kind: row.value, **row.keys}, long_form(kind, row)):
        passing, failing = judged(bench, item, row.passing), judged(bench, item, row.failing)
        assert (passing.score, passing.verdict, passing.error, failing.error) == (1.0, "pass", None, None)
        assert (failing.score, failing.verdict) == (0.0, "fail")
        assert passing.hits
        assert failing.misses


@each_kind
def test_negation_turns_the_verdict_round(bench, kind):
    row = ROWS[kind]
    plain = judged(bench, {kind: row.value, **row.keys}, row.passing)
    spellings = (
        {f"not-{kind}": row.value, **row.keys},
        {f"not_{kind.replace('-', '_')}": row.value, **row.keys},
        {kind: row.value, **row.keys, "negate": True},
        {**long_form(kind, row), "type": f"not-{kind}"},
    )
    for item in spellings:
        passing, failing = judged(bench, item, row.passing), judged(bench, item, row.failing)
        assert (passing.score, failing.score) == (0.0, 1.0)
        assert (passing.hits, passing.misses) == (plain.misses, plain.hits)
        assert passing.name.startswith(f"not-{kind}")
        assert "negated" in (passing.reasoning or "")


@each_kind
def test_a_path_chooses_what_is_judged(bench, kind):
    row, item = ROWS[kind], {kind: ROWS[kind].value, **ROWS[kind].keys, "path": "items[0].x"}
    if kind == "field":
        assert bench.judged({"field": "items[0].x"}, '{"items": [{"x": null}]}').score == 1.0
        return
    if kind == "tool-called":
        _, faults = bench.load(item)
        assert faults == [
            "/qa.yaml:2: evaluators[0].path: nobody reads this key (tool-called does not judge the answer)"
        ]
        return
    if kind == "is-json":  # a part is data already
        row = replace(row, passing=json.loads(row.passing), failing=json.loads(row.failing))
    answer = "It is:\n```json\n" + json.dumps({"items": [{"x": row.passing}]}) + "\n```"
    result = judged(bench, item, answer)
    assert (result.score, result.error) == (1.0, None)
    assert judged(bench, item, json.dumps({"items": [{"x": row.failing}]})).score == 0.0
    for name in (kind, f"not-{kind}"):
        missing = judged(bench, {name: row.value, **row.keys, "path": "items[0].x"}, '{"items": [{"y": 1}]}')
        assert (missing.score, missing.misses) == (0.0, ("items[0].x is missing: items[0] has y",))


def test_wrong_values_are_told_with_their_lines_also_by_validate(bench, agentv, monkeypatch):
    """One file with all of them, so that validate runs once."""
    monkeypatch.chdir(bench.folder)
    lines = ["evalcases:", "  - id: a", "    expected_outcome: o", "    input: q", "    assert:"]
    lines += [f"      - {json.dumps({kind: row.wrong, **row.keys})}" for kind, row in ROWS.items()]
    (bench.folder / "a.eval.yaml").write_text("\n".join(lines) + "\n")
    run = agentv("validate", "a.eval.yaml")
    assert run.exit_code == 1
    for number, (kind, row) in enumerate(ROWS.items()):
        where = f"a.eval.yaml:{6 + number}: "
        told = [line for line in run.out.splitlines() if line.startswith(where)]
        assert len(told) == 1, f"{kind}: {told}"
        assert f".assert[{number}].{kind}" in told[0]
        assert row.message in told[0]


@each_kind
def test_the_examples_of_a_kind_pass(bench, kind, called):
    (bench.folder / "checks.py").write_text("def is_polite(answer):\n    return True\n")
    calls = called(ToolCall("search", input={"query": "tent"}))
    for example in EVALUATORS[kind].examples:
        for item in example["assert"]:
            if kind != "statements":
                assert bench.judged(item, example["answer"], **calls).score == 1.0
