"""Checks by Python code, of tool calls, and what all kinds share."""

import asyncio
import subprocess
import sys
import threading

import pytest
from pydantic import Field

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.evaluators.base import Evaluator
from pytest_agentv.evaluators.context import Context, Services
from pytest_agentv.evaluators.python import PythonCheck
from pytest_agentv.evaluators.run import run_evaluator
from pytest_agentv.evaluators.text import Contains
from pytest_agentv.model.messages import UNNAMED, ExecutionMetrics, Message, ToolCall, TraceEvent
from pytest_agentv.model.results import Score, unmet_required

from .conftest import CASE

FUNCTIONS = """
import asyncio
from pytest_agentv import Score
def number(answer): return 0.5
def mapping(data): return {"score": data["x"], "hits": ["h"], "misses": ["m"], "reasoning": "r", "details": {"k": 1}}
def score(answer, case): return Score(0.25, hits=(case.eval_id,))
limit = 3
async def later(answer, *, metrics): await asyncio.sleep(0); return metrics.cost_usd == 0.5
def everything(**given): return sorted(given) == ["answer", "case", "data", "metrics", "tool_calls", "vars"]
def calls_or_none(answer, tool_calls=None): return tool_calls is None
def deletes(tool_calls): return any(call.tool == "delete" for call in tool_calls)
def nothing(answer): return None
def large(answer): return 42
def odd(answer): return {"score": 1, "hit": []}
def broken(answer): return {}["x"]
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


@pytest.mark.parametrize(
    ("code", "score"),
    [
        ("True", 1.0),
        ("len(answer) / 10", 0.7),
        ("data['x'] == 1", 1.0),
        ("data is None or True", 1.0),
        ("tool_calls[0].tool == 'search' and vars == {} and case.eval_id == 'c'", 1.0),
        ("metrics.cost_usd < 1", 1.0),
        ("any(word in answer for word in ['x', 'y'])", 1.0),
        ("checks.py:number", 0.5),
        ("checks.py:mapping", 1.0),
        ("checks.py:score", 0.25),
        ("checks.py:later", 1.0),
        ("checks.py:everything", 1.0),
    ],
)
def test_code_judges(bench, called, code, score):
    result = bench.judged({"python": code}, '{"x":1}', metrics=ExecutionMetrics(cost_usd=0.5), **called("search"))
    assert (result.score, result.error) == (score, None)


def test_a_mapping_of_code_has_all_that_a_score_has(bench):
    result = bench.judged({"python": "checks.py:mapping"}, '{"x": 0.5}')
    assert (result.score, result.hits, result.misses) == (0.5, ("h",), ("m",))
    assert (result.reasoning, result.details) == ("r", {"k": 1})


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("checks.py:nothing", "checks.py:nothing returned None, expected True or False, a number from 0 to 1"),
        ("checks.py:large", "checks.py:large returned 42, expected True or False"),
        ("len(answer)", "len(answer) returned 7, expected True or False"),
        ("checks.py:odd", "checks.py:odd returned a mapping with the key 'hit': its keys are score, hits, misses"),
        ("checks.py:broken", "checks.py:broken raised KeyError: 'x'"),
        ("data['y']", "data['y'] raised KeyError: 'y'"),
        ("{}", "{} returned a mapping with no key `score`"),
    ],
)
def test_code_that_does_not_judge_is_an_error_negated_or_not(bench, code, error):
    for kind in ("python", "not-python"):
        result = bench.judged({kind: code}, '{"x":1}')
        assert result.error is not None
        assert result.error.startswith(error)
        assert result.score == 0.0


def test_a_name_that_is_no_function_is_an_error(bench):
    error = bench.judged({"python": "checks.py:limit"}, "x").error
    assert error is not None
    assert error.endswith("checks.py is a value of type int, expected a function")


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("odd_reason", "its `reasoning` is of type int: expected a text or None"),
        ("odd_hits", "its `hits` has a value of type int: expected texts"),
        ("odd_details", "its `details` is of type list: expected a mapping"),
    ],
)
def test_a_score_of_code_that_cannot_be_recorded_is_an_error(bench, code, fault):
    result = bench.judged({"python": f"checks.py:{code}"}, "x")
    assert (result.score, result.error) == (0.0, f"checks.py:{code} returned a Score that cannot be recorded: {fault}")


def test_a_text_is_one_hit(bench):
    result = bench.judged({"python": "checks.py:one_hit"}, "x")
    assert (result.hits, result.misses) == (("all of it",), ("x",))


@pytest.mark.parametrize("code", ["no_number", "infinite", "a_text", "a_truth"])
def test_a_score_that_is_no_number_is_an_error_negated_or_not(bench, code):
    for check in ({"python": f"checks.py:{code}"}, {"not-python": f"checks.py:{code}"}):
        result = bench.judged(check, "x")
        assert result.error is not None
        assert "expected a number from 0 to 1" in result.error
        assert result.score == 0.0


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
        ("checks.py:numbr", "checks.py has no function 'numbr' (did you mean 'number'?)"),
        ("check.py:number", "file 'check.py' was not found"),
        ("checks.py:wants", "the function 'wants' wants 'context', which it is not given ('vars' and 'case' have what"),
        ("anwser", "the name 'anwser' is not known (did you mean 'answer'?)"),
        ("x = 1", "'x = 1' is no Python expression: invalid syntax"),
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


def test_the_file_of_a_function_is_not_run_by_loading(bench):
    (bench.folder / "checks.py").write_text("raise SystemExit\ndef number(answer): return 1\n")
    assert bench.one({"python": "checks.py:number"}).scripts == (
        (str(bench.folder), ("python", str(bench.folder / "checks.py"))),
    )


def test_code_that_hangs_is_given_up(bench):
    result = bench.judged({"python": "[0 for _ in iter(int, 1)]"}, "x", timeout_seconds=0.05)
    assert (result.error, result.error_kind) == ("no result within 0.05 s", "timeout")
    for thread in threading.enumerate():  # it would fill the memory of the machine
        if thread.name == "agentv-python":
            thread.join(20)
    assert [thread for thread in threading.enumerate() if thread.name == "agentv-python"] == []


def test_an_expression_cannot_change_what_others_judge(bench):
    bench.judged({"python": "data.clear() is None"}, '{"x": 1}')
    assert bench.judged({"contains": "1", "path": "x"}, '{"x": 1}').score == 1.0


@pytest.mark.parametrize(
    ("check", "calls", "score"),
    [
        ({"tool-called": "search"}, ["search"], 1),
        ({"tool-called": {"name": "search", "times": 2}}, ["search", "read", "search"], 1),
        ({"tool-called": "search", "times": 0}, ["read"], 1),
        ({"tool-called": "search", "args": {"q": {"regex": "^te"}}}, [ToolCall("search", input={"q": "tent"})], 1),
        ({"tool-called": "search", "args": {"q": {"any": True}}}, [ToolCall("search", input={"q": 1})], 1),
        ({"tool-called": "search", "args": {"q": {"any": True}}}, [ToolCall("search", input={})], 0),
        ({"tool-called": "search", "args": {"q": "x"}}, [ToolCall("search", input={"q": "y"})], 0),
        ({"not-tool-called": "delete"}, ["search"], 1),
        ({"tool_trajectory": {"forbidden": ["delete"]}}, ["search"], 1),
        ({"tool_trajectory": {"forbidden": ["delete"]}}, ["search", "delete"], 0),
        ({"tool_trajectory": {"maximums": {"search": 1}}}, ["search", "search"], 0),
        ({"tool_trajectory": {"no_tools": True}}, [], 1),
        ({"tool_trajectory": {"no_tools": True}}, ["a"], 0),
        ({"tool_trajectory": {"max_calls": 1}}, ["a", "b"], 0),
        ({"tool_trajectory": {"mode": "any_order", "minimums": {"a": 1, "b": 1}, "max_calls": 5}}, ["a"], 0.5),
        ({"tool_trajectory": {"mode": "any_order", "minimums": {"a": 1}, "max_calls": 1}}, ["a", "b"], 0),
        ({"tool_trajectory": {"mode": "in_order", "expected": [{"tool": "a"}], "forbidden": ["b"]}}, ["a", "b"], 0),
        (
            {"tool_trajectory": {"mode": "exact", "expected": [{"tool": "a", "args": {"q": {"regex": "^x"}}}]}},
            [ToolCall("a", input={"q": "xy"})],
            1,
        ),
    ],
)
def test_tool_calls(bench, called, check, calls, score):
    result = bench.judged(check, "x", **called(*calls))
    assert (result.score, result.error) == (score, None)


def test_a_limit_says_what_was_called(bench, called):
    check = {"tool_trajectory": {"forbidden": ["rm"], "maximums": {"a": 1}, "max_calls": 9, "no_tools": True}}
    result = bench.judged(check, "x", **called("a", "rm"))
    assert result.hits == ("a called 1 time (maximum: 1)", "2 tool calls (maximum: 9)")
    assert result.misses == ("rm called 1 time (forbidden)", "2 tool calls (none is allowed): a, rm")


DELETE = {"mode": "in_order", "expected": [{"tool": "delete"}]}
READ_B = {"args": {"path": "b"}}


@pytest.mark.parametrize(
    ("check", "score"),
    [
        ({"tool_trajectory": {"forbidden": ["delete"]}}, 0),
        ({"tool_trajectory": {"maximums": {"delete": 0}}}, 0),
        ({"tool_trajectory": {"maximums": {"read": 1}}}, 0),
        ({"tool_trajectory": {"maximums": {"read": 2, "say": 1, "delete": 1}}}, 1),
        ({"tool_trajectory": {"max_calls": 3}}, 0),
        ({"tool_trajectory": {"max_calls": 4}}, 1),
        ({"tool_trajectory": {"mode": "exact", "expected": [{"tool": "say"}, {"tool": "read"}]}}, 1),
        ({"tool_trajectory": {"mode": "any_order", "minimums": {"delete": 1}}}, 0),
        ({"not-tool_trajectory": {"mode": "any_order", "minimums": {"delete": 1}}}, 0),
        ({"not-tool_trajectory": DELETE}, 0),
        ({"not-tool_trajectory": {"mode": "any_order", "minimums": {"other": 1}}}, 1),
        ({"tool-called": "delete"}, 1),
        ({"not-tool-called": "delete"}, 0),
        ({"tool-called": "read", "times": 2}, 1),
        ({"tool-called": "read", **READ_B}, 1),
        ({"not-tool-called": "read", **READ_B}, 0),
        ({"python": "[call.tool for call in tool_calls] == ['say', 'read', 'read', 'delete']"}, 1),
        ({"not-python": "any(call.tool == 'delete' for call in tool_calls)"}, 0),
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
        {"tool_trajectory": {"forbidden": ["read"]}},
        {"tool_trajectory": {"maximums": {"read": 1}}},
        {"not-tool_trajectory": {"mode": "any_order", "minimums": {"read": 1}}},
        {"not-tool_trajectory": {"mode": "in_order", "expected": [{"tool": "read"}]}},
    ],
)
@pytest.mark.parametrize("name", ["", UNNAMED])
def test_a_call_without_a_name_may_be_one_of_any_tool(bench, called, check, name):
    result = bench.judged(check, "x", **called(ToolCall(name)))
    assert result.error is not None
    assert "A call does not report the name of its tool" in result.error


def test_a_call_without_a_name_counts_and_changes_no_sure_verdict(bench, called):
    told = called(ToolCall("read"), ToolCall(""))
    assert bench.judged({"tool_trajectory": {"no_tools": True}}, "x", **told).score == 0
    assert bench.judged({"tool-called": "read"}, "x", **told).score == 1
    assert bench.judged({"tool-called": "write"}, "x", **told).score == 0
    assert bench.judged({"tool_trajectory": {"forbidden": ["read"]}}, "x", **told).score == 0


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


@pytest.mark.parametrize("check", LIMITS)
def test_a_start_and_an_update_are_one_call_where_only_a_trace_reports_it(bench, check):
    assert bench.judged(check, "x", trace=(*SAME_CALL[0],), output_messages=None).score == 1


@pytest.mark.parametrize("more", [(RESULT, START), (START.replace(name="delete"),), (START.replace(id=""),)])
def test_another_call_escapes_no_limit_because_of_its_id(bench, called, more):
    told = called(ToolCall("search", input={"q": 1}, id="1"))
    assert bench.judged(LIMITS[0], "x", **told, trace=(START, *more)).score == 0


@pytest.mark.parametrize(("words", "score"), [("ab", 0), ("a", 1)])
def test_a_forbidden_sequence_is_found_after_a_call_with_other_arguments(bench, called, words, score):
    """AgentV's `in_order` uses that call up: the sequence itself still scores 0."""
    check = {"tool_trajectory": {"mode": "in_order", "expected": [{"tool": "search", "args": {"q": "b"}}]}}
    calls = called(*(ToolCall("search", input={"q": word}) for word in words))
    assert bench.judged(check, "x", **calls).score == 0
    result = bench.judged({f"not-{kind}": value for kind, value in check.items()}, "x", **calls)
    assert (result.score, result.error) == (score, None)
    assert result.misses[:1] == (("The calls came in this order, after one with other arguments",) if not score else ())


