"""The SDK of Python judges: what they are given, how they answer, their client, and how fast they start."""

import asyncio
import errno
import json
import math
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from thorough import varied

from pytest_agentv import sdk
from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.errors import ProviderError
from pytest_agentv.evaluators.context import Context, ProxiedQuestion, build_payload
from pytest_agentv.evaluators.script import parse_judgement
from pytest_agentv.evaluators.target_proxy import TargetProxy
from pytest_agentv.model import messages
from pytest_agentv.model.cases import EvalCase
from pytest_agentv.providers.base import ProviderResponse
from pytest_agentv.sdk.judge import build_reply, read_input

MINIMAL = {
    "question": "q",
    "expected_outcome": "o",
    "candidate_answer": "a",
    "expected_messages": [],
    "guideline_files": [],
    "input_files": [],
    "input_messages": [],
}


def run_judge(
    tmp_path: Path, code: str, payload: Any = MINIMAL, **variables: str
) -> "subprocess.CompletedProcess[str]":
    script = tmp_path / "judge.py"
    script.write_text("from pytest_agentv.sdk import *\n" + code, encoding="utf-8")
    text = payload if isinstance(payload, str) else json.dumps(payload)
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    environment = {**kept, **variables}
    return subprocess.run(
        [sys.executable, script], input=text, capture_output=True, text=True, env=environment, check=False
    )


def reply_of(tmp_path: Path, code: str, payload: Any = MINIMAL, **variables: str) -> Any:
    finished = run_judge(tmp_path, code, payload, **variables)
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)


def failure_of(tmp_path: Path, code: str, payload: Any = MINIMAL) -> str:
    """Return the message of a judge that fails in the way that AgentV's SDK does."""
    finished = run_judge(tmp_path, code, payload)
    assert finished.returncode == 1
    reply = json.loads(finished.stdout)
    [message] = reply["misses"]
    assert reply == {"score": 0, "hits": [], "misses": [message], "reasoning": f"Evaluation failed: {message}"}
    return message


# --- judges


def test_a_judge_reads_the_case_and_prints_its_result(tmp_path):
    code = """
@code_judge
def judge(case):
    found = case.expected_outcome in case.candidate_answer
    return Result(1.0 if found else 0.0, hits=["größe"], misses=(), reasoning="why", details={"camelKey": [1]})
"""
    payload = {**MINIMAL, "expected_outcome": "yes", "candidate_answer": "yes, ü \ud800"}
    finished = run_judge(tmp_path, code, payload)
    assert finished.stdout == (
        '{\n  "score": 1,\n  "hits": [\n    "gr\\u00f6\\u00dfe"\n  ],\n  "misses": [],\n  "reasoning": "why",\n'
        '  "details": {\n    "camelKey": [\n      1\n    ]\n  }\n}\n'
    )
    score = parse_judgement(finished.stdout)
    assert (score.value, score.hits, score.reasoning, score.details) == (1, ("größe",), "why", {"camelKey": [1]})


@pytest.mark.parametrize(
    ("result", "reply"),
    [
        ('{"score": 0.5}', {"score": 0.5, "hits": [], "misses": []}),
        ('{"score": 1.5, "hits": None, "more": 1}', {"score": 1.5, "hits": [], "misses": []}),
        ("Result(-2)", {"score": -2, "hits": [], "misses": []}),
        ("Result(True, misses=['m'])", {"score": 1, "hits": [], "misses": ["m"]}),
    ],
)
def test_scores_are_told_as_they_are_and_lists_default_to_empty_ones(tmp_path, result, reply):
    assert reply_of(tmp_path, f"code_judge(lambda case: {result})") == reply


def test_a_judge_may_be_async(tmp_path):
    code = """
import asyncio

@code_judge
async def judge(case):
    await asyncio.sleep(0)
    return {"score": 0.25}
"""
    assert reply_of(tmp_path, code)["score"] == 0.25


def test_what_a_judge_prints_goes_to_standard_error(tmp_path):
    finished = run_judge(tmp_path, "@code_judge\ndef judge(case):\n    print('a note')\n    return Result(1)")
    assert json.loads(finished.stdout)["score"] == 1
    assert finished.stderr == "a note\n"


