"""What a results file holds, in both formats."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_agentv.files.source import build_yaml
from pytest_agentv.model.messages import ExecutionMetrics, TraceEvent, TraceSummary
from pytest_agentv.model.options import OutputFormat
from pytest_agentv.model.results import EvalResult, EvaluatorResult
from pytest_agentv.model.secrets import Masker
from pytest_agentv.store.writers import ResultSink
from pytest_agentv.store.yaml_documents import yaml_document


def result(**changes: Any) -> EvalResult:
    plain = EvalResult(
        timestamp="2026-11-20T13:11:09.075Z",
        eval_id="c2",
        dataset="d",
        score=1.0,
        hits=("Duration 1234ms <= 2000ms threshold",),
        misses=(),
        candidate_answer='{"finalAnswer":42}',
        target="agent",
    )
    return plain.replace(**changes)


def written(tmp_path: Path, *results: EvalResult, output_format: OutputFormat = "jsonl", secret: str = "") -> str:
    path = tmp_path / f"run.{output_format}"
    sink = ResultSink(path, output_format, Masker([secret]))
    for each in results:
        sink.write(each)
    sink.close()
    return path.read_bytes().decode()


TEXTS = st.text(
    st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from("\n\n  \t-#:'\"|>…\r\x85\u2028\ufeff😀"))
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)


@settings(deadline=None)  # a busy machine is no failure
@given(st.dictionaries(TEXTS, VALUES, min_size=1, max_size=4))
def test_yaml_documents_hold_every_value_unchanged(record: dict[str, Any]) -> None:
    document = yaml_document(record)
    assert build_yaml(Path("x"), document, 0)[0] == record
    assert not any(line.startswith("---") for line in document.split("\n")[1:])


@pytest.mark.parametrize("text", ["1e3", "0o17", "yes", "2025-01-15", "12:30", "null", "~", "1_000", "", "- x", "<<"])
def test_texts_that_look_like_something_else_are_texts_for_yaml_1_1_and_1_2(text: str) -> None:
    document = yaml_document({text: text})
    assert yaml.safe_load(document) == {text: text}
    assert build_yaml(Path("x"), document, 0)[0] == {text: text}


@pytest.mark.parametrize("output_format", ["jsonl", "yaml"])
def test_secrets_are_masked_before_they_are_escaped(tmp_path: Path, output_format: OutputFormat) -> None:
    secret = 'se"cr\\et\nkey'
    leaky = result(
        candidate_answer=f"the key is {secret}!",
        evaluator_results=(EvaluatorResult("x", "code_judge", 0, 1, "fail", details={secret: [secret]}),),
    )
    text = written(tmp_path, leaky, output_format=output_format, secret=secret)
    record = yaml.safe_load(text)
    assert record["candidate_answer"] == "the key is ***!"
    assert record["evaluator_results"][0]["details"] == {"***": ["***"]}


@pytest.mark.parametrize("output_format", ["jsonl", "yaml"])
def test_odd_values_do_not_cost_the_record(tmp_path: Path, output_format: OutputFormat) -> None:
    odd = result(
        candidate_answer="half \ud83d pair",
        lm_provider_request={"nan": float("nan"), "path": Path("/x"), 1: True, None: {2}, ("a", 1): float("inf")},
    )
    record = yaml.safe_load(written(tmp_path, odd, output_format=output_format, secret="unrelated"))
    assert record["candidate_answer"] == "half \ufffd pair"
    assert record["lm_provider_request"] == {"nan": None, "path": "/x", "1": True, "null": [2], '["a",1]': None}


def test_names_of_cases_targets_evaluators_and_tools_are_never_masked(tmp_path: Path) -> None:
    name = "sk-name-1"
    identity = dict.fromkeys(
        ("eval_id", "dataset", "conversation_id", "target", "node_id", "run_id", "eval_file"), name
    )
    inner = EvaluatorResult(name, "heuristic", 1, 1, "pass", hits=(name,))
    named = result(
        **identity,
        evaluator_results=(EvaluatorResult(name, "composite", 1, 1, "pass", evaluator_results=(inner,)),),
        trace=(TraceEvent("tool_call", name=name, input={"key": name}),),
        trace_summary=TraceSummary(1, (name,), {name: 1}, 0),
        execution_metrics=ExecutionMetrics(tool_durations={name: (1.0,)}),
        candidate_answer=name,
    )
    record = json.loads(written(tmp_path, named, secret=name))
    assert {key: record[key] for key in identity} == identity
    outer = record["evaluator_results"][0]
    assert (outer["name"], outer["evaluator_results"][0]["name"]) == (name, name)
    assert (record["trace"][0]["name"], record["trace_summary"]["tool_names"]) == (name, [name])
    assert (record["trace_summary"]["tool_calls_by_name"], record["execution_metrics"]) == (
        {name: 1},
        {"tool_durations": {name: [1]}},
    )
    masked = (record["candidate_answer"], outer["evaluator_results"][0]["hits"], record["trace"][0]["input"])
    assert masked == ("***", ["***"], {"key": "***"})


@pytest.mark.parametrize("text", ["\t\n", "\tindented\nlines\n", "\t", "\n\tx\n", " \n\tx\n"])
def test_a_text_that_starts_with_a_tab_can_be_read_again(text):
    document = yaml_document({"text": text, "deep": {"texts": [text]}})
    assert build_yaml(Path("x"), document, 0)[0] == {"text": text, "deep": {"texts": [text]}}


@pytest.mark.parametrize("secret", ["", "a-secret-of-24-characters"])
def test_a_result_that_cannot_be_written_is_an_error_with_what_was_paid_for_and_costs_no_other(
    tmp_path: Path, secret: str
) -> None:
    loop: dict[str, Any] = {}
    loop["self"] = loop
    sink = ResultSink(tmp_path / "run.jsonl", "jsonl", Masker([secret]))
    cost = ExecutionMetrics(cost_usd=0.25)
    found = sink.write(result(), result(eval_id="odd", lm_provider_request=loop, execution_metrics=cost), result())
    sink.close()
    lines = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text().splitlines()]
    assert [(line["eval_id"], line["status"]) for line in lines] == [("c2", "pass"), ("odd", "error"), ("c2", "pass")]
    assert [each.status for each in found] == ["pass", "error", "pass"], "items end as their records say"
    assert lines[1]["error"].startswith("the result cannot be recorded: RecursionError: ")
    assert lines[1]["execution_metrics"] == {"cost_usd": 0.25}
    assert (lines[1]["candidate_answer"], lines[1].get("lm_provider_request")) == ('{"finalAnswer":42}', None)
