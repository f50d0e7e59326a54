"""A result goes to JSON and back, whatever it holds."""

import dataclasses
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import tries

from pytest_agentv.errors import ErrorKind, ErrorStage
from pytest_agentv.model.messages import Costs, ExecutionMetrics, TokenUsage, TraceEvent, TraceSummary
from pytest_agentv.model.results import ErrorDetail, EvalResult, EvaluatorResult, Spent

REQUESTS = ("agent_provider_request", "lm_provider_request", "evaluator_provider_request")

texts = st.text(max_size=8)
numbers = st.floats(0, 1e9) | st.integers(0, 10**9)
user_data: Any = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda values: st.lists(values, max_size=2) | st.dictionaries(texts, values, max_size=2),
    max_leaves=4,
)
user_objects = st.dictionaries(texts, user_data, max_size=2)
text_tuples = st.lists(texts, max_size=2).map(tuple)
usages = st.builds(TokenUsage, numbers, numbers, st.none() | numbers)
evaluators = st.builds(
    EvaluatorResult,
    name=texts,
    type=texts,
    score=numbers,
    weight=st.none() | numbers,
    hits=text_tuples,
    misses=text_tuples,
    evaluator_results=st.none(),
    details=st.none() | user_objects,
    evaluator_provider_request=st.none() | user_objects,
)
summaries = st.builds(
    TraceSummary,
    event_count=st.integers(0, 9),
    tool_names=text_tuples,
    error_count=st.integers(0, 9),
    tool_calls_by_name=st.dictionaries(texts, st.integers(0, 9), max_size=2),
    token_usage=st.none() | usages,
)
metrics = st.builds(
    ExecutionMetrics,
    token_usage=st.none() | usages,
    tool_durations=st.none() | st.dictionaries(texts, st.lists(numbers, max_size=2).map(tuple), max_size=2),
)
costs = st.builds(Costs, st.integers(0, 9), numbers, st.integers(0, 9), numbers, numbers, st.integers(0, 9))
events = st.builds(TraceEvent, input=user_data, output=user_data, metadata=st.none() | user_objects)
records = st.builds(
    EvalResult,
    hits=text_tuples,
    misses=text_tuples,
    score=numbers,
    duration_ms=st.none() | numbers,
    evaluator_results=st.none() | st.lists(evaluators, max_size=2).map(tuple),
    error_detail=st.none()
    | st.builds(ErrorDetail, st.sampled_from(ErrorStage.__args__), st.sampled_from(ErrorKind.__args__)),
    trace=st.none() | st.lists(events, max_size=2).map(tuple),
    trace_summary=st.none() | summaries,
    execution_metrics=st.none() | metrics,
    spent=st.none() | st.builds(Spent, costs, st.none() | costs),
    **{name: st.none() | user_objects for name in REQUESTS},
)


@settings(max_examples=tries(25, 60), deadline=None)
@given(records)
def test_a_record_comes_back_from_json_the_same_whatever_it_holds(record):
    plain = json.loads(json.dumps(record.to_plain()))
    assert list(plain) == [field.name for field in dataclasses.fields(EvalResult) if field.name in plain]
    assert EvalResult.from_plain(plain) == record