@pytest.mark.scenario("Details payload is not valid JSON")
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("raise ValueError('no file')", "ValueError: no file"),
        varied("{}['x']", "KeyError: 'x'"),
        ("pass", 'the judge returned nothing: expected a Result, or a mapping such as {"score": 0.5}'),
        varied("return 0.5", 'the judge returned 0.5: expected a Result, or a mapping such as {"score": 0.5}'),
        ("return {}", "score: expected a number, got null"),
        ("return {'score': '1'}", 'score: expected a number, got "1"'),
        varied("return Result(float('nan'))", "score: expected a number, got NaN"),
        varied("return Result(1, hits='all')", 'hits: expected a list, got "all"'),
        ("return Result(1, misses=['a', 5])", "misses[1]: expected a text, got 5"),
        varied("return Result(1, reasoning=['r'])", 'reasoning: expected a text, got ["r"]'),
        varied("return Result(1, details=[1])", "details: expected a mapping, got [1]"),
        ("return Result(1, details={'x': {1}})", "details: Object of type set is not JSON serializable"),
        (
            "return Result(1, details={'mean': float('nan')})",
            "details: Out of range float values are not JSON compliant: nan",
        ),
    ],
)
def test_a_judge_that_fails_prints_why_and_exits_with_1(tmp_path, body, message):
    assert failure_of(tmp_path, f"@code_judge\ndef judge(case):\n    {body}") == message


def test_a_failure_has_its_traceback_on_standard_error(tmp_path):
    finished = run_judge(tmp_path, "@code_judge\ndef judge(case):\n    raise ValueError('no file')")
    assert "judge.py" in finished.stderr
    assert finished.stderr.endswith("ValueError: no file\n")


@pytest.mark.parametrize("body", ["return 0.5", "return {'scor': 1}", "pass", "return Result(1, details={'x': {1}})"])
def test_a_wrong_result_is_told_without_lines_of_this_package(tmp_path, body):
    finished = run_judge(tmp_path, f"@code_judge\ndef judge(case):\n    {body}")
    assert (finished.returncode, finished.stderr) == (1, "")


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ("", "standard input is not valid JSON: Expecting value: line 1 column 1 (char 0)"),
        ([], "the data: expected a mapping, got []"),
        ({}, "question: expected a text, got null"),
        ({**MINIMAL, "input_files": [5]}, "input_files[0]: expected a text, got 5"),
        ({**MINIMAL, "config": 5}, "config: expected a mapping, got 5"),
        ({**MINIMAL, "input_messages": [{"role": 5}]}, "input_messages[0].role: expected a text, got 5"),
        (
            {**MINIMAL, "output_messages": [{"role": "a", "tool_calls": [{"tool": "t"}, {"tool": "x" * 80}, {}]}]},
            "output_messages[0].tool_calls[2].tool: expected a text, got null",
        ),
        ({**MINIMAL, "question": ["x" * 80]}, f'question: expected a text, got ["{"x" * 58}…'),
    ],
)
def test_a_payload_of_another_shape_is_a_failure_that_names_the_place(tmp_path, payload, message):
    assert failure_of(tmp_path, "code_judge(lambda case: Result(1))", payload) == message


def test_an_exit_of_the_judges_own_stays(tmp_path):
    finished = run_judge(tmp_path, "@code_judge\ndef judge(case):\n    raise SystemExit(3)")
    assert (finished.returncode, finished.stdout) == (3, "")


def test_an_imported_judge_does_not_run(tmp_path, monkeypatch):
    (tmp_path / "my_judge.py").write_text(
        "from pytest_agentv.sdk import code_judge\n@code_judge\ndef judge(case):\n    return {'score': len(case)}\n"
    )
    code = "import my_judge; assert my_judge.judge('four') == {'score': 4}; print('[]')"
    finished = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert finished.stdout == "[]\n"


def test_a_judge_starts_with_little_more_than_json():
    """Every case pays for a judge's start: no dataclasses (inspect), asyncio, http, logging, third parties."""
    root = Path(sdk.__file__).parents[2]
    code = "import sys; before = set(sys.modules); import pytest_agentv.sdk; print(*set(sys.modules) - before)"
    bare = [sys.executable, "-S", "-c", f"import sys; sys.path.append({str(root)!r}); {code}"]
    finished = subprocess.run(bare, capture_output=True, text=True, check=True)
    modules = {name.partition(".")[0].removeprefix("_") for name in finished.stdout.split()}
    light = {"abc", "codecs", "collections", "contextlib", "copyreg", "enum", "functools", "genericpath"}
    light |= {"io", "itertools", "json", "keyword", "operator", "os", "posixpath", "re", "reprlib", "sre", "stat"}
    light |= {"annotationlib", "pytest_agentv", "typing", "types", "warnings", "py_warnings", "collections_abc"}
    assert modules <= light


