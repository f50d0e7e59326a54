"""Checks by Python code, of tool calls, and what all kinds share."""

import subprocess
import sys
import threading

import pytest

from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.context import Services
from pytest_agentv.model.messages import UNNAMED, Message, ToolCall, TraceEvent
from pytest_agentv.model.results import unmet_required

from .conftest import CASE

FUNCTIONS = """
from pytest_agentv import Score
def number(answer): return 0.5
def mapping(data): return {"score": data["x"], "hits": ["h"], "misses": ["m"], "reasoning": "r", "details": {"k": 1}}
limit = 3
def everything(**given): return sorted(given) == ["answer", "case", "data", "metrics", "vars"]
def calls_or_none(answer, tool_calls=None): return tool_calls is None
def deletes(tool_calls): return any(call.tool == "delete" for call in tool_calls)
def nothing(answer): return None
def odd(answer): return {"score": 1, "hit": []}
def wants(answer, context): return True
def patient(answer, seconds=2, *, times=3): return True
first, (second, *others) = number, (number, number)
def no_number(answer): return Score(value=float("nan"))
def a_text(answer): return Score(value="0.5")
def a_truth(answer): return Score(value=True)
def infinite(answer): return Score(value=float("inf"))
def far_above(answer): return Score(value=10**5000)
def far_below(answer): return Score(value=-3)
def odd_reason(answer): return Score(1.0, reasoning=5)
def odd_hits(answer): return Score(1.0, hits=["a", 5])
def odd_details(answer): return {"score": 1, "details": ["a"]}
def one_hit(answer): return {"score": 1, "hits": "all of it", "misses": ["", "x"]}
def greedy(data, vars, tool_calls):
    data["x"].clear()
    vars["words"].clear()
    tool_calls[0].input.clear()
    return True
"""


@pytest.fixture(autouse=True)
def functions(bench):
    (bench.folder / "checks.py").write_text(FUNCTIONS)


ODD = "returned a Score that cannot be recorded:"


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("len(answer)", "len(answer) returned 7, expected True or False"),
        ("checks.py:odd", "checks.py:odd returned a mapping with the key 'hit': its keys are score, hits, misses"),
        ("data['y']", "data['y'] raised KeyError: 'y'"),
        ("{}", "{} returned a mapping with no key `score`"),
        ("checks.py:limit", "checks.py is a value of type int, expected a function"),
        ("checks.py:odd_reason", f"checks.py:odd_reason {ODD} `reasoning`: Input should be a valid string"),
        ("checks.py:odd_hits", f"checks.py:odd_hits {ODD} `hits.1`: Input should be a valid string"),
        ("checks.py:odd_details", f"checks.py:odd_details {ODD} `details`: Input should be a valid dictionary"),
        *(
            (f"checks.py:{code}", "expected a number from 0 to 1")
            for code in ("no_number", "infinite", "a_text", "a_truth")
        ),
    ],
)
def test_code_that_does_not_judge_is_an_error_negated_or_not(bench, code, error):
    for kind in ("python", "not-python"):
        result = bench.judged({kind: code}, '{"x":1}')
        assert error in (result.error or "")
        assert result.score == 0.0


def test_a_text_is_one_hit(bench):
    result = bench.judged({"python": "checks.py:one_hit"}, "x")
    assert (result.hits, result.misses) == (("all of it",), ("x",))


@pytest.mark.parametrize(("code", "score"), [("far_above", 0.0), ("far_below", 1.0)])
def test_a_negated_score_outside_0_to_1_has_a_warning(bench, code, score):
    result = bench.judged({"not-python": f"checks.py:{code}"}, "x")
    assert result.score == score
    assert result.warnings is not None
    assert "is outside 0 to 1" in result.warnings[0]