@pytest.mark.parametrize("check", ["tool-called", "not-tool-called"])
def test_a_target_that_reports_no_calls_cannot_be_judged(bench, check):
    result = bench.judged({check: "search"}, "x", reports_calls=False)
    assert (result.score, result.error_kind) == (0.0, "config")


DELETES = "any(call.tool == 'delete' for call in tool_calls)"


@pytest.mark.parametrize(
    "check",
    [
        {"python": f"not {DELETES}"},
        {"not-python": DELETES},
        {"python": "checks.py:deletes", "negate": True},
        {"python": "not tool_calls"},
        {"python": "tool_calls == ()"},
        {"python": "len(tool_calls) == 0"},
        {"python": "tool_calls.count('x') == 0"},
    ],
)
def test_code_that_looks_at_unknown_calls_cannot_judge(bench, check):
    """It got no calls, so what forbids one passed."""
    result = bench.judged(check, "x", reports_calls=False)
    assert (result.score, result.error_kind) == (0.0, "config")
    assert result.error.startswith("No trace available for evaluation: target ")


@pytest.mark.parametrize("check", [{"python": f"not {DELETES}"}, {"python": "checks.py:deletes", "negate": True}])
def test_code_may_look_at_calls_that_are_known(bench, check):
    assert bench.judged(check, "x", reports_calls=False, dry_run=True).error is None
    assert bench.judged(check, "x", output_messages=(Message("assistant", "x"),)).score == 1