# --- the case


def test_the_case_that_a_run_writes_is_read_whole():
    usage = messages.TokenUsage(10, 5, 1)
    call = messages.ToolCall("knowledgeSearch", {"docId": "x"}, [1], "id", "now", 5.0)
    case = EvalCase(
        *("c", "d", "/e.yaml", 1, "outcome", "question", ()),
        input_messages=({"role": "user", "content": [{"type": "text", "value": "v"}]},),
        expected_messages=({"role": "assistant", "content": {"a": 1}},),
        reference_answer="ideal",
        guideline_paths=("/g.md",),
        file_paths=("/g.md", "/a.py"),
    )
    context = Context(
        case,
        Prompt("q"),
        "answer",
        output_messages=(messages.Message("assistant", None, (call,), "n", "now", {"k": 1}), messages.Message("tool")),
        trace=(messages.TraceEvent("tool_call", name="t", input=1, output=2, text="x", metadata={"m": 1}),),
        trace_summary=messages.TraceSummary(1, ("knowledgeSearch",), {"knowledgeSearch": 1}, 0, usage, 0.1, 12),
        metrics=messages.ExecutionMetrics(usage, 0.1, 12, {"knowledgeSearch": (5.0,)}, 0.5, 5),
    )
    payload = json.loads(json.dumps(build_payload(context, {"maxWords": 3})))
    assert read_input(payload) == sdk.CodeJudgeInput(
        question="question",
        expected_outcome="outcome",
        candidate_answer="answer",
        expected_messages=(sdk.Message("assistant", {"a": 1}),),
        reference_answer="ideal",
        output_messages=(
            sdk.Message(
                *("assistant", None, (sdk.ToolCall("knowledgeSearch", {"doc_id": "x"}, [1], "id", "now", 5),)),
                *("n", "now", {"k": 1}),
            ),
            sdk.Message("tool"),
        ),
        guideline_files=("/g.md",),
        input_files=("/a.py",),
        input_messages=(sdk.Message("user", [{"type": "text", "value": "v"}]),),
        trace_summary=sdk.TraceSummary(
            1, ("knowledgeSearch",), {"knowledge_search": 1}, 0, sdk.TokenUsage(10, 5, 1), 0.1, 12
        ),
        config={"max_words": 3},
        execution_metrics=sdk.ExecutionMetrics(sdk.TokenUsage(10, 5, 1), 0.1, 12, {"knowledge_search": [5]}, 0.5, 5),
        trace=(sdk.TraceEvent("tool_call", name="t", input=1, output=2, text="x", metadata={"m": 1}),),
    )


def test_what_is_not_known_is_none():
    case = read_input(MINIMAL)
    assert (case.output_messages, case.trace_summary, case.config, case.execution_metrics, case.trace) == (None,) * 5


@given(
    st.recursive(st.none() | st.text() | st.floats(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))
)
def test_any_data_is_read_or_refused_with_a_wire_error(data):
    for read in (read_input, build_reply):
        with pytest.raises(sdk.WireError):
            read(data)


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers() | st.booleans())
def test_any_score_is_told_as_it_is_and_the_run_clamps_it(score):
    reply = json.dumps(build_reply({"score": score}))
    assert json.loads(reply)["score"] == score
    found = parse_judgement(reply)
    assert (found.error, found.value) == (None, score)


def test_a_score_without_bounds_is_refused():
    with pytest.raises(sdk.WireError, match="score: expected a finite number"):
        build_reply({"score": -math.inf})


# --- the client


class EchoTargets:
    default_name = "judge"
    names = ("main", "judge", "broken")

    def resolve(self, name: str) -> Any:
        async def ask(asked: ProxiedQuestion) -> ProviderResponse:
            if name == "broken":
                raise ProviderError("the model is down")
            shown = [asked.question, asked.system_prompt, asked.eval_id, asked.attempt]
            call = messages.ToolCall("search", {"docId": 1}, duration_ms=5.0)
            return ProviderResponse((messages.Message("assistant", f"{name} {shown}", (call,)),))

        return ask


