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
from pytest_agentv.evaluators.run import ScriptFailedError, build_result, is_of_mock
from pytest_agentv.evaluators.script import CodeJudge, cut, parse_judgement, show_script
from pytest_agentv.model.base import pretty_json
from pytest_agentv.model.cases import EvalCase
from pytest_agentv.model.messages import Message, ToolCall
from pytest_agentv.model.results import Score

EXPECTED = (
    'print exactly one JSON object such as {"score": 0.5, "hits": [], "misses": [], "reasoning": ""} '
    "on standard output, and everything else on standard error"
)


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


@pytest.mark.parametrize(
    ("given", "found"),
    [
        *(({key: [{key: key}]}, {snake: [{snake: key}]}) for key, snake in (("docId", "doc_id"), ("aBC", "a_b_c"))),
        *(({key: [{key: key}]}, {key: [{key: key}]}) for key in ("Query", "snake_case", "URL", "")),
        ({"a": float("nan"), "b": [float("inf"), 1.5]}, {"a": None, "b": [None, 1.5]}),
    ],
)
def test_keys_become_snake_case_at_every_depth_and_what_json_cannot_write_null(given, found):
    assert snake_case_keys(given) == found


def test_what_an_answer_and_its_calls_hold_has_snake_case_keys_and_texts_stay():
    call = ToolCall("knowledgeSearch", {"docId": "x", "Query": 1}, duration_ms=5.0)
    case = case_of(reference_answer='{"invoiceNumber":1}')
    messages = (Message("assistant", {"finalAnswer": 42}, (call,)),)
    payload = build_payload(context_of(case=case, output_messages=messages), {"camelKey": {"innerKey": 1}})
    told = {"tool": "knowledgeSearch", "input": {"doc_id": "x", "Query": 1}, "duration_ms": 5}
    assert payload["output_messages"] == [{"role": "assistant", "content": {"final_answer": 42}, "tool_calls": [told]}]
    assert payload["config"] == {"camel_key": {"inner_key": 1}}
    assert payload["reference_answer"] == '{"invoiceNumber":1}'


# --- running scripts


@pytest.mark.parametrize("answer", ["x" * 1_000_000, "größe \ud800"])
@pytest.mark.parametrize("ending", ["\\r\\n", "\\n\\n"])
def test_a_script_need_not_read_its_input_and_blanks_around_its_reply_do_no_harm(tmp_path, answer, ending):
    code = f"print('\\ufeff {{\"score\": 1}}', end='{ending}')"
    assert judge(tmp_path, code, context_of(candidate_answer=answer), PYTHONUTF8="1").value == 1


def test_a_script_gets_its_own_keys_and_the_shared_ones_that_its_author_wrote(tmp_path):
    code = "import json, sys; print(json.dumps({'score': 1, 'reasoning': json.dumps(json.load(sys.stdin)['config'])}))"
    for keys, config in (({"limit": 3, "required": True}, {"limit": 3, "required": True}), ({"weight": 2.0}, None)):
        score = run(CodeJudge(script=(sys.executable, "-c", code), cwd=str(tmp_path), **keys))
        assert json.loads(score.reasoning) == config


def test_a_script_that_cannot_be_started_is_an_error(tmp_path):
    config = CodeJudge(script=("no-such-judge", "--fast mode"), cwd=str(tmp_path))
    with pytest.raises(EvaluatorError) as caught:
        run(config)
    assert str(caught.value) == (
        f"Code evaluator could not be started (script: no-such-judge '--fast mode', cwd: {tmp_path}): "
        "cannot run 'no-such-judge': no such program, neither as a path nor on PATH"
    )
    assert (caught.value.kind, caught.value.output) == ("config", None)


SILENT = "it wrote nothing on standard error"
REFUSAL = pretty_json({"score": 0, "hits": [], "misses": ["no file"], "reasoning": "Evaluation failed: no file"})


@pytest.mark.parametrize(
    ("code", "kind", "ended", "reason"),
    [
        ("raise SystemExit(3)", "process", "exited with code 3", SILENT),
        (
            "import sys; sys.exit('x' * 3000 + 'the reason')",
            "process",
            "exited with code 1",
            "[standard error, the last 2000 of 3010 characters]\n" + "x" * 1990 + "the reason",
        ),
        (f"print({REFUSAL!r}); raise SystemExit(1)", "process", "exited with code 1", "Evaluation failed: no file"),
        ("import time; time.sleep(60)", "timeout", "timed out after 0.2 s", SILENT),
        ("import os; os.kill(os.getpid(), 9)", "process", "was killed by SIGKILL", SILENT),
        ("while True: print('x' * 1000)", "process", "was stopped because it printed too much", ""),
    ],
)
def test_a_script_that_ends_badly_is_an_error_that_says_how(tmp_path, code, kind, ended, reason):
    limit = 0.2 if kind == "timeout" else 30
    error = failure(tmp_path, code, timeout_seconds=limit)
    assert str(error).startswith(f"Code evaluator {ended} (script: {sys.executable} judge.py): {reason}")
    assert (error.kind, len(error.output or "") < 11_000) == (kind, True)


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


@pytest.mark.parametrize(
    ("reply", "fault"),
    [
        ("", f"printed nothing: {EXPECTED}"),
        (" \n", f"printed nothing: {EXPECTED}"),
        ("looks good", f"did not print one JSON object: {EXPECTED}; it printed: looks good"),
        ("[1]", f"did not print one JSON object: {EXPECTED}; it printed: [1]"),
        ('{"score": NaN}', f'did not print one JSON object: {EXPECTED}; it printed: {{"score": NaN}}'),
        ("[NaN]", f"did not print one JSON object: {EXPECTED}; it printed: [NaN]"),
        ('{"a": NaN', f'did not print one JSON object: {EXPECTED}; it printed: {{"a": NaN'),
        ("log\n{}", f"did not print one JSON object: {EXPECTED}; it printed: log\n{{}}"),
        ("x" * 300, f"did not print one JSON object: {EXPECTED}; it printed: {'x' * 200}…"),
        ('{"passed": true}', f'printed no `score`: {EXPECTED}; it printed: {{"passed": true}}'),
        ('{"score": "high"}', 'printed a `score` that is no number: "high"; print one from 0 to 1'),
        ('{"score": true}', "printed a `score` that is no number: true; print one from 0 to 1"),
        *(
            (
                json.dumps({"score": 1, "hits": ["h"], "details": details}),
                f"printed `details` that are no JSON object: {json.dumps(details)}; "
                'print a mapping such as {"reason": "…"}, or leave them out',
            )
            for details in ("oops", [1], 5, "[1]")
        ),
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
    ("printed", "score", "shown"),
    [
        *(("-2", 0.0, "-2"), ("1" + "0" * 400, 1.0, "too large to show")),
        *(("0", 0.0, None), ("0.5", 0.5, None), ("1.0000000001", 1.0, None), ("-1e-12", 0.0, None)),
    ],
)
def test_a_score_outside_0_to_1_is_clamped_with_a_warning_unless_it_is_rounded(printed, score, shown):
    result = build_result(CodeJudge(script="x"), parse_judgement(f'{{"score": {printed}}}'))
    assert (result.score, result.error) == (score, None)
    assert result.warnings == (shown and (f"the score {shown} is outside 0 to 1 and counts as {score:g}",))


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
