"""`code_judge`: its payload, reading its reply, and telling a broken judge from a bad answer. Scripts really run."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.context import Context, Services, build_payload, snake_case_keys
from pytest_agentv.evaluators.run import build_result
from pytest_agentv.evaluators.script import CodeJudge, ScriptFailedError, cut, is_of_mock, parse_judgement, show_script
from pytest_agentv.model.cases import EvalCase
from pytest_agentv.model.messages import ExecutionMetrics, Message, TokenUsage, ToolCall, TraceEvent, TraceSummary
from pytest_agentv.model.results import Score
from pytest_agentv.model.text import pretty_json

EXPECTED = (
    'print exactly one JSON object such as {"score": 0.5, "hits": [], "misses": [], "reasoning": ""} '
    "on standard output, and everything else on standard error"
)
NO_CONSTANT = "which is no JSON: print a number, or null in details"


def case_of(**fields) -> EvalCase:
    return EvalCase("c", "d", "/e/x.eval.yaml", 1, "outcome", "raw question", (), ({"role": "user"},), **fields)


def context_of(**fields) -> Context:
    return Context(**{"case": case_of(), "prompt": Prompt("q"), "candidate_answer": "answer", **fields})


def judge(tmp_path: Path, code: str, context: Context | None = None, **environment: str) -> Score:
    """Run Python code as a judge script."""
    script = tmp_path / "judge.py"
    script.write_text(code, encoding="utf-8")
    config = CodeJudge(script=(sys.executable, "judge.py"), cwd=str(tmp_path), limit=3)
    return run(config, context, **environment)


def run(config: CodeJudge, context: Context | None = None, **environment: str) -> Score:
    services = Services(environment={"PATH": os.environ["PATH"], "HOME": config.cwd, **environment})
    return asyncio.run(config.evaluate((context or context_of()).replace(services=services)))


def failure(tmp_path: Path, code: str, **context) -> EvaluatorError:
    with pytest.raises(EvaluatorError) as caught:
        judge(tmp_path, code, context_of(**context))
    return caught.value


def script_of(tmp_path: Path) -> str:
    return f"{sys.executable} judge.py"


# --- the payload


@pytest.mark.scenario("Preserve legacy payload shape")
def test_the_payload_has_agentvs_keys_in_agentvs_order_then_ours():
    case = case_of(
        expected_messages=({"role": "assistant", "content": "ideal"},),
        reference_answer="ideal",
        guideline_paths=("/g.md",),
        file_paths=("/g.md", "/a.py", "/a.py"),
    )
    payload = build_payload(context_of(case=case), None)
    assert list(payload.items()) == [
        ("question", "raw question"),
        ("expected_outcome", "outcome"),
        ("expected_messages", [{"role": "assistant", "content": "ideal"}]),
        ("reference_answer", "ideal"),
        ("candidate_answer", "answer"),
        ("output_messages", None),
        ("guideline_files", ["/g.md"]),
        ("input_files", ["/a.py", "/a.py"]),
        ("input_messages", [{"role": "user"}]),
        ("trace_summary", None),
        ("config", None),
        ("execution_metrics", None),
        ("trace", None),
    ]


@pytest.mark.scenario("Emit payload to code_judge evaluator")
def test_keys_are_snake_case_at_every_depth_and_values_stay():
    content = {"invoiceNumber": 1, "Items": [{"unitPrice": 2}]}
    call = ToolCall("knowledgeSearch", {"docId": "x", "Query": 1}, duration_ms=5.0)
    context = context_of(
        case=case_of(
            expected_messages=({"role": "assistant", "content": content},), reference_answer='{"invoiceNumber":1}'
        ),
        output_messages=(Message("assistant", {"finalAnswer": 42}, (call,)),),
        trace_summary=TraceSummary(1, ("knowledgeSearch",), {"knowledgeSearch": 1}, 0),
        trace=(TraceEvent("tool_call", name="knowledgeSearch", input={"docId": "x"}),),
    )
    payload = build_payload(context, {"camelKey": {"innerKey": 1}})
    assert payload["expected_messages"][0]["content"] == {"invoice_number": 1, "Items": [{"unit_price": 2}]}
    assert payload["config"] == {"camel_key": {"inner_key": 1}}
    assert payload["output_messages"] == [
        {
            "role": "assistant",
            "content": {"final_answer": 42},
            "tool_calls": [{"tool": "knowledgeSearch", "input": {"doc_id": "x", "Query": 1}, "duration_ms": 5}],
        }
    ]
    assert payload["trace_summary"] == {
        "event_count": 1,
        "tool_names": ["knowledgeSearch"],
        "tool_calls_by_name": {"knowledge_search": 1},
        "error_count": 0,
    }
    assert payload["trace"] == [{"type": "tool_call", "name": "knowledgeSearch", "input": {"doc_id": "x"}}]
    assert payload["reference_answer"] == '{"invoiceNumber":1}'


@pytest.mark.parametrize(
    ("key", "snake"),
    [("docId", "doc_id"), ("Query", "Query"), ("aBC", "a_b_c"), ("snake_case", "snake_case"), ("URL", "URL"), ("", "")],
)
def test_keys_that_start_in_upper_case_stay(key, snake):
    assert snake_case_keys({key: [{key: key}]}) == {snake: [{snake: key}]}


def test_what_json_cannot_write_becomes_null():
    assert snake_case_keys({"a": float("nan"), "b": [float("inf"), 1.5]}) == {"a": None, "b": [None, 1.5]}


@given(st.recursive(st.none() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_renaming_twice_is_renaming_once(value):
    once = snake_case_keys(value)
    assert snake_case_keys(once) == once


# --- running scripts


@pytest.mark.scenario("Code evaluator execution")
@pytest.mark.scenario("Code judge receives metrics")
def test_a_script_judges_what_it_reads_on_standard_input(tmp_path):
    code = """