@pytest.fixture
def client() -> Iterator[sdk.TargetClient]:
    """A client of a proxy with 3 calls."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    proxy = TargetProxy(EchoTargets(), 3)
    asyncio.run_coroutine_threadsafe(proxy.__aenter__(), loop).result(10)
    try:
        yield sdk.TargetClient(proxy.url, proxy.token)
    finally:
        asyncio.run_coroutine_threadsafe(proxy.__aexit__(None, None, None), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


@pytest.mark.scenario("SDK provides getInfo method")
def test_the_client_tells_targets_and_counts(client):
    client.invoke("q")
    assert client.get_info() == sdk.TargetInfo("judge", 3, 1, ("main", "judge", "broken"))


@pytest.mark.scenario("SDK invoke accepts optional target parameter")
def test_the_client_asks_the_target_that_is_named(client):
    response = client.invoke("größe", system_prompt="s", eval_case_id="case", attempt=0, target="main")
    text = "main ['größe', 's', 'case', 0]"
    message = sdk.Message("assistant", text, (sdk.ToolCall("search", {"docId": 1}, duration_ms=5),))
    assert response == sdk.InvokeResponse((message,), text)
    assert client.invoke("q").raw_text == "judge ['q', None, 'proxy', 1]"


def test_the_client_asks_many_at_once(client):
    requests = [sdk.InvokeRequest("a"), {"question": "b", "target": "main"}, sdk.InvokeRequest("c", target="broken")]
    assert [response.raw_text for response in client.invoke_batch(requests)] == [
        "judge ['a', None, 'proxy', 1]",
        "main ['b', None, 'proxy', 1]",
        "Error: the model is down",
    ]


def test_a_call_that_fails_raises_the_proxys_reason_and_status(client):
    failures = [("x", 400), ("broken", 500)]
    for target, status in failures:
        with pytest.raises(sdk.TargetInvocationError) as caught:
            client.invoke("q", target=target)
        assert caught.value.status_code == status
    assert str(caught.value) == "the model is down"
    with pytest.raises(sdk.TargetInvocationError) as caught:
        client.invoke_batch([{"question": "q"}] * 3)
    assert (str(caught.value), caught.value.status_code) == (
        "Batch would exceed max calls (current: 1, batch: 3, limit: 3)",
        429,
    )


def test_a_wrong_token_raises(client):
    with pytest.raises(sdk.TargetInvocationError) as caught:
        sdk.TargetClient(client._url, "wrong").get_info()
    assert (str(caught.value), caught.value.status_code) == ("Unauthorized", 401)


@pytest.mark.parametrize(
    ("body", "message"), [('{"error": ""}', '{"error": ""}'), ("oops", "oops"), ("", "HTTP 502"), ("[1]", "[1]")]
)
def test_a_response_without_a_reason_raises_its_body_or_its_status(monkeypatch, body, message):
    client = sdk.TargetClient("http://127.0.0.1:1", "t")
    monkeypatch.setattr(client, "_exchange", lambda *_: (502, body))
    with pytest.raises(sdk.TargetInvocationError) as caught:
        client.get_info()
    assert (str(caught.value), caught.value.status_code) == (message, 502)


def test_a_proxy_that_is_gone_raises():
    with pytest.raises(sdk.TargetInvocationError) as caught:
        sdk.TargetClient("http://127.0.0.1:1", "t").get_info()
    reason = f"[Errno {errno.ECONNREFUSED}] Connection refused"
    message = f"the target proxy at http://127.0.0.1:1 cannot be reached: {reason}"
    assert (str(caught.value), caught.value.status_code) == (message, None)


def test_the_proxy_of_the_system_is_not_used(client, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert client.get_info().target_name == "judge"


def test_without_a_proxy_there_is_no_client(monkeypatch):
    monkeypatch.delenv("AGENTV_TARGET_PROXY_URL", raising=False)
    assert sdk.create_target_client() is None


def test_a_proxy_without_its_token_is_an_error(monkeypatch):
    monkeypatch.setenv("AGENTV_TARGET_PROXY_URL", "http://127.0.0.1:1")
    monkeypatch.delenv("AGENTV_TARGET_PROXY_TOKEN", raising=False)
    with pytest.raises(sdk.TargetNotAvailableError) as caught:
        sdk.create_target_client()
    assert str(caught.value) == (
        "AGENTV_TARGET_PROXY_URL is set, but AGENTV_TARGET_PROXY_TOKEN is not: expected both or neither"
    )


def test_every_name_that_is_offered_is_there():
    assert all(hasattr(sdk, name) for name in sdk.__all__)
    assert sdk.__all__ == sorted(sdk.__all__)
