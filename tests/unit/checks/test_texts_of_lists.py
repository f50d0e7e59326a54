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
    "contains_any: xyz",
    "is_json: true",
    "starts_with: xyz",
    "starts_with: a greeting and a name",
    "tool_called: search",
    "not_contains: abc",
    "contains-any:",
    "contains-any: the tent, the pole",
    "Contains: xyz",
    'Contains: "two words"',
    "IsJson: true",
    "startsWith: xyz",
    "StartsWith: a greeting and a name",
    "Starts-with: xyz",
    "starts with: xyz",
    "contains : xyz",
    "contains: 30 days",
    "contains:\n- a",
    "!contains: abc",
    "! contains: abc",
    "!anything: of several words",
    "!not-contains: abc",
    "not contains: abc",
    "Not contains: abc",
    "not_similar(0.8): abc",
    "NotContains: abc",
    "word: xyz",
    "word: 30 days",
    "words: xyz",
    "words: tent, pole, bag",
    "words: [open, tent]",
    "field: xyz",
    "length: {max_words: 3}",
    "rouge: xyz",
    "rouge(0.9): xyz",
    "bleu: the tent costs 120 euros",
    "meteor: xyz",
    "RegEx: ^yes",
    "IContains: xyz",
    "latency: 1",
    "latency: 500 ms",
    "Cost: 0.1",
    "cost(0.1): of the whole answer",
    "toxicity: 0.5",
    "toxicity:",
    "similar:cosine(0.8): the same meaning",
    "trajectory:tool-used: search",
    "llm-rubric: is polite",
    "python: len(answer) > 300",
    "python: checks.py:never",
    "python: file://checks.py",
    "python: answer in data",
    "python: 'the tent is open' in answer",
    "Python: return 'the tent is open' in answer",
    "python: checks.judge(answer, 'the whole text') and no or yes",
    "python(0.5): is named as the language",
    "javascript: output.length < 500",
    "javascript: return output.includes('the whole text') || output.includes(name)",
    "fn: (output) => output.includes(name)",
    "eval: output == expected",
    "ruby: output.length > 5",
    "webhook: https://example.com/judge",
    "contians: xyz",
    "starts-wth: xyz",
    "string_similarity: abc",
    "Length: 50-100",
    "Cost: $20",
    "Contains: 退款",
    "contains: 退款政策说明",
    "contains-any:\n- the price in EUR",
    "Contains:\n- a\n- b",
    "Words: خيمة، عمود",
    "javascript: // the whole text\noutput.includes(name)",
    "javascript: for (const x of words) { if (x) return true }",
    "JavaScript: const x = output.trim(); return x === 'a b';",
    "Python: answer is 'the tent'",
    "no-contains: xyz",
    "doesnt-contain: the price and the date",
    "is-not-json: true",
    "- contains: xyz",
    "`contains: xyz`",
    '"contains: xyz"',
    '["Is polite", "contains: xyz"]',
    '{"contains": "30 days"}',
    '{"type": "contains", "value": "30 days"}',
    '[{"contains": "30 days"}]',
    "[{contains: a}, {regex: b}]",
    "{contains: xyz}",
    "- {not-contains: xyz}",
    '{"contians": "xyz"}',
    '{"llm-rubric": "is polite"}',
    "{type: object}",
    '```json\n{"contains": "xyz"}\n```',
    "type: contains",
    "type: llm-rubric, value: is polite",
    "type: contains\nvalue: 30 days",
    "weight: 2\nis-json: true",
)

EXPRESSIONS = (
    "len(answer) > 100",
    "`len(answer) > 100`",
    "```python\nlen(answer) > 100\n```",
    "answer == 'xyz'",
    "'xyz' in answer",
    "not 'xyz' in answer",
    "vars['x'] in answer",
    "answer in ['a', 'b']",
    "answer is not None",
    "answer.startswith('xyz')",
    "re.search('xyz', answer)",
    "any(each in answer for each in ['a', 'b'])",
    "return 0 < len(answer) < 100",
    "assert answer != ''",
    "data['price'] == 120",
    "len(tool_calls) <= 3",
    "output.includes('xyz') && output.length < 500",
    "output === 'xyz'",
    "!output.includes('xyz')",
    "output.length < 500 && !output.includes('xyz')",
    "(!!output.match('xyz')) && true",
    "JSON.parse(output)?.price !== 120",
    "Check: len(answer) > 100",
)