@pytest.mark.parametrize(
    "value", ["answer == 'x' or answer.tool_calls", "answer == 'x' or tool_calls", "checks.py:calls_or_none"]
)
def test_other_code_judges_without_calls(bench, value):
    assert bench.judged({"python": value}, "x", reports_calls=False).score == 1
    assert bench.judged({"python": "checks.py:everything"}, "x", reports_calls=False).score == 1


@pytest.mark.parametrize("check", [{"latency": 5}, {"cost": 1}, {"token_usage": 5}])
def test_an_unknown_amount_is_no_pass_when_it_is_negated(bench, check):
    ((kind, value),) = check.items()
    assert bench.judged(check, "x").error is None
    result = bench.judged({f"not-{kind}": value}, "x")
    assert result.error is not None
    assert result.error.endswith("there is nothing to negate")


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
        lambda check: {"composite": _in_composite(check, {"contains": "1"}), "negate": True},
        lambda check: {"not-composite": _in_composite({"composite": _in_composite(check)})},
        lambda check: {"composite": _in_composite({"not-composite": _in_composite(check)})},
        lambda check: {"not-field": {"path": "a", "check": check}},
        lambda check: {"not-composite": _in_composite({"field": {"path": "a", "check": check}})},
        lambda check: {"not-composite": {"assert": [check], "aggregator": {"type": "code_judge", "path": SCORE_0}}},
    ],
    ids=["composite", "negate", "deep", "inside", "field", "field in a composite", "script"],
)
def test_what_is_unknown_is_no_pass_when_what_holds_it_is_negated(bench, wrap, check):
    result = bench.judged(wrap(check), '{"a": 1}')
    assert result.score == 0.0
    assert result.error is not None
    assert "there is nothing to negate" in result.error
    assert result.error_kind == "config"


