"""The SDK of Python judges: what they are given, how they answer, their client, and how fast they start."""

import asyncio
import io
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentv import sdk

MINIMAL = {
    "question": "q",
    "expected_outcome": "o",
    "candidate_answer": "a",
    "expected_messages": [],
    "guideline_files": [],
    "input_files": [],
    "input_messages": [],
}


def judged(monkeypatch, capsys, function: Any, payload: Any = MINIMAL) -> tuple[int, Any, str]:
    """Return the exit code of a judge, its reply, and what it wrote on standard error."""
    text = payload if isinstance(payload, str) else json.dumps(payload)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    code = 0
    try:
        sdk.run_judge(function)
    except SystemExit as error:
        code = int(error.code or 0)
    told = capsys.readouterr()
    return code, json.loads(told.out) if told.out else None, told.err


# --- judges


async def later(_: sdk.CodeJudgeInput) -> dict[str, Any]:
    await asyncio.sleep(0)
    return {"score": 0.25}


@pytest.mark.parametrize(
    ("function", "reply"),
    [
        (lambda case: {"score": 0.5}, {"score": 0.5}),
        (lambda case: {"score": 1.5, "hits": None, "more": 1}, {"score": 1.5}),
        (lambda case: sdk.Result(-2), {"score": -2}),
        (lambda case: sdk.Result(True, misses=["m"]), {"score": 1, "misses": ["m"]}),
        (
            lambda case: sdk.Result(1, reasoning="why", details={"aKey": [1]}),
            {"score": 1, "reasoning": "why", "details": {"aKey": [1]}},
        ),
        (lambda case: print("a note") or sdk.Result(1), {"score": 1}),
        (later, {"score": 0.25}),
    ],
)
def test_scores_are_told_as_they_are_and_lists_default_to_empty_ones(monkeypatch, capsys, function, reply):
    code, found, errors = judged(monkeypatch, capsys, function)
    assert (code, found) == (0, {"hits": [], "misses": [], **reply})
    assert errors in ("", "a note\n")


RESULT = 'expected a Result, or a mapping such as {"score": 0.5}'


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (None, f"the judge returned nothing: {RESULT}"),
        (0.5, f"the judge returned 0.5: {RESULT}"),
        ({}, "score: expected a number, got null"),
        ({"score": "1"}, 'score: expected a number, got "1"'),
        (sdk.Result(math.nan), "score: expected a number, got NaN"),
        (sdk.Result(-math.inf), "score: expected a finite number, got -Infinity"),
        (sdk.Result(1, hits="all"), 'hits: expected a list, got "all"'),
        (sdk.Result(1, misses=["a", 5]), "misses[1]: expected a text, got 5"),
        (sdk.Result(1, reasoning=["r"]), 'reasoning: expected a text, got ["r"]'),
        (sdk.Result(1, details=[1]), "details: expected a mapping, got [1]"),
        (sdk.Result(1, details={"x": {1}}), "details: Object of type set is not JSON serializable"),
        (sdk.Result(1, details={"mean": math.nan}), "details: Out of range float values are not JSON compliant: nan"),
    ],
)
def test_a_wrong_result_is_told_without_lines_of_this_package(monkeypatch, capsys, result, message):
    reply = {"score": 0, "hits": [], "misses": [message], "reasoning": f"Evaluation failed: {message}"}
    assert judged(monkeypatch, capsys, lambda case: result) == (1, reply, "")


def test_a_judge_that_raises_says_why_and_where(monkeypatch, capsys):
    code, reply, errors = judged(monkeypatch, capsys, lambda case: {}["x"])
    assert (code, reply["misses"]) == (1, ["KeyError: 'x'"])
    assert "test_sdk.py" in errors
    assert errors.endswith("KeyError: 'x'\n")


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
def test_a_payload_of_another_shape_is_a_failure_that_names_the_place(monkeypatch, capsys, payload, message):
    assert judged(monkeypatch, capsys, lambda case: sdk.Result(1), payload)[1]["misses"] == [message]


def test_a_judge_runs_as_a_script_and_not_when_it_is_imported(tmp_path):
    script = tmp_path / "my_judge.py"
    code = "from pytest_agentv.sdk import code_judge\n@code_judge\ndef judge(case):\n    raise SystemExit(3)\n"
    script.write_text(code, encoding="utf-8")
    finished = subprocess.run(
        [sys.executable, script], input=json.dumps(MINIMAL), capture_output=True, text=True, check=False
    )
    assert (finished.returncode, finished.stdout) == (3, ""), "an exit of the judge's own stays"
    subprocess.run([sys.executable, "-c", "import my_judge; assert my_judge.judge"], cwd=tmp_path, check=True)


def test_a_judge_starts_with_little_more_than_json():
    """Every case pays for a judge's start: no dataclasses (inspect), asyncio, http, logging, third parties."""
    root = Path(sdk.__file__).parents[1]
    code = "import sys; before = set(sys.modules); import pytest_agentv.sdk; print(*set(sys.modules) - before)"
    bare = [sys.executable, "-S", "-c", f"import sys; sys.path.append({str(root)!r}); {code}"]
    finished = subprocess.run(bare, capture_output=True, text=True, check=True)
    modules = {name.partition(".")[0].removeprefix("_") for name in finished.stdout.split()}
    light = {"abc", "codecs", "collections", "contextlib", "copyreg", "enum", "functools", "genericpath"}
    light |= {"io", "itertools", "json", "keyword", "operator", "os", "posixpath", "re", "reprlib", "sre", "stat"}
    light |= {"annotationlib", "pytest_agentv", "typing", "types", "warnings", "py_warnings", "collections_abc"}
    assert modules <= light


# --- the case


def test_what_is_not_known_is_none():
    case = sdk.read_input(MINIMAL)
    assert (case.output_messages, case.trace_summary, case.config, case.execution_metrics, case.trace) == (None,) * 5


@given(
    st.recursive(st.none() | st.text() | st.floats(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))
)
def test_any_data_is_read_or_refused_with_a_wire_error(data):
    for read in (sdk.read_input, sdk.build_reply):
        with pytest.raises(sdk.WireError):
            read(data)


@pytest.mark.parametrize(
    ("body", "message"), [('{"error": ""}', '{"error": ""}'), ("oops", "oops"), ("", "HTTP 502"), ("[1]", "[1]")]
)
def test_a_response_without_a_reason_raises_its_body_or_its_status(monkeypatch, body, message):
    client = sdk.TargetClient("http://127.0.0.1:1", "t")
    monkeypatch.setattr(client, "_exchange", lambda *_: (502, body))
    with pytest.raises(sdk.TargetInvocationError) as caught:
        client.get_info()
    assert (str(caught.value), caught.value.status_code) == (message, 502)


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