SENTENCES = (
    "Cost: is named in EUR",
    "Cost: 30 EUR",
    "cost: names the price",
    "Word: count below 100",
    "word: count below 100",
    "Words: no jargon",
    "Length: under 100 words",
    "Length: 3 sentences",
    "Length (words): between 50 and 100",
    "Latency: is explained in plain English",
    "Field: the name of the field is there",
    "Code: compiles without changes",
    "Rubric: a teacher would give an A",
    "Contains: a greeting and a sign-off",
    "Contains: 30 days",
    "Contains: the phrase 'return policy'",
    "Equals: the sum of both prices",
    "Similar: both texts have one meaning",
    "Starts with: a greeting to the customer",
    "Rouge: is named as the colour of the tent",
    "python: is named as the language of the snippet",
    "Python: calls print() once",
    "Python: snippets in fences",
    "Python: version in prose",
    "JavaScript: is not used in the answer",
    "Webhook: the address is explained",
    "Eval: the evaluation of the risk is there",
    "Toxicity: none",
    "Bias: the answer has none",
    "Factuality: Paris is the capital",
    "Answer: names the price",
    "Answer: 42",
    "Match: exact",
    "Human: friendly",
    "Tool called: search first, then answer",
    "Regex: is explained step by step",
    "tool-use: it searched before it answered",
    "Well-structured: yes",
    "Follow-up: offered",
    "Note: the tent is open",
    "tone: polite",
    "GitHub: linked",
    "Not so long: at most 100 words",
    "Names the price: 30 EUR",
    "The time is 10:30",
    "https://example.com/tents is named",
    "Lists the items: tent, pole, bag",
    "Content: correct",
    "price_named: the answer has the price",
    "Length: 2-3 sentences",
    "length: 2-3 sentences",
    "Length: 50–100 words",
    "Length: ≤100 words",
    "Length: ~100 words",
    "Cost: under $20",
    "cost: under $20",
    "Cost: 20 €",
    "Contains:\n- the price in EUR\n- the delivery date",
    "contains:\n- the price in EUR\n- the delivery date",
    "Contains: [name] greets the customer",
    "JavaScript: uses === instead of ==",
    "javascript: uses === instead of ==",
    "JavaScript: uses console.log() for output",
    "Ruby: uses => for hashes",
    "Python: version is 3.12",
    "Cost: 用欧元表示。",
    "Length: 100文字以内であること",
    "Cost: ระบุราคาเป็นเงินยูโร",
    "Length: 100 शब्दों से कम",
    "Cost: السعر باليورو",
    "Cost: 유로로 표시",
    "answer is polite",
    "answer is not rude",
    "answer is 'yes'",
    "answer is False",
    "answer in English",
    "answer not in French",
    "sources in answer",
    "output(s)",
    "answer (short)",
    "correct (answer)",
    "answer contains '30 days'",
    "the answer has >= 3 items (a, b and c)",
    "Answer: the price is [30] EUR",
    "output in JSON",
    'data comes from the "orders" table',
    "`len(answer) > 100` is explained",
    "Explains that answer == 'x' is a comparison",
    "Calls search('tent') first",
    "Hello !output (in capitals) is there",
    "Is the answer (30 EUR) there?!",
    "x == y is explained",
    "2 + 2 = 4",
    "x = 3 and y = 4",
    "type: poem",
    "type: a poem of four lines",
    "Type: haiku",
    "No-contact delivery: offered",
    "no-nonsense: yes",
    'Contains the JSON {"contains": 120}',
    '{"type": "object"} is explained',
    "{name}",
    "{polite, short}",
    "[name] is greeted",
    "[1], [2] and [3]",
    '["Is polite", "Names the price: 30 EUR"]',
    "- Is polite\n- Names the price: 30 EUR",
    "cost: names the price\nlength: is short",
    "name: Ann\nage: 30",
    '"Is polite"',
    '"contains" is spelt correctly',
    "`contains: a` is explained",
    "回答：用中文，价格(30欧元)",
    "说明代码 len(answer) > 100 的作用",
    "答案包含'30天'",
    "类型: 诗歌",
    'JSON 格式：{"contains": 120}',
)

NAMES = (
    "rouge-l",
    "Rouge-L",
    "similarity",
    "regex_match",
    "text_similarity",
    "semantic-similarity",
    "valid-json",
    "json_validity",
    "ValidJSON",
    "NumericDiff",
    "ListContains",
    "is_polite",
    "is-json",
    "IsJson",
    "not_contains",
    "!contains",
    "!anything",
    "IsPolite",
    "ContainsAl",
    "contians",
    "icontain",
    "start-with",
    "contains-al",
    "levenstein",
    "regexp-match",
    "trajectory:tool-used",
    "checks.py:never",
    "lib/checks.py:is_short",
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
        '{"value": "30 days", "type": "not-contains"}',
        '{"contains": "30 days", "weight": 2}',
        '{"contians": "30 days"}',
        '{"llm-rubric": "is polite"}',
        '{"length": {"max_words": 3}}',
        '{"length": {"max_words": 3}, "path": "a.b"}',
        '[{"contains": "30 days"}, {"regex": "b"}]',
        "type: contains",
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
        '{"item": "tent", "cost": 120}',
        '{"answer": 42}',
        '{"file": "a.txt"}',
        '{"type": "file", "value": "a.txt"}',
        '{"word_count": 120}',
        '{"price": {"contains": "EUR"}}',
        '[{"id": 1, "word": "tent"}, {"id": 2, "word": "pole"}]',
        '[1, {"contains": "30 days"}]',
        "{}",
        "type: a haiku about autumn\ntone: friendly",
        "type: file\nvalue: a.txt",
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
        ("NotIsJson: true", "(write a mapping: {not-is-json: …})"),
        ("!contians: xyz", "(write a mapping: {not-contains: …})"),
        ("contians: xyz", "(write a mapping: {contains: …})"),
        ("javascript: output.length < 5", "(`python` takes an expression, or file.py:function)"),
        ("fn: output.length < 5", "(`python` takes an expression, or file.py:function)"),
        ("webhook: https://example.com", "(`code_judge` runs a script)"),
        ("checks.py:never", "(write a mapping: {python: checks.py:never})"),
        ("rouge-l", "(`rouge` has the key `variant`: rougeL, rouge1, rouge2)"),
        ("contians", "(did you mean 'contains'?)"),
        ("is_polite", "(a sentence has several words: `- Is polite`)"),
        ("some_thing: xyz", "(a sentence has several words: `- Is polite`)"),
    ],
)
def test_the_error_for_a_check_in_a_text_says_what_to_write(bench, text, hint):
    _, (fault,) = bench.load(text)
    assert fault.endswith(hint)


@pytest.mark.parametrize(
    ("text", "is_sentence"),
    [
        ("no_emoji", False),
        ("no-emoji: true", False),
        ("no-emojis", False),
        ("NoEmoji: in the whole answer", False),
        ("brevity: high", False),
        ("brevity", False),
        ("Brevity: it gets to the point", True),
        ("is-frendly", False),
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