@pytest.mark.parametrize("check", UNKNOWN[:3])
def test_what_only_the_mock_of_a_dry_run_does_not_report_is_no_error(bench, check):
    ((kind, value),) = check.items()
    for negation in ({f"not-{kind}": value}, {"not-composite": _in_composite(check)}):
        assert bench.judged(negation, "x", dry_run=True).error is None


@pytest.mark.parametrize("check", UNKNOWN)
def test_the_members_of_what_cannot_be_negated_are_kept(bench, check):
    result = bench.judged({"not-composite": _in_composite({**check, "name": "lost"})}, '{"a": 1}')
    (member,) = result.evaluator_results
    assert (member.name, member.score, bool(member.unknown)) == ("lost", 0.0, True)


@pytest.mark.parametrize("check", UNKNOWN)
def test_what_is_unknown_and_does_not_count_can_be_beside_what_is_negated(bench, check):
    members = _in_composite({**check, "name": "lost"}, {"contains": "sorry"}, weights={"lost": 0})
    result = bench.judged({"not-composite": members}, '{"a": 1}')
    assert (result.score, result.error) == (1.0, None)


def test_a_composite_in_which_nothing_counts_is_not_negated_into_a_pass(bench):
    members = _in_composite({"contains": "sorry", "name": "polite"}, weights={"polite": 0})
    result = bench.judged({"not-composite": members}, "x")
    assert (result.score, result.error) == (
        0.0,
        "all weights are 0, so that nothing counts: there is nothing to negate",
    )


@pytest.mark.parametrize("field", [{"path": "b", "required": False}, {"path": "a", "weight": 0}])
def test_fields_of_which_none_counts_are_not_negated_into_a_pass(bench, field):
    messages = ({"role": "assistant", "content": {"a": 1, "b": 2}},)
    check = {"not-field_accuracy": {"fields": [{"match": "exact", **field}]}}
    result = bench.judged(check, '{"a": 1}', case=CASE.replace(expected_messages=messages))
    assert (result.score, result.error_kind) == (0.0, "config")