@pytest.mark.parametrize("path", [None, "y"])
def test_code_that_changes_what_it_is_given_changes_it_for_nobody_else(bench, path):
    case = CASE.replace(vars={"words": ["tent"]})
    call = ToolCall("search", input={"query": "tent"})
    answer = '{"x": [1], "y": {"x": [1]}}'
    given = {"case": case, "output_messages": (Message("assistant", "x", (call,)),)}
    words = {"python": "case.vars['words'].pop() == 'tent'"}
    for check in ({"python": "checks.py:greedy"}, {"python": "data['x'].pop() == 1"}, words):
        result = bench.judged({**check, **({"path": path} if path else {})}, answer, **given)
        assert (result.score, result.error) == (1.0, None)
    assert bench.judged({"field": {"path": "y.x[0]", "equals": 1}}, answer).score == 1.0
    assert case.vars == {"words": ["tent"]}
    assert call.input == {"query": "tent"}


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("checks.py:patient", None),
        ("checks.py:second", None),
        ("checks.py:wants", "the function 'wants' wants 'context', which it is not given ('vars' and 'case' have what"),
        ("anwser", "the name 'anwser' is not known (did you mean 'answer'?)"),
        (
            "[unknown for _ in answer]",
            "the name 'unknown' is not known (names: answer, data, case, vars, tool_calls, metrics)",
        ),
        ("[word for word in answer.split() if (lambda text: text == data)(word)]", None),
        ("(first := answer[:1]) and first.isupper()", None),
    ],
)
def test_code_is_checked_when_the_file_is_loaded(bench, code, fault):
    _, faults = bench.load({"python": code})
    assert len(faults) == (fault is not None)
    assert fault is None or fault in faults[0]


def test_code_that_hangs_is_given_up(bench):
    result = bench.judged({"python": "[0 for _ in iter(int, 1)]"}, "x", timeout_seconds=0.05)
    assert (result.error, result.error_kind) == ("no result within 0.05 s", "timeout")
    for thread in threading.enumerate():  # it would fill the memory of the machine
        if thread.name == "agentv-python":
            thread.join(20)
    assert [thread for thread in threading.enumerate() if thread.name == "agentv-python"] == []


READ_B = {"args": {"path": "b"}}


@pytest.mark.parametrize(
    ("check", "score"),
    [
        ({"tool_trajectory": {"maximums": {"read": 1}}}, 0),
        (
            {
                "tool_trajectory": {
                    "mode": "exact",
                    "expected": [{"tool": "read"}, {"tool": "read"}, {"tool": "delete"}],
                }
            },
            1,
        ),
        ({"tool_trajectory": {"mode": "any_order", "minimums": {"delete": 1}}}, 1),
        ({"tool-called": "delete"}, 1),
        ({"not-tool-called": "read", **READ_B}, 0),
    ],
)
def test_calls_that_only_the_trace_reports_escape_no_limit(bench, called, check, score):
    trace = (
        TraceEvent("tool_call", name="read", input={"path": "a"}),
        TraceEvent("tool_call", name="read", input={"path": "b"}),
        TraceEvent("tool_call", name="delete"),
    )
    told = called(ToolCall("say"), ToolCall("read", input='{"path": "a"}'))
    result = bench.judged(check, "x", **told, trace=trace)
    assert (result.score, result.error) == (score, None)


def test_a_trace_that_reports_the_calls_of_the_messages_again_adds_none(bench, called):
    trace = (TraceEvent("tool_call", name="read"), TraceEvent("tool_call"))
    told = called(ToolCall("read", input={"path": "a"}), ToolCall(""))
    assert bench.judged({"tool_trajectory": {"max_calls": 2}}, "x", **told, trace=trace).score == 1
    told = called(ToolCall("read", input={"path": "a"}))
    assert bench.judged({"not-tool-called": "read", **READ_B}, "x", **told, trace=trace[:1]).score == 1


@pytest.mark.parametrize(
    "check",
    [
        {"not-tool-called": "read"},
        {"tool-called": "read", "times": 0},
        {"tool_trajectory": {"maximums": {"read": 1}}},
        {"not-tool_trajectory": {"mode": "in_order", "expected": [{"tool": "read"}]}},
    ],
)
@pytest.mark.parametrize("name", ["", UNNAMED])
def test_a_call_without_a_name_may_be_one_of_any_tool(bench, called, check, name):
    result = bench.judged(check, "x", **called(ToolCall(name)))
    assert result.error is not None
    assert "A call does not report the name of its tool" in result.error


START = TraceEvent("tool_call", id="1", name="search", input={"q": 1})
RESULT = TraceEvent("tool_result", id="1", output="found")
SAME_CALL = [
    (START, START.replace(input=None), RESULT),
    (START.replace(name="functions.search"),),
    (TraceEvent("tool_call", id="1"),),
]
LIMITS = [{"tool_trajectory": {"mode": "any_order", "max_calls": 1}}, {"tool-called": "search", "times": 1}]


