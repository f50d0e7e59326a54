"""What a results file holds, in both formats."""

import json
import threading
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_agentv.files.source import build_yaml, yaml_document
from pytest_agentv.model.base import compact_json
from pytest_agentv.model.messages import ExecutionMetrics, TokenUsage, TraceEvent, TraceSummary
from pytest_agentv.model.options import OutputFormat
from pytest_agentv.model.results import ErrorDetail, EvalResult, EvaluatorResult
from pytest_agentv.model.secrets import Masker
from pytest_agentv.store.writers import ResultSink, default_results_path, json_safe, result_text


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


@pytest.mark.scenario("JSONL includes trace_summary by default")
@pytest.mark.scenario("Default excludes full trace")
def test_a_success_line_is_that_of_agentv_with_our_keys_behind(tmp_path: Path) -> None:
    latency = EvaluatorResult(
        name="suite_lat",
        type="latency",
        score=1.0,
        weight=1.0,
        verdict="pass",
        hits=("Duration 1234ms <= 2000ms threshold",),
        reasoning="Execution took 1234ms (threshold: 2000ms)",
    )
    success = result(
        reasoning="suite_lat: Execution took 1234ms (threshold: 2000ms)",
        lm_provider_request={"question": "hi", "guidelines": ""},
        evaluator_results=(latency,),
        trace_summary=TraceSummary(
            event_count=1,
            tool_names=("knowledgeSearch",),
            tool_calls_by_name={"knowledgeSearch": 1},
            error_count=0,
            token_usage=TokenUsage(10, 5, 2),
            cost_usd=0.001,
            duration_ms=1234.0,
        ),
    )
    assert written(tmp_path, success) == (
        '{"timestamp":"2026-11-20T13:11:09.075Z","eval_id":"c2","dataset":"d","score":1,'
        '"hits":["Duration 1234ms <= 2000ms threshold"],"misses":[],"candidate_answer":"{\\"finalAnswer\\":42}",'
        '"target":"agent","reasoning":"suite_lat: Execution took 1234ms (threshold: 2000ms)",'
        '"lm_provider_request":{"question":"hi","guidelines":""},'
        '"evaluator_results":[{"name":"suite_lat","type":"latency","score":1,"weight":1,"verdict":"pass",'
        '"hits":["Duration 1234ms <= 2000ms threshold"],"misses":[],'
        '"reasoning":"Execution took 1234ms (threshold: 2000ms)"}],'
        '"trace_summary":{"event_count":1,"tool_names":["knowledgeSearch"],"tool_calls_by_name":{"knowledgeSearch":1},'
        '"error_count":0,"token_usage":{"input":10,"output":5,"cached":2},"cost_usd":0.001,"duration_ms":1234},'
        '"schema_version":1,"status":"pass","attempts":0}\n'
    )


@pytest.mark.scenario("No trace available")
def test_an_error_line_is_that_of_agentv_with_our_keys_behind(tmp_path: Path) -> None:
    broken = result(
        eval_id="b1",
        dataset="b",
        score=0.0,
        hits=(),
        misses=("Error: err (exit code 3)",),
        candidate_answer="Error occurred: err (exit code 3)",
        target="bad",
        lm_provider_request={
            "question": "hi",
            "guidelines": "",
            "guideline_paths": [],
            "error": "err (exit code 3)",
        },
        error="err (exit code 3)",
        error_detail=ErrorDetail("provider", "process"),
        status="error",
        attempts=1,
    )
    assert written(tmp_path, broken) == (
        '{"timestamp":"2026-11-20T13:11:09.075Z","eval_id":"b1","dataset":"b","score":0,"hits":[],'
        '"misses":["Error: err (exit code 3)"],"candidate_answer":"Error occurred: err (exit code 3)","target":"bad",'
        '"lm_provider_request":{"question":"hi","guidelines":"","guideline_paths":[],"error":"err (exit code 3)"},'
        '"error":"err (exit code 3)","error_detail":{"stage":"provider","kind":"process"},'
        '"schema_version":1,"status":"error","attempts":1}\n'
    )


@pytest.mark.scenario("Include full trace in results")
def test_a_full_trace_stands_beside_its_summary(tmp_path: Path) -> None:
    traced = result(
        trace=(TraceEvent("tool_call", name="docSearch", input={"docId": 1}),),
        trace_summary=TraceSummary(1, ("docSearch",), {"docSearch": 1}, 0),
    )
    line = json.loads(written(tmp_path, traced))
    assert line["trace"] == [{"type": "tool_call", "name": "docSearch", "input": {"docId": 1}}]
    assert line["trace_summary"]["tool_calls_by_name"] == {"docSearch": 1}


@pytest.mark.scenario("JSONL output")
@pytest.mark.scenario("JSONL format validation")
@pytest.mark.scenario("Incremental JSONL writing")
def test_each_result_is_a_line_of_json_the_moment_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    sink = ResultSink(path, "jsonl", Masker())
    for count in (1, 2, 3):
        sink.write(result(eval_id=f"c{count}", candidate_answer="two\nlines, \u2028, é and 😀"))
        lines = path.read_text().split("\n")
        assert [json.loads(line)["eval_id"] for line in lines[:-1]] == [f"c{number + 1}" for number in range(count)]
        assert lines[-1] == ""
    sink.close()
    assert "é and 😀" in path.read_text()


def test_several_results_are_appended_together(tmp_path: Path) -> None:
    sink = ResultSink(tmp_path / "run.jsonl", "jsonl", Masker())
    sink.write(result(eval_id="a"), result(eval_id="b"))
    sink.close()
    assert [json.loads(line)["eval_id"] for line in (tmp_path / "run.jsonl").read_text().splitlines()] == ["a", "b"]