@pytest.mark.parametrize("check", UNKNOWN)
def test_what_is_unknown_fails_where_nothing_is_negated(bench, check):
    result = bench.judged({"composite": _in_composite(check)}, '{"a": 1}')
    assert (result.score, result.error, bool(result.unknown)) == (0.0, None, True)


def test_a_bad_pattern_of_an_argument_is_told(bench):
    _, faults = bench.load({"tool-called": "a", "args": {"q": {"regex": "("}}})
    assert len(faults) == 1
    assert "q: '(' is no regular expression" in faults[0]


def test_heuristic_tells_what_is_missing(bench):
    result = bench.judged({"heuristic": {"hits": ["tent", "30"], "misses": ["sorry"]}}, "Sorry, a tent")
    assert (result.hits, result.misses) == (("tent",), ("sorry", "missing: 30"))


def test_bare_texts_are_one_question_that_weighs_as_much_as_they(bench):
    found, faults = bench.load({"contains": "a"}, "tent", {"contains": "b"}, "car", "days")
    assert faults == []
    assert [(each.label, each.weight) for each in found] == [
        ("contains: a", 1.0),
        ("statements: 3 sentences", 3.0),
        ("contains: b", 1.0),
    ]
    context = Context(CASE, Prompt("q"), "a tent for days", services=Services(judge=bench.judge))
    result = asyncio.run(run_evaluator(found[1], context))
    assert len(bench.judge.asked) == 1
    assert (result.score, result.hits, result.misses) == (pytest.approx(2 / 3), ("tent", "days"), ("car",))
    members = result.evaluator_results or ()
    assert [(each.name, each.score, each.verdict) for each in members] == [
        ("tent", 1.0, "pass"),
        ("car", 0.0, "fail"),
        ("days", 1.0, "pass"),
    ]
    assert result.unmet_required is None


def test_a_text_that_the_judge_leaves_out_is_an_error(bench):
    result = bench.judged("left out", "x")
    assert len(bench.judge.asked) == 3
    assert result.error is not None
    assert "has no check for statement-1" in result.error


def test_a_composite_keeps_what_its_members_require(bench):
    composite = {
        "composite": {
            "assert": [{"contains": "a"}, {"contains": "b", "required": True}],
            "aggregator": {"type": "weighted_average", "weights": {"contains: b": 0}},
        }
    }
    result = bench.judged(composite, "a")
    assert (result.score, result.verdict) == (1.0, "fail")
    assert result.unmet_required == ('contains: b: lacks "b"',)


def test_fields_of_nothing_expected_are_not_negated_into_a_pass(bench):
    check = {"fields": [{"path": "a", "match": "exact"}]}
    for answer in ('{"a": 1}', "no JSON"):
        result = bench.judged({"not-field_accuracy": check}, answer)
        assert (result.score, result.error_kind) == (0.0, "config")
        assert result.error == "No expected data found in expected_messages: there is nothing to negate"
    assert bench.judged({"field_accuracy": check}, '{"a": 1}').error is None


@pytest.mark.parametrize(("weights", "score"), [({}, 0.75), ({"statements: 3 sentences": 1}, 0.5)])
def test_sentences_in_a_composite_weigh_as_much_as_their_number(bench, weights, score):
    composite = {"assert": ["a", "b", "c", {"contains": "x"}], "aggregator": {**MEAN, "weights": weights}}
    assert bench.judged({"composite": composite}, "a b c").score == score


def test_the_weight_of_a_member_is_not_read_which_is_said(bench):
    weighed = {"assert": [{"contains": "a", "weight": 5}, {"contains": "b"}], "aggregator": MEAN}
    (composite,), faults = bench.load({"composite": weighed})
    told = "the member 'contains: a' has a `weight`, which is not read (write it into `weights` of the aggregator)"
    assert faults == [f"/qa.yaml:2: evaluators[0]: {told}"]
    assert composite.aggregator.kind == "weighted_average"
    named = {**weighed, "aggregator": {**MEAN, "weights": {"contains: a": 5}}}
    assert bench.load({"composite": named})[1] == []


NEEDS_B = {"assert": [{"contains": "a"}, {"contains": "b", "required": True}]}
MEAN = {"type": "weighted_average"}