@pytest.mark.parametrize("check", LIMITS)
@pytest.mark.parametrize("trace", SAME_CALL, ids=["start and update", "other name", "no name"])
def test_a_traced_call_with_the_id_of_a_call_in_the_messages_is_the_same_call(bench, called, trace, check):
    told = called(ToolCall("search", input={"q": 1}, id="1"))
    assert bench.judged(check, "x", **told, trace=trace).score == 1


@pytest.mark.parametrize("more", [(RESULT, START), (START.replace(name="delete"),), (START.replace(id=""),)])
def test_another_call_escapes_no_limit_because_of_its_id(bench, called, more):
    told = called(ToolCall("search", input={"q": 1}, id="1"))
    assert bench.judged(LIMITS[0], "x", **told, trace=(START, *more)).score == 0


DELETES = "any(call.tool == 'delete' for call in tool_calls)"


@pytest.mark.parametrize(
    "check",
    [
        {"not-python": DELETES},
        {"python": "checks.py:deletes", "negate": True},
        {"python": "not tool_calls"},
        {"python": "tool_calls.count('x') == 0"},
    ],
)
def test_code_that_looks_at_unknown_calls_cannot_judge(bench, check):
    result = bench.judged(check, "x", reports_calls=False)
    assert (result.score, result.error_kind) == (0.0, "config")
    assert result.error.startswith("No trace available for evaluation: target ")


@pytest.mark.parametrize("value", ["answer == 'x' or answer.tool_calls", "checks.py:calls_or_none"])
def test_other_code_judges_without_calls(bench, value):
    assert bench.judged({"python": value}, "x", reports_calls=False).score == 1
    assert bench.judged({"python": "checks.py:everything"}, "x", reports_calls=False).score == 1


SCORE_0 = """echo '{"score": 0}'"""


def _in_composite(*members, **aggregator):
    return {"assert": list(members), "aggregator": {"type": "weighted_average", **aggregator}}


FIELDS = {"field_accuracy": {"fields": [{"path": "a", "match": "exact"}]}}
UNKNOWN = [{"latency": 5}, {"cost": 1}, {"token_usage": 5}, FIELDS]


@pytest.mark.parametrize("check", UNKNOWN)
@pytest.mark.parametrize(
    "wrap",
    [
        lambda check: {"not-composite": _in_composite(check)},
        lambda check: {"not-composite": _in_composite({"composite": _in_composite(check)})},
        lambda check: {"composite": _in_composite({"not-composite": _in_composite(check)})},
        lambda check: {"not-field": {"path": "a", "check": check}},
        lambda check: {"not-composite": {"assert": [check], "aggregator": {"type": "code_judge", "path": SCORE_0}}},
    ],
    ids=["composite", "deep", "inside", "field", "script"],
)
def test_what_is_unknown_is_no_pass_when_what_holds_it_is_negated(bench, wrap, check):
    result = bench.judged(wrap(check), '{"a": 1}')
    assert result.score == 0.0
    assert result.error is not None
    assert "there is nothing to negate" in result.error
    assert result.error_kind == "config"


@pytest.mark.parametrize("answer", ['{"n": "x"}', "{}", "no JSON"])
def test_a_field_is_required_if_its_check_is(bench, answer):
    check = {"contains": "y", "required": True}
    result = bench.judged({"field": {"path": "n", "check": check}, "weight": 0}, answer)
    assert (result.required, result.score) == (True, 0.0)
    assert len(unmet_required([result])) == 1
    assert bench.judged({"field": {"path": "n", "check": check}}, '{"n": "xy"}').unmet_required is None
    plain = bench.judged({"field": {"path": "n", "check": {"contains": "y"}}, "weight": 0}, answer)
    assert (plain.score, unmet_required([plain])) == (0.0, ())