def test_threads_share_a_sink(tmp_path: Path) -> None:
    sink = ResultSink(tmp_path / "run.jsonl", "jsonl", Masker())
    threads = [threading.Thread(target=sink.write, args=(result(eval_id=f"c{number}"),)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sink.close()
    ids = [json.loads(line)["eval_id"] for line in (tmp_path / "run.jsonl").read_text().splitlines()]
    assert sorted(ids) == [f"c{number}" for number in range(8)]


@pytest.mark.scenario("YAML output")
def test_each_result_is_a_yaml_document_with_readable_texts(tmp_path: Path) -> None:
    answer = "Dear Ann,\n\n\tindented code  \n  and an emoji 😀\n"
    text = written(
        tmp_path, result(candidate_answer=answer), result(eval_id="c3", hits=("x\ny",)), output_format="yaml"
    )
    assert text == (
        "---\n"
        "timestamp: '2026-11-20T13:11:09.075Z'\n"
        "eval_id: c2\n"
        "dataset: d\n"
        "score: 1\n"
        "hits:\n"
        "  - Duration 1234ms <= 2000ms threshold\n"
        "misses: []\n"
        "candidate_answer: |\n"
        "  Dear Ann,\n"
        "\n"
        "  \tindented code  \n"
        "    and an emoji 😀\n"
        "target: agent\n"
        "schema_version: 1\n"
        "status: pass\n"
        "attempts: 0\n"
        "---\n"
        "timestamp: '2026-11-20T13:11:09.075Z'\n"
        "eval_id: c3\n"
        "dataset: d\n"
        "score: 1\n"
        "hits:\n"
        "  - |-\n"
        "    x\n"
        "    y\n"
        "misses: []\n"
        "candidate_answer: '{\"finalAnswer\":42}'\n"
        "target: agent\n"
        "schema_version: 1\n"
        "status: pass\n"
        "attempts: 0\n"
    )
    assert [document["eval_id"] for document in yaml.safe_load_all(text)] == ["c2", "c3"]


def test_long_lines_are_not_wrapped(tmp_path: Path) -> None:
    line = "word " * 100 + "end"
    assert f"candidate_answer: {line}\n" in written(tmp_path, result(candidate_answer=line), output_format="yaml")


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


def test_a_secret_that_is_the_name_of_a_key_does_not_break_the_record(tmp_path: Path) -> None:
    record = json.loads(written(tmp_path, result(candidate_answer="dataset"), secret="dataset"))
    assert record["dataset"] == "d"
    assert record["candidate_answer"] == "***"


@pytest.mark.parametrize("output_format", ["jsonl", "yaml"])
def test_odd_values_do_not_cost_the_record(tmp_path: Path, output_format: OutputFormat) -> None:
    odd = result(
        candidate_answer="half \ud83d pair",
        lm_provider_request={"nan": float("nan"), "path": Path("/x"), 1: True, None: {2}, ("a", 1): float("inf")},
    )
    record = yaml.safe_load(written(tmp_path, odd, output_format=output_format, secret="unrelated"))
    assert record["candidate_answer"] == "half \ufffd pair"
    assert record["lm_provider_request"] == {"nan": None, "path": "/x", "1": True, "null": [2], '["a",1]': None}


_ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.just(Path("/x")),
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner)
        | st.frozensets(st.integers())
        | st.dictionaries(st.text(st.characters()) | st.integers() | st.floats() | st.booleans() | st.none(), inner)
    ),
)


@given(_ODD)
def test_the_text_of_any_value_is_that_of_its_plain_data(value: Any) -> None:
    assert result_text({"value": value}, "jsonl") == f"{compact_json(json_safe({'value': value}))}\n"


@pytest.mark.parametrize(
    "value", [{2.0: 1.0, 0.5: 2}, {float("nan"): 1}, {"\ud83d": "\ud83d"}, {1, 2}, Path("/x"), -0.0]
)
def test_the_text_of_an_odd_value_is_that_of_its_plain_data(value: Any) -> None:
    assert result_text({"value": value}, "jsonl") == f"{compact_json(json_safe({'value': value}))}\n"


def test_subclasses_of_plain_types_become_plain() -> None:
    class Text(str):
        __slots__ = ()

    class Number(float):
        pass

    assert [type(json_safe(value)) for value in (Text("x"), Number(0.5))] == [str, float]


def test_a_sink_that_writes_nothing_leaves_no_file(tmp_path: Path) -> None:
    ResultSink(tmp_path / "run.jsonl", "jsonl", Masker()).close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.scenario("Default output location and format")
@pytest.mark.parametrize("output_format", ["jsonl", "yaml"])
def test_the_default_path_is_named_after_the_start_in_utc(output_format: OutputFormat) -> None:
    started = datetime(2026, 11, 20, 14, 12, 38, 332_999, tzinfo=timezone(timedelta(hours=1)))
    expected = Path(f"/project/.agentv/results/eval_2026-11-20T13-12-38-332Z.{output_format}")
    assert default_results_path(Path("/project"), started, output_format) == expected
    assert default_results_path(Path("/project"), started.astimezone(UTC), output_format) == expected


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


def test_what_cannot_be_the_name_of_a_tool_is_masked_like_any_text(tmp_path: Path) -> None:
    leaky = result(trace_summary=TraceSummary(1, ("the key: sk-name-1",), {"the key: sk-name-1": 1}, 0))
    assert "sk-name-1" not in written(tmp_path, leaky, secret="sk-name-1")


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