@pytest.mark.parametrize(
    "composite",
    [
        {"composite": {**NEEDS_B, "aggregator": MEAN}, "weight": 0},
        {"composite": {"assert": [{"composite": {**NEEDS_B, "aggregator": MEAN}}], "aggregator": MEAN}, "weight": 0},
        {
            "composite": {
                "assert": [{"name": "inner", "composite": {**NEEDS_B, "aggregator": MEAN}}],
                "aggregator": {"type": "weighted_average", "weights": {"inner": 0}},
            }
        },
        {
            "composite": {
                "assert": [{"composite": {**NEEDS_B, "aggregator": MEAN}}],
                "aggregator": {"type": "code_judge", "path": "echo '{\"score\": 1}'"},
            }
        },
    ],
)
def test_a_required_member_fails_the_case_whatever_a_composite_weighs(bench, composite):
    result = bench.judged(composite, "a")
    assert unmet_required([result]) == ('contains: b: lacks "b"',)


@pytest.mark.parametrize("answer", ['{"n": "x"}', "{}", "no JSON"])
def test_a_field_is_required_if_its_check_is(bench, answer):
    check = {"contains": "y", "required": True}
    result = bench.judged({"field": {"path": "n", "check": check}, "weight": 0}, answer)
    assert (result.required, result.score) == (True, 0.0)
    assert len(unmet_required([result])) == 1
    assert bench.judged({"field": {"path": "n", "check": check}}, '{"n": "xy"}').unmet_required is None
    plain = bench.judged({"field": {"path": "n", "check": {"contains": "y"}}, "weight": 0}, answer)
    assert (plain.score, unmet_required([plain])) == (0.0, ())


def test_a_composite_of_weight_0_asks_nothing_that_no_author_asked_for(bench):
    judge = {"name": "r", "type": "rubric", "rubrics": ["is there"]}
    result = bench.judged({"composite": {"assert": [judge], "aggregator": MEAN}, "weight": 0}, "a")
    assert result.unmet_required == ("[rubric-1] is there",)
    assert unmet_required([result]) == ()
    negated = {"not-composite": {**NEEDS_B, "aggregator": MEAN}, "weight": 0}
    assert unmet_required([bench.judged(negated, "a")]) == ()