import json, os, sys
case = json.load(sys.stdin)
usage = case["execution_metrics"]["token_usage"]
print("a note", file=sys.stderr)
print(json.dumps({
    "score": 1 if usage == {"input": 10, "output": 5} else 0,
    "hits": [case["candidate_answer"], "  ", 5, case["question"]],
    "misses": [os.environ["MARK"], os.getcwd()],
    "reasoning": "limit %d" % case["config"]["limit"],
}))
"""
    context = context_of(candidate_answer="größe \ud800", metrics=ExecutionMetrics(TokenUsage(10, 5), 0.1, 12))
    score = judge(tmp_path, code, context, MARK="from the environment")
    assert score == Score(
        1.0,
        hits=("größe \ud800", "raw question"),
        misses=("from the environment", str(tmp_path.resolve())),
        reasoning="limit 3",
        request={"script": [sys.executable, "judge.py"], "cwd": str(tmp_path)},
    )


def test_a_script_gets_its_own_keys_and_the_shared_ones_that_its_author_wrote(tmp_path):
    code = "import json, sys; print(json.dumps({'score': 1, 'reasoning': json.dumps(json.load(sys.stdin)['config'])}))"
    for keys, config in (({"limit": 3, "required": True}, {"limit": 3, "required": True}), ({"weight": 2.0}, None)):
        score = run(CodeJudge(script=(sys.executable, "-c", code), cwd=str(tmp_path), **keys))
        assert json.loads(score.reasoning) == config


def test_a_shell_command_judges(tmp_path):
    config = CodeJudge(script=("sh", "-lc", "cat >/dev/null; echo '{\"score\": 0.25}'"), cwd=str(tmp_path))
    assert run(config).value == 0.25


def test_a_script_need_not_read_its_input(tmp_path):
    code = "print('{\"score\": 1}')"
    assert judge(tmp_path, code, context_of(candidate_answer="x" * 1_000_000)).value == 1


@pytest.mark.parametrize("ending", ["\\r\\n", "\\n\\n"])
def test_blanks_around_the_reply_do_no_harm(tmp_path, ending):
    assert judge(tmp_path, f"print('\\ufeff {{\"score\": 1}}', end='{ending}')", PYTHONUTF8="1").value == 1


def test_a_script_that_cannot_be_started_is_an_error(tmp_path):
    config = CodeJudge(script=("no-such-judge", "--fast mode"), cwd=str(tmp_path))
    with pytest.raises(EvaluatorError) as caught:
        run(config)
    assert str(caught.value) == (
        f"Code evaluator could not be started (script: no-such-judge '--fast mode', cwd: {tmp_path}): "
        "cannot run 'no-such-judge': no such program, neither as a path nor on PATH"
    )
    assert (caught.value.kind, caught.value.output) == ("config", None)


def test_a_script_that_exits_with_an_error_is_an_error_with_its_reason(tmp_path):
    error = failure(tmp_path, "import sys; print('{\"score\": 1}'); sys.exit('no data file')")
    assert str(error) == f"Code evaluator exited with code 1 (script: {script_of(tmp_path)}): no data file"
    assert (error.kind, error.output) == ("process", '{"score": 1}\n')


def test_a_script_that_fails_in_silence_is_an_error(tmp_path):
    error = failure(tmp_path, "raise SystemExit(3)")
    assert str(error) == (
        f"Code evaluator exited with code 3 (script: {script_of(tmp_path)}): it wrote nothing on standard error"
    )
    assert error.output is None


def test_only_the_end_of_a_long_standard_error_is_shown(tmp_path):
    error = failure(tmp_path, "import sys; sys.exit('x' * 3000 + 'the reason')")
    assert str(error) == (
        f"Code evaluator exited with code 1 (script: {script_of(tmp_path)}): "
        "[standard error, the last 2000 of 3010 characters]\n" + "x" * 1990 + "the reason"
    )


def test_the_sdks_failure_reply_gives_the_reason(tmp_path):
    reply = {"score": 0, "hits": [], "misses": ["no file"], "reasoning": "Evaluation failed: no file"}
    error = failure(tmp_path, f"import sys\nprint({pretty_json(reply)!r})\nsys.exit(1)")
    assert str(error) == (
        f"Code evaluator exited with code 1 (script: {script_of(tmp_path)}): Evaluation failed: no file"
    )
    assert json.loads(error.output or "") == reply


def test_a_script_that_takes_too_long_is_a_timeout(tmp_path):
    error = failure(tmp_path, "import time; time.sleep(60)", timeout_seconds=0.2)
    assert str(error) == (
        f"Code evaluator timed out after 0.2 s (script: {script_of(tmp_path)}): it wrote nothing on standard error"
    )
    assert error.kind == "timeout"


def test_a_script_that_is_killed_is_an_error(tmp_path):
    error = failure(tmp_path, "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert str(error) == (
        f"Code evaluator was killed by SIGKILL (script: {script_of(tmp_path)}): it wrote nothing on standard error"
    )
    assert error.kind == "process"


def test_a_script_that_prints_without_end_is_an_error(tmp_path):
    error = failure(tmp_path, "while True: print('x' * 1000)")
    assert str(error).startswith(
        f"Code evaluator was stopped because it printed too much (script: {script_of(tmp_path)}): "
    )
    assert error.kind == "process"
    assert len(error.output or "") < 11_000


def test_a_command_written_as_a_string_is_shown_as_it_was_written():
    assert show_script(("sh", "-lc", "python judge.py | tee log")) == "python judge.py | tee log"
    assert show_script(("python", "my judge.py")) == "python 'my judge.py'"
    assert show_script(("x" * 300,)) == "x" * 200 + "…"


# --- reading replies


def no_result(message, reply):
    """Return what a reply scores that is no result."""
    return Score(0.0, misses=(message,), reasoning=message, raw_output=reply, error=message, error_kind="process")


def test_only_texts_are_kept():
    score = parse_judgement('{"score": 0, "hits": "one", "misses": [null, " ", " m "], "reasoning": 5, "x": 1}')
    assert score == Score(0.0, hits=("one",), misses=("m",))


@pytest.mark.scenario("Code judge returns details")
def test_details_are_handed_on_as_they_came():
    details = {"camelKey": [{"innerKey": None}], "Précis": 1.5}
    assert parse_judgement(json.dumps({"score": 1, "details": details})).details == details
    assert parse_judgement(json.dumps({"score": 1, "details": json.dumps(details)})).details == details


@pytest.mark.scenario("Code judge omits details")
@pytest.mark.parametrize("reply", ['{"score": 0.5}', '{"score": 0.5, "details": null}'])
def test_without_details_there_are_none(reply):
    assert parse_judgement(reply) == Score(0.5)


@pytest.mark.scenario("Details payload is not valid JSON")
@pytest.mark.parametrize(("details", "given"), [("oops", '"oops"'), ([1], "[1]"), (5, "5"), ("[1]", '"[1]"')])
def test_details_that_are_no_json_object_score_0(details, given):
    reply = json.dumps({"score": 1, "hits": ["h"], "details": details})
    message = (
        f"Code evaluator printed `details` that are no JSON object: {given}; "
        'print a mapping such as {"reason": "…"}, or leave them out'
    )
    assert parse_judgement(reply) == no_result(message, reply)


@pytest.mark.scenario("Details payload is not valid JSON")
@pytest.mark.parametrize(
    ("reply", "fault"),
    [
        ("", f"printed nothing: {EXPECTED}"),
        (" \n", f"printed nothing: {EXPECTED}"),
        ("looks good", f"did not print one JSON object: {EXPECTED}; it printed: looks good"),
        ("[1]", f"did not print one JSON object: {EXPECTED}; it printed: [1]"),
        ('{"score": NaN}', f'printed NaN, {NO_CONSTANT}; it printed: {{"score": NaN}}'),
        (
            f'{{"score": 1, "details": {{"a": "{"x" * 300}", "mean": -Infinity}}}}',
            f'printed -Infinity, {NO_CONSTANT}; it printed: {{"score": 1, "details": {{"a": "{"x" * 169}…',
        ),
        ("[NaN]", f"did not print one JSON object: {EXPECTED}; it printed: [NaN]"),
        ('{"a": NaN', f'did not print one JSON object: {EXPECTED}; it printed: {{"a": NaN'),
        ("log\n{}", f"did not print one JSON object: {EXPECTED}; it printed: log\n{{}}"),
        ("x" * 300, f"did not print one JSON object: {EXPECTED}; it printed: {'x' * 200}…"),
        ('{"passed": true}', f'printed no `score`: {EXPECTED}; it printed: {{"passed": true}}'),
        ('{"score": "high"}', 'printed a `score` that is no number: "high"; print one from 0 to 1'),
        ('{"score": true}', "printed a `score` that is no number: true; print one from 0 to 1"),
        ('{"score": null}', "printed a `score` that is no number: null; print one from 0 to 1"),
    ],
)
def test_a_reply_that_is_no_result_scores_0_and_says_what_to_print(reply, fault):
    message = f"Code evaluator {fault}"
    assert parse_judgement(reply) == no_result(message, reply)


def test_a_long_wrong_reply_is_kept_in_part():
    assert parse_judgement("x" * 20_000).raw_output == "x" * 10_000 + "\n[cut: the first 10000 of 20000 characters]"
    assert cut("x" * 10_000) == "x" * 10_000


@given(st.text() | st.recursive(st.floats(), lambda inner: st.dictionaries(st.text(), inner)).map(json.dumps))
def test_any_reply_can_be_read(reply):
    assert 0 <= build_result(CodeJudge(script="x"), parse_judgement(reply)).score <= 1


@pytest.mark.parametrize(
    ("printed", "score", "shown"), [("1.7", 1.0, "1.7"), ("-2", 0.0, "-2"), ("1" + "0" * 400, 1.0, "too large to show")]
)
def test_a_score_outside_0_to_1_is_clamped_with_a_warning(printed, score, shown):
    result = build_result(CodeJudge(script="x"), parse_judgement(f'{{"score": {printed}}}'))
    assert (result.score, result.error) == (score, None)
    assert result.warnings == (f"the score {shown} is outside 0 to 1 and counts as {score:g}",)


@pytest.mark.parametrize("printed", ["0", "1", "0.5", "1.0000000001", "-1e-12"])
def test_a_score_that_is_rounded_needs_no_warning(printed):
    result = build_result(CodeJudge(script="x"), parse_judgement(f'{{"score": {printed}}}'))
    assert result.warnings is None
    assert 0 <= result.score <= 1


FRAME = '  File "/p/judge.py", line 3, in <module>'


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (f"Traceback (most recent call last):\n{FRAME}\nKeyError: 'price'", True),
        (f"[standard error, the last 2000 of 3000 characters]\n{FRAME}\nKeyError: 'price'", True),
        ("Evaluation failed: no price", True),
        ("TypeError: x is undefined\n    at file:///p/judge.mjs:1:1", True),
        ("SyntaxError: Unexpected token 'h', \"hello\" is not valid JSON\n    at JSON.parse (<anonymous>)", True),
        (f"{FRAME}\nSyntaxError: invalid syntax", False),
        (f"Traceback (most recent call last):\n{FRAME}\nModuleNotFoundError: No module named 'x'", False),
        ("Evaluation failed: scoer is not defined", False),
        ("Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'x'\n    at packageResolve (node:internal)", False),
        ("Error: ENOENT: no such file or directory, open 'x'\n    at Object.openSync (node:fs:573:18)", False),
        ("/usr/bin/python: No module named no_such", False),
        ("bash: -c: line 1: syntax error near unexpected token `then'", False),
        ("usage: judge.py [-h]\njudge.py: error: unrecognized arguments: --x", False),
        ("node: bad option: --x", False),
        ("it wrote nothing on standard error", False),
    ],
)
def test_what_a_script_wrote_tells_in_a_dry_run_whether_it_only_cannot_read_the_answer(said: str, expected: bool):
    assert is_of_mock(ScriptFailedError(f"Code evaluator exited with code 1: {said}", said, None)) is expected
