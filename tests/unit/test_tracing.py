"""Traces, their summaries and metrics."""

import math
from pathlib import Path
from typing import Any

import pytest

from pytest_agentv.engine.answers import (
    ReportedMetrics,
    extract_trace,
    summarize_trace,
    validated_metrics,
    without_odd_durations,
)
from pytest_agentv.model.base import ABSENT
from pytest_agentv.model.messages import Message, TokenUsage, ToolCall, TraceEvent, TraceSummary
from pytest_agentv.model.secrets import Masker, masking
from pytest_agentv.providers.base import ProviderResponse

NOTHING = ReportedMetrics()
SEARCH = TraceEvent("tool_call", name="searchDocs")
VERIFY = TraceEvent("tool_call", name="verify")
RESULT = TraceEvent("tool_result")


def calls(*tools: str) -> tuple[Message, ...]:
    return (Message("assistant", "done", tuple(ToolCall(tool) for tool in tools)),)


class TestExtracting:
    @pytest.mark.scenario("Explicit trace takes precedence")
    def test_an_explicit_trace_comes_before_the_file_and_the_messages(self, tmp_path: Path) -> None:
        missing = str(tmp_path / "missing.json")
        response = ProviderResponse(calls("other"), trace=(SEARCH, RESULT), trace_ref=missing)
        assert extract_trace(response) == (SEARCH, RESULT)

    @pytest.mark.scenario("Trace extraction maps tool call fields")
    def test_tool_calls_of_messages_become_events_in_their_order(self) -> None:
        first = ToolCall("b", input={"q": 1}, output=None, id="call_1")
        second = ToolCall("a", timestamp="2025-01-01T00:00:09Z")
        messages = (
            Message("assistant", tool_calls=(first, second), timestamp="2025-01-01T00:00:00Z"),
            Message("tool", tool_calls=(ToolCall("c"),)),
        )
        assert extract_trace(ProviderResponse(messages)) == (
            TraceEvent(
                "tool_call", timestamp="2025-01-01T00:00:00Z", id="call_1", name="b", input={"q": 1}, output=None
            ),
            TraceEvent("tool_call", timestamp="2025-01-01T00:00:09Z", name="a", input=ABSENT, output=ABSENT),
            TraceEvent("tool_call", name="c"),
        )


class TestSummary:
    @pytest.mark.scenario("TraceSummary computation")
    def test_every_event_of_a_trace_counts(self) -> None:
        trace = (SEARCH, RESULT, SEARCH, RESULT, VERIFY, RESULT)
        assert summarize_trace(trace, NOTHING) == TraceSummary(
            event_count=6,
            tool_names=("searchDocs", "verify"),
            tool_calls_by_name={"searchDocs": 2, "verify": 1},
            error_count=0,
        )

    @pytest.mark.scenario("Provider returns output messages with tool calls")
    def test_tools_are_sorted_by_name_and_counted_by_first_use(self) -> None:
        response = ProviderResponse((*calls("verify", "Zoom"), *calls("ask", "verify")))
        summary = summarize_trace(extract_trace(response), NOTHING)
        assert summary is not None
        assert summary.tool_names == ("Zoom", "ask", "verify")
        assert list(summary.tool_calls_by_name.items()) == [("verify", 2), ("Zoom", 1), ("ask", 1)]


class TestReportedMetrics:
    @pytest.mark.scenario("Metrics schema validation")
    @pytest.mark.parametrize(
        ("value", "shown"),
        [
            (-1, "-1"),
            (math.nan, "nan"),
            (math.inf, "inf"),
            (True, "True"),
            ("12", "'12'"),
            (10**400, str(10**400)),
            pytest.param(10**5000, "a number that is too long", id="long"),
        ],
    )
    def test_a_value_that_makes_no_sense_is_left_out_with_a_warning(self, value: Any, shown: str) -> None:
        metrics = validated_metrics(ProviderResponse(duration_ms=value, cost_usd=0.5))
        expected = f"duration_ms is {shown} and was left out: expected a finite number of 0 or more"
        assert metrics == ReportedMetrics(cost_usd=0.5, warnings=(expected,))

    def test_only_the_cached_count_goes_where_it_alone_makes_no_sense(self) -> None:
        left_out = "was left out: expected a finite number of 0 or more"
        for usage, kept, said in (
            (TokenUsage(-5, 2), None, "token_usage.input is -5"),
            (TokenUsage(5, 2, -1), TokenUsage(5, 2), "token_usage.cached is -1"),
        ):
            found = validated_metrics(ProviderResponse(token_usage=usage))
            assert found == ReportedMetrics(token_usage=kept, warnings=(f"{said} and {left_out}",))

    @pytest.mark.scenario("Metrics schema validation")
    def test_usage_of_another_type_is_left_out_with_a_warning(self) -> None:
        usage: Any = {"input": 1, "output": 2}
        assert validated_metrics(ProviderResponse(token_usage=usage, cost_usd=0.5)) == ReportedMetrics(
            cost_usd=0.5,
            warnings=("token_usage is \"{'input': 1, 'output': 2}\" and was left out: expected a TokenUsage",),
        )

    def test_a_secret_in_such_usage_is_masked_before_the_text_is_cut(self) -> None:
        secret = "sk-1234567890abcdefghij"
        usage: Any = "." * 70 + secret
        with masking(Masker([secret])):
            (warning,) = validated_metrics(ProviderResponse(token_usage=usage)).warnings
        assert "sk-" not in warning

    @pytest.mark.scenario("Tool durations structure")
    def test_durations_of_tools_are_listed_call_by_call(self) -> None:
        tools = (ToolCall("read", duration_ms=5), ToolCall("edit"), ToolCall("read", duration_ms=7.5))
        metrics = validated_metrics(ProviderResponse((Message("assistant", tool_calls=tools),)))
        assert metrics == ReportedMetrics(tool_durations={"read": (5, 7.5)})

    @pytest.mark.parametrize("odd", ["12", math.nan, pytest.param(10**5000, id="long")])
    def test_a_duration_of_a_call_that_is_no_number_is_not_in_the_record(self, odd: Any) -> None:
        calls = (ToolCall("read", duration_ms=odd), ToolCall("edit", duration_ms=5))
        (message,) = without_odd_durations((Message("assistant", tool_calls=calls),)) or ()
        assert message.tool_calls == (ToolCall("read"), ToolCall("edit", duration_ms=5))

    @pytest.mark.scenario("Tool durations structure")
    def test_durations_in_a_trace_count_for_the_tools_whose_durations_the_messages_leave_out(self) -> None:
        trace = (
            TraceEvent("tool_call", id="1", name="read", metadata={"duration_ms": 5}),
            TraceEvent("tool_call", id="2", name="edit"),
            TraceEvent("tool_result", id="2", metadata={"durationMs": 7.5}),
        )
        response = ProviderResponse(calls("read", "edit"), trace=trace)
        assert validated_metrics(response).tool_durations == {"read": (5,), "edit": (7.5,)}
        tools = (ToolCall("read", duration_ms=4), ToolCall("edit"))
        response = response.replace(output_messages=(Message("assistant", tool_calls=tools),))
        assert validated_metrics(response).tool_durations == {"read": (4,), "edit": (7.5,)}

    def test_the_measured_duration_takes_the_place_of_one_that_makes_no_sense(self) -> None:
        metrics = validated_metrics(ProviderResponse(duration_ms=-2), measured_ms=40)
        assert (metrics.duration_ms, len(metrics.warnings)) == (40, 1)
        assert validated_metrics(ProviderResponse(), measured_ms=40) == NOTHING