@pytest.mark.parametrize(
    ("item", "fault"),
    [
        ({"contains": "a", "icontains": "b"}, ".icontains: unknown key (each check is an entry of the list: put `- ` "),
        ({"contians": "a"}, ".contians: is no kind of evaluator (did you mean 'contains'?)"),
        ({"not-contains": "a", "negate": True}, ".negate: says the same as `not-` before the kind"),
        ({"contains": {"value": "a"}, "value": "b"}, ".value: is written twice: it stands in 'contains' too"),
        ({"field": {"path": "a", "contains": 5}}, ".field.contains: expected a non-empty text, got the number 5"),
        ({"field": {"path": "a", "contians": "x"}}, ".field.contians: is no kind of evaluator"),
        ({"not-contains": {"type": "regex", "value": "a.c"}}, ".not-contains.type: unknown key"),
        (
            {"not-tool-called": "rm", "args": {"path": {"regex": "^/", "flags": "i"}}},
            ".args: path: `regex` stands alone, and flags stand in the pattern: {regex: (?i)tents?}",
        ),
        (
            {"field": {"path": "a", "check": "Is polite"}},
            ".field.check: expected an evaluator: a mapping such as {contains: 30 days}, got the text 'Is polite'",
        ),
        ({"length": {"min_wrods": 3, "max_words": 5}}, ".length.min_wrods: unknown key (did you mean 'min_words'?)"),
        ({"length": {"min_words": 5, "max_words": 3}}, "no answer can have min_words: 5 and max_words: 3"),
        ({"contains": "a", "path": "a..b"}, ".path: expected a path such as items[0].price"),
        ({"tool_trajectory": {"mode": "exact"}}, "mode exact needs the key 'expected'"),
        ({"tool_trajectory": {"minimums": {"a": 1}, "max_calls": 1}}, "write mode: any_order beside it"),
        ({"tool_trajectory": {"no_tools": False}}, ".no_tools: expected true, got false"),
        ({"contains": 5}, '.contains: expected a non-empty text, got the number 5 (put it into quotes: "5")'),
        ({"contains": 1.0}, ".contains: expected a non-empty text, got the number 1.0 (put it into quotes as "),
        ({"contains": {"weight": 2}}, ".contains.value: is missing"),
        ({"field": {"equals": 1}}, ".field.path: is missing"),
        ({"field": {"path": "a", "type": "contains", "value": 5}}, ".field.value: expected a non-empty text"),
        ({"field": {"path": "a", "type": "contians", "value": "x"}}, ".field.type: expected a kind of evaluator"),
        ({"similar": "a", "provider": "b"}, ".provider: unknown key (did you mean 'target'?)"),
        (
            {"type": "llm-grader", "prompt": "x"},
            ".type: expected a kind of evaluator, got the text 'llm-grader' (write",
        ),
        ({"type": "code_grader", "command": ["x"]}, "got the text 'code_grader' (write `code_judge`, and its command"),
        ({"llm-rubric": "Is polite"}, ".llm-rubric: is no kind of evaluator (write the sentence by itself: `- Is"),
        (
            {"type": "not-javascript", "value": "x"},
            ".type: expected a kind of evaluator, got the text 'not-javascript'",
        ),
        ({"model_graded_qa": "x"}, ".model_graded_qa: is no kind of evaluator (write the sentence by itself"),
        ({"zzz": "a"}, ".zzz: is no kind of evaluator: expected one of bleu, code, "),
        ({"script": "judge.py"}, ".type: is missing: expected one of bleu, code, "),
        ("is-json", "'is-json' is a check in a text, which a model would judge (write a mapping: {is-json: …})"),
        (" not_Contains ", "'not_Contains' is a check in a text, which a model would judge (write a mapping: {not-co"),
        ("Cost: in EUR", "'Cost: …' is a check in a text, which a model would judge (write a mapping: {cost: …})"),
        (
            {"equals": None},
            ".equals: expected a value, got null (null in the answer is found by `is-json: {const: null",
        ),
        ({"contains": None}, ".contains: expected a value, got null"),
        (
            {"rouge": "猫が好き"},
            ".rouge: rouge counts words of the letters a to z and of digits only, and the text has",
        ),
        (
            {"not-rouge": "Yes!", "variant": "rouge2", "threshold": 0.5},
            "rouge2 counts pairs of words, and 'Yes!' has one word (write variant: rouge1)",
        ),
        ({"type": "contains", "value": None}, ".value: expected a value, got null"),
        ({"contains": None, "vlaue": "x"}, ".contains: is missing (is 'vlaue' a misspelling of it?)"),
        ({"python": "len(output) < 9"}, "the name 'output' is not known (the answer is called 'answer' here)"),
        ({"python": "foreign.py:get_assert"}, "wants 'output', which it is not given (the answer is called 'answer'"),
        ({"LLMJudge": "Is polite"}, ".LLMJudge: is no kind of evaluator (did you mean 'llm_judge'?)"),
        ({"GEval": {"criteria": "x"}}, ".GEval: is no kind of evaluator (write the sentence by itself"),
        ({"IsJson": True}, ".IsJson: is no kind of evaluator (did you mean 'is-json'?)"),
        ({"type": "!contains", "value": "x"}, "got the text '!contains' (did you mean 'contains'?)"),
        ({"threshold": 0.8, "name": "n", "zzz": "a"}, ".zzz: is no kind of evaluator: expected one of bleu, code, "),
        ({"tpye": "contains", "value": "a"}, ".type: is missing: expected one of bleu, code, "),
    ],
)
def test_faults_of_short_forms_are_told_where_they_stand(bench, item, fault):
    (bench.folder / "foreign.py").write_text("def get_assert(output, context):\n    return True\n")
    _, faults = bench.load(item)
    assert len(faults) == 1
    assert fault in faults[0]


@pytest.mark.parametrize(
    "text",
    [
        "Polite",
        "Latency is mentioned",
        "contains no insult",
        "not is-json",
        "len(answer) > 1",
        "answer: 5",
        "file://a.md",
    ],
)
def test_any_other_text_is_a_criterion(bench, text):
    assert bench.one(text).value == (text,)


def test_a_misspelt_key_is_told_before_what_is_missing_without_it(bench):
    _, faults = bench.load({"cost": {"threshold": 0.1}})
    assert [fault.partition(": ")[2] for fault in faults] == [
        "evaluators[0].cost.threshold: unknown key (did you mean 'budget'?)",
        "evaluators[0].cost.budget: is missing",
    ]


def test_a_long_form_may_stand_in_the_short_form_of_a_field(bench):
    long = {"field": {"path": "a", "type": "not-contains", "value": "x", "weight": 2}}
    assert bench.one(long) == bench.one({"field": {"path": "a", "not-contains": "x", "weight": 2}})
    assert bench.judged(long, '{"a": "y"}').score == 1.0


def test_a_path_may_be_written_as_in_jsonpath(bench):
    for path in ("$[0].price", "[0].price"):
        assert bench.judged({"equals": 5, "path": path}, '[{"price": 5}]').score == 1.0
    assert bench.judged({"field": {"path": "$.price", "equals": 5}}, '{"price": 5}').score == 1.0