@pytest.mark.parametrize(
    ("item", "fault"),
    [
        ({"contains": {"value": "a"}, "value": "b"}, ".value: is written twice: it stands in 'contains' too"),
        ({"field": {"path": "a", "contians": "x"}}, ".field.contians: is no kind of evaluator"),
        ({"length": {"min_wrods": 3, "max_words": 5}}, ".length.min_wrods: unknown key (did you mean 'min_words'?)"),
        ({"tool_trajectory": {"mode": "exact"}}, "mode exact needs the key 'expected'"),
        ({"tool_trajectory": {"minimums": {"a": 1}, "max_calls": 1}}, "write mode: any_order beside it"),
        ({"tool_trajectory": {"no_tools": False}}, ".no_tools: expected true, got false"),
        ({"field": {"path": "a", "type": "contains", "value": 5}}, ".field.value: expected a non-empty text"),
        ({"zzz": "a"}, ".zzz: is no kind of evaluator: expected one of answer-relevance, bleu, code_judge, "),
        ("is-json", "'is-json' is a check in a text, which a model would judge (write a mapping: {is-json: …})"),
        (" not_Contains ", "'not_Contains' is a check in a text, which a model would judge (write a mapping: {not-co"),
        ("Cost: in EUR", "'Cost: …' is a check in a text, which a model would judge (write a mapping: {cost: …})"),
        (
            {"equals": None},
            ".equals: expected a value, got null (null in the answer is found by `is-json: {const: null",
        ),
        (
            {"rouge": "猫が好き"},
            "rougeL counts words of the letters a to z and of digits only, and the text has none",
        ),
        (
            {"not-rouge": "Yes!", "variant": "rouge2", "threshold": 0.5},
            "rouge2 counts pairs of words of the letters a to z and of digits only, and the text has none",
        ),
        ({"type": "contains", "value": None}, ".value: expected a value, got null"),
        ({"contains": None, "vlaue": "x"}, ".contains: is missing (is 'vlaue' a misspelling of it?)"),
        ({"python": "len(output) < 9"}, "the name 'output' is not known (the answer is called 'answer' here)"),
        ({"LLMJudge": "Is polite"}, ".LLMJudge: is no kind of evaluator (did you mean 'llm_judge'?)"),
        ({"type": "!contains", "value": "x"}, "got the text '!contains' (did you mean 'contains'?)"),
        ({"tpye": "contains", "value": "a"}, ".type: is missing: expected one of answer-relevance, bleu, code_judge, "),
    ],
)
def test_faults_of_short_forms_are_told_where_they_stand(bench, item, fault):
    (bench.folder / "foreign.py").write_text("def get_assert(output, context):\n    return True\n")
    _, faults = bench.load(item)
    assert len(faults) == 1
    assert fault in faults[0]


def test_a_long_form_may_stand_in_the_short_form_of_a_field(bench):
    long = {"field": {"path": "a", "type": "not-contains", "value": "x", "weight": 2}}
    assert bench.one(long) == bench.one({"field": {"path": "a", "not-contains": "x", "weight": 2}})
    assert bench.judged(long, '{"a": "y"}').score == 1.0


def test_a_check_loads_no_library_that_it_does_not_need():
    script = (
        "import sys; from pytest_agentv import Contains, IsJson, Regex, Rouge; Contains(value='x');"
        "print({'regex', 'jsonschema_rs', 'rouge_score', 'rapidfuzz', 'sacrebleu', 'aiohttp'} & set(sys.modules))"
    )
    assert subprocess.check_output([sys.executable, "-c", script], text=True) == "set()\n"


@pytest.mark.parametrize(("kind", "package"), [("rouge", "rouge-score"), ("bleu", "sacrebleu")])
def test_a_missing_extra_is_one_sentence(bench, monkeypatch, kind, package):
    monkeypatch.setattr("pytest_agentv.evaluators.likeness.find_spec", lambda _: None)
    with pytest.raises(EvaluatorError) as caught:
        bench.one({kind: "x"}).prepare(Services())
    assert str(caught.value) == f"`{kind}` needs the package {package}: pip install 'pytest-agentv[text]'"


@pytest.mark.parametrize("check", ["similar", "not-similar"])
def test_an_empty_answer_has_no_embedding_to_compare(bench, check):
    result = bench.judged({check: "a tent"}, " \n", services=Services(embedders={"embeddings": object()}))
    assert (result.score, result.misses, result.error) == (0.0, ("the answer is empty",), None)


def test_the_file_of_a_function_is_not_run_by_loading(bench):
    (bench.folder / "checks.py").write_text("raise SystemExit\ndef number(answer): return 1\n")
    assert bench.one({"python": "checks.py:number"}).scripts == (
        (str(bench.folder), ("python", str(bench.folder / "checks.py"))),
    )
