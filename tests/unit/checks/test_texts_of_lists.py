"""Texts in a list of evaluators: which are sentences for a model, and which are checks in a text, and so errors."""

import ast
from typing import Any, ClassVar

import pytest

from pytest_agentv.cases.evaluators import load_evaluators
from pytest_agentv.cases.references import References, Scope
from pytest_agentv.evaluators.table import EVALUATORS
from pytest_agentv.files.places import Place
from pytest_agentv.files.source import read_yaml

CHECKS = (
    *("contains_any: xyz", "starts_with: a greeting and a name", "contains-any:"),
    *("contains-any: the tent, the pole", "Contains: xyz", "IsJson: true", "Starts-with: xyz", "contains:\n- a"),
    *("!contains: abc", "!anything: of several words", "!not-contains: abc", "not_similar(0.8): abc"),
    *("NotContains: abc", "words: tent, pole, bag", "words: [open, tent]", "rouge(0.9): xyz", "RegEx: ^yes"),
    *("latency: 1", "Cost: 0.1", "toxicity: 0.5", "trajectory:tool-used: search", "llm-rubric: is polite"),
    *("python: checks.py:never", "python: answer in data", "python(0.5): is named as the language"),
    *("javascript: return output.includes('the whole text') || output.includes(name)",),
    *("eval: output == expected", "starts-wth: xyz", "string_similarity: abc", "Length: 50-100"),
    *("contains: 退款政策说明", "Contains:\n- a\n- b", "javascript: // the whole text\noutput.includes(name)"),
    *("no-contains: xyz", "- contains: xyz", '["Is polite", "contains: xyz"]', '[{"contains": "30 days"}]'),
    *("[{contains: a}, {regex: b}]", '{"contians": "xyz"}', '```json\n{"contains": "xyz"}\n```'),
    *("type: contains\nvalue: 30 days",),
)

EXPRESSIONS = (
    *("len(answer) > 100", "`len(answer) > 100`", "```python\nlen(answer) > 100\n```", "'xyz' in answer"),
    *("vars['x'] in answer", "answer is not None", "answer.startswith('xyz')"),
    *("any(each in answer for each in ['a', 'b'])", "len(tool_calls) <= 3"),
    *("output.includes('xyz') && output.length < 500", "(!!output.match('xyz')) && true"),
    *("Check: len(answer) > 100",),
)

SENTENCES = (
    *("Cost: is named in EUR", "cost: names the price", "Words: no jargon", "Length: under 100 words"),
    *("Code: compiles without changes", "Contains: a greeting and a sign-off"),
    *("python: is named as the language of the snippet", "Python: calls print() once"),
    *("Python: snippets in fences", "JavaScript: is not used in the answer", "Toxicity: none"),
    *("Answer: names the price", "Human: friendly", "tool-use: it searched before it answered"),
    *("Note: the tent is open", "GitHub: linked", "Names the price: 30 EUR", "Lists the items: tent, pole, bag"),
    *("price_named: the answer has the price", "Length: ≤100 words", "cost: under $20"),
    *("Contains:\n- the price in EUR\n- the delivery date",),
    *("contains:\n- the price in EUR\n- the delivery date", "JavaScript: uses console.log() for output"),
    *("Ruby: uses => for hashes", "Length: 100文字以内であること", "Cost: 유로로 표시", "answer is 'yes'"),
    *("answer in English", "output(s)", "correct (answer)", "Answer: the price is [30] EUR"),
    *("Explains that answer == 'x' is a comparison", "x == y is explained", "type: a poem of four lines"),
    *("no-nonsense: yes", '{"type": "object"} is explained', "{name}", "[1], [2] and [3]"),
    *('["Is polite", "Names the price: 30 EUR"]', "- Is polite\n- Names the price: 30 EUR"),
    *('"contains" is spelt correctly', "答案包含'30天'", "类型: 诗歌"),
)

NAMES = (
    *("rouge-l", "regex_match", "semantic-similarity", "ValidJSON", "NumericDiff", "is_polite", "IsJson"),
    *("!contains", "IsPolite", "contians", "start-with", "contains-al", "checks.py:never"),
)

WORDS = (
    *("Polite", "polite", "Correctness", "Completeness", "Conciseness", "Consistency", "Relevance", "Pythonic"),
    *("Lengthy", "Wordy", "Costly", "Latent", "Coherent", "Rhetorical", "JSON", "URLs", "ISO-8601", "UTF-8"),
    *("Non-committal", "Well-structured", "Self-contained", "JSON-only", "Error-free", "cost-effective"),
    *("low-latency", "low-cost", "end-to-end", "word-for-word", "Multi-step", "JavaScript-free", "e-mail"),
    *("up-to-date", "Polite.", "«Höflich»", "礼貌", "Höflichkeit", "non-trivial", "Context-aware", "state-of-the-art"),
    *("OpenAI", "GitHub", "iPhone", "NoSQL", "regex-free"),
    *("Yes/No", "contains no insult", "Is polite", "Is not similar to the question"),
)


@pytest.mark.parametrize("text", CHECKS)
def test_a_check_in_a_text_is_an_error(bench, text):
    _, faults = bench.load(text)
    assert len(faults) == 1
    assert "is a check in a text, and no sentence that a model could check (" in faults[0]


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_an_expression_about_the_answer_in_a_text_is_an_error(bench, text):
    _, (fault,) = bench.load(text)
    assert fault.endswith(" is an expression, and no sentence that a model could check (write a mapping: {python: …})")