def test_an_expression_may_use_the_data_within_a_generator(bench):
    assert bench.judged({"python": "all(key in data for key in ['a', 'b'])"}, '{"a": 1, "b": 2}').score == 1.0


def test_a_weight_before_the_kind_is_fine(bench):
    assert bench.one({"weight": 2, "contains": "a"}).weight == 2


def test_own_kinds_keep_their_own_path_and_have_short_forms(bench):
    class Own(Evaluator):
        """One of a user."""

        kind = "own_kind"
        path: str = Field(description="mine")

        async def evaluate(self, context: Context) -> Score:
            return Score(1.0, hits=(f"{self.path} {context.candidate_answer}",))

    result = asyncio.run(run_evaluator(Own(path="a b"), Context(CASE, Prompt("q"), "text")))
    assert result.hits == ("a b text",)


def test_required_asks_a_graded_kind_for_the_threshold_of_the_case(bench):
    check = {"levenshtein": "abcd", "required": True}
    assert bench.judged(check, "abcx", threshold=0.7).unmet_required is None
    assert bench.judged(check, "abcx", threshold=0.8).unmet_required == ("levenshtein: abcd",)
    assert bench.judged({"words": ["a", "b"], "required": True}, "a", threshold=0.5).unmet_required is not None


def test_kinds_work_without_a_file():
    result = asyncio.run(run_evaluator(Contains(value="a", negate=True), Context(CASE, Prompt("q"), "b")))
    assert (result.score, result.name) == (1.0, "contains")
    score = asyncio.run(run_evaluator(PythonCheck(value="answer == 'b'"), Context(CASE, Prompt("q"), "b")))
    assert score.score == 1.0


def test_a_check_loads_no_library_that_it_does_not_need():
    script = (
        "import sys; from pytest_agentv import Contains, IsJson, Regex, Rouge; Contains(value='x');"
        "print({'regex', 'jsonschema_rs', 'rouge_score', 'rapidfuzz', 'sacrebleu', 'aiohttp'} & set(sys.modules))"
    )
    assert subprocess.check_output([sys.executable, "-c", script], text=True) == "set()\n"


@pytest.mark.parametrize(("kind", "package"), [("rouge", "rouge-score"), ("bleu", "sacrebleu")])
def test_a_missing_extra_is_one_sentence(bench, monkeypatch, kind, package):
    monkeypatch.setattr("pytest_agentv.evaluators.likeness.find_spec", lambda _: None)
    result = bench.judged({kind: "x"}, "x")
    assert result.error == f"`{kind}` needs the package {package}: pip install 'pytest-agentv[text]'"


@pytest.mark.parametrize("kind", ["similar", "not-similar"])
def test_an_empty_answer_is_compared_with_nothing(bench, kind):
    result = bench.judged({kind: "x"}, " \n", services=Services(embedders={"embeddings": object()}))
    assert (result.score, result.misses, result.error) == (0.0, ("the answer is empty",), None)


def test_bleu_ignores_a_byte_order_mark(bench):
    pytest.importorskip("sacrebleu")
    assert bench.judged({"bleu": "The tent costs 120 euros."}, "\ufeffThe tent costs 120 euros.\n").score == 1.0


@pytest.mark.parametrize("check", ["similar", "not-similar"])
def test_an_empty_answer_has_no_embedding_to_compare(bench, check):
    result = bench.judged({check: "a tent"}, " \n", services=Services(embedders={"embeddings": object()}))
    assert (result.score, result.misses, result.error) == (0.0, ("the answer is empty",), None)


def test_bleu_is_that_of_sacrebleu_as_a_share(bench):
    pytest.importorskip("sacrebleu")
    result = bench.judged({"bleu": "The tent costs 120 euros."}, "The tent costs 120 euros today.")
    assert result.score == pytest.approx(0.6434588841607617)


def test_a_field_that_nothing_is_expected_of_is_met_with_a_warning(bench):
    case = CASE.replace(expected_messages=({"role": "assistant", "content": {"a": 1}},))
    check = {"fields": [{"path": path, "match": "exact"} for path in ("a", "b.c")]}
    result = bench.judged({"field_accuracy": check}, '{"a": 1}', case=case)
    assert (result.score, result.hits) == (1.0, ("a", "b.c: no expected value"))
    (warning,) = result.warnings
    assert warning == "the expected data has no 'b.c': this field counts as met, whatever the answer has there"

    optional = {"fields": [{"path": path, "match": "exact", "required": False} for path in ("a", "b.c")]}
    assert bench.judged({"field_accuracy": optional}, '{"a": 1}', case=case).warnings is None