@pytest.mark.parametrize("text", ["contains: xyz", '{"contains": "xyz"}', "len(answer) > 100"])
def test_the_texts_of_statements_are_sentences_too(bench, text):
    _, faults = bench.load({"statements": ["Is polite", text]}, {"type": "statements", "value": [text, "Is polite"]})
    assert [fault.split(": ")[0:2] for fault in faults] == [
        ["/qa.yaml:2", "evaluators[0].statements[1]"],
        ["/qa.yaml:3", "evaluators[1].value[0]"],
    ]
    assert all("no sentence that a model could check" in fault for fault in faults)


@pytest.mark.parametrize("text", ['{"contains": "xyz"}', "len(answer) > 100"])
@pytest.mark.parametrize("kind", ["llm_judge", "rubric"])
def test_a_rubric_that_is_data_or_an_expression_is_an_error(bench, kind, text):
    _, faults = bench.load({"type": kind, "rubrics": ["contains: xyz", text, {"id": "a", "description": text}]})
    assert [fault.split(": ")[1] for fault in faults] == [
        "evaluators[0].rubrics[1]",
        "evaluators[0].rubrics[2].description",
    ]
    assert all("no sentence that a model could check" in fault for fault in faults)


@pytest.mark.parametrize(
    "text",
    [
        '{"type": "contains", "value": "30 days"}',
        '{"type": "contians", "value": "30 days"}',
        '{"contains": "30 days", "weight": 2}',
        '{"length": {"max_words": 3}}',
        '[{"contains": "30 days"}, {"regex": "b"}]',
        "type: contains\nvalue: 30 days",
    ],
)
def test_a_rubric_that_is_surely_a_check_is_an_error(bench, text):
    _, (fault,) = bench.load({"type": "rubric", "rubrics": [{"id": "a", "description": text}]})
    assert "is a check in a text, and no sentence that a model could check (" in fault


@pytest.mark.parametrize(
    "text",
    [
        '{"code": 404, "message": "not found"}',
        '{"type": "refund", "order": 1001}',
        '{"answer": 42}',
        '{"word_count": 120}',
        '{"price": {"contains": "EUR"}}',
        '[1, {"contains": "30 days"}]',
        "{}",
        "length: under 100 words\npath: names the path of the file",
    ],
)
def test_a_rubric_may_be_data_that_an_answer_should_hold(bench, text):
    judge = bench.one({"type": "rubric", "rubrics": [{"id": "a", "description": text}]})
    assert judge.rubrics[0].description == text


def test_plain_sentences_for_a_judge_are_not_parsed_as_code(bench, monkeypatch):
    parse, parsed = ast.parse, []

    def counted(text, *args, **kwargs):
        parsed.extend([text] if str(text).startswith("def _()") else [])  # pytest parses modules
        return parse(text, *args, **kwargs)

    monkeypatch.setattr("ast.parse", counted)
    texts = ["Is polite", "Names the price: 30 EUR", "The answer names the data (in EUR)", "Says why the case is > 3"]
    for item in ({"rubric": texts}, {"statements": texts}, *texts):
        bench.one(item)
    assert parsed == []
    bench.one({"rubric": ["(answer)"]})
    assert len(parsed) == 1


@pytest.mark.parametrize("text", NAMES)
def test_the_name_of_a_check_alone_is_an_error(bench, text):
    _, faults = bench.load(text)
    assert len(faults) == 1
    assert "no sentence that a model could check (" in faults[0]


@pytest.mark.parametrize("text", [*SENTENCES, *WORDS])
def test_what_people_write_for_a_judge_is_a_sentence(bench, text):
    assert bench.one(text).value == (text,)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("contains_any: xyz", "(write a mapping: {contains-any: …})"),
        ("!contians: xyz", "(write a mapping: {not-contains: …})"),
        ("contians: xyz", "(write a mapping: {contains: …})"),
        ("javascript: output.length < 5", "(`python` takes an expression, or file.py:function)"),
        ("checks.py:never", "(write a mapping: {python: checks.py:never})"),
        ("rouge-l", "(`rouge` has the key `variant`: rougeL, rouge1, rouge2)"),
        ("contians", "(did you mean 'contains'?)"),
        ("is_polite", "(a sentence has several words: `- Is polite`)"),
    ],
)
def test_the_error_for_a_check_in_a_text_says_what_to_write(bench, text, hint):
    _, (fault,) = bench.load(text)
    assert fault.endswith(hint)


@pytest.mark.parametrize(
    ("text", "is_sentence"),
    [
        ("no_emoji", False),
        ("no-emojis", False),
        ("brevity: high", False),
        ("Brevity: it gets to the point", True),
        ("User-friendly", True),
        ("User-friendly: yes", True),
    ],
)
def test_the_kinds_of_a_project_are_kinds(tmp_path, text, is_sentence):
    path = tmp_path / "qa.yaml"
    path.write_text(f"evaluators: ['{text}']\n", "utf-8")
    place = Place(read_yaml(path), ("evaluators",), [])
    table = EVALUATORS.with_own({"no-emoji": _Own, "brevity": _Own, "is_friendly": _Own})
    load_evaluators(Scope([text], place, References(tmp_path, tmp_path, tmp_path), table))
    assert [problem.level for problem in place.problems] == ([] if is_sentence else ["error"])


class _Own:
    """The class of a kind, as far as the table looks at it."""

    kind: ClassVar[str] = "own"
    model_fields: ClassVar[dict[str, Any]] = {}
