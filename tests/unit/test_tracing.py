"""Traces, their summaries and metrics."""

import asyncio
import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_agentv.engine.answers import (
    Attempts,
    ReportedMetrics,
    execution_metrics,
    extract_trace,
    read_answer,
    summarize_trace,
    validated_metrics,
    without_odd_durations,
)
from pytest_agentv.errors import ProviderError
from pytest_agentv.model.base import ABSENT
from pytest_agentv.model.messages import ExecutionMetrics, Message, TokenUsage, ToolCall, TraceEvent, TraceSummary
from pytest_agentv.model.options import DEFAULT_EXPLORATION_TOOLS
from pytest_agentv.model.run_options import RunOptions
from pytest_agentv.model.secrets import Masker, masking
from pytest_agentv.providers.base import ProviderResponse, read_trace, with_trace

NOTHING = ReportedMetrics()
SEARCH = TraceEvent("tool_call", name="searchDocs")
VERIFY = TraceEvent("tool_call", name="verify")
RESULT = TraceEvent("tool_result")
KNOWN_TYPES = "model_step, tool_call, tool_result, message, error"


def calls(*tools: str) -> tuple[Message, ...]:
    return (Message("assistant", "done", tuple(ToolCall(tool) for tool in tools)),)


def events_of(*tools: str) -> tuple[TraceEvent, ...]:
    return tuple(TraceEvent("tool_call", name=tool) for tool in tools)


def metrics_of(
    metrics: ReportedMetrics = NOTHING,
    events: Sequence[TraceEvent] | None = None,
    measured_ms: float | None = None,
    exploration_tools: Sequence[str] = DEFAULT_EXPLORATION_TOOLS,
) -> ExecutionMetrics:
    found = execution_metrics(metrics, events, exploration_tools=exploration_tools, measured_ms=measured_ms)
    assert found is not None
    return found


class TestExtracting:
    @pytest.mark.scenario("Explicit trace takes precedence")
    def test_an_explicit_trace_comes_before_the_file_and_the_messages(self, tmp_path: Path) -> None:
        missing = str(tmp_path / "missing.json")
        response = ProviderResponse(calls("other"), trace=(SEARCH, RESULT), trace_ref=missing)
        assert extract_trace(response) == (SEARCH, RESULT)

    def test_a_trace_file_comes_before_the_messages(self, tmp_path: Path) -> None:
        path = tmp_path / "trace.json"
        path.write_text('[{"type": "error", "text": "boom"}]')
        response = ProviderResponse(calls("other"), trace_ref=str(path))
        assert extract_trace(with_trace(response)) == (TraceEvent("error", text="boom"),)

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

    @pytest.mark.scenario("Output messages without tool calls")
    def test_messages_without_tool_calls_give_an_empty_trace(self) -> None:
        trace = extract_trace(ProviderResponse((Message("assistant", "hi"),)))
        assert trace == ()
        assert summarize_trace(trace, NOTHING) == TraceSummary(0, (), {}, 0)

    def test_neither_trace_nor_messages_give_none(self) -> None:
        assert extract_trace(ProviderResponse()) is None


class TestTraceFiles:
    EVENTS = (
        TraceEvent("model_step", text="plan", metadata={"stepIndex": 1}),
        TraceEvent("tool_call", "2025-01-01T00:00:00Z", "1", "find", {"q": "a\u2028b"}, None),
    )

    def write(self, path: Path, text: str) -> Path:
        path.write_text(text, encoding="utf-8")
        return path

    @pytest.mark.scenario("TraceEvent structure")
    def test_the_docs_of_the_field_recommend_messages_in_its_place(self) -> None:
        page = (Path(__file__).parents[2] / "docs/api.md").read_text("utf-8")
        (row,) = (line for line in page.splitlines() if line.startswith("| `trace` |") and "Deprecated" in line)
        assert row.endswith("Deprecated in AgentV: report tool calls in `output_messages` instead. |")

    @pytest.mark.scenario("TraceEvent structure")
    def test_a_json_list_is_read_with_all_fields(self, tmp_path: Path) -> None:
        text = json.dumps([event.to_plain() for event in self.EVENTS], indent=2)
        assert read_trace(self.write(tmp_path / "t.json", f"\ufeff\n{text}\n")) == self.EVENTS

    def test_json_lines_are_read_and_blank_ones_passed_over(self, tmp_path: Path) -> None:
        lines = [json.dumps(event.to_plain(), ensure_ascii=False) for event in self.EVENTS]
        assert read_trace(self.write(tmp_path / "t.jsonl", "\r\n\r\n".join(lines) + "\n")) == self.EVENTS

    @pytest.mark.scenario("TraceEvent without timestamp")
    def test_order_is_that_of_the_list_whatever_the_timestamps_say(self, tmp_path: Path) -> None:
        text = (
            '[{"type": "message"}, {"type": "error", "timestamp": "2026"}, {"type": "tool_call", "timestamp": "2025"}]'
        )
        events = read_trace(self.write(tmp_path / "t.json", text))
        assert [(event.type, event.timestamp) for event in events] == [
            ("message", None),
            ("error", "2026"),
            ("tool_call", "2025"),
        ]

    def test_unknown_keys_and_texts_of_other_types_are_left_out(self, tmp_path: Path) -> None:
        text = '{"type": "tool_call", "id": 7, "name": "find", "toolKind": "x", "metadata": "none"}'
        assert read_trace(self.write(tmp_path / "t.jsonl", text)) == (TraceEvent("tool_call", name="find"),)

    @pytest.mark.parametrize(
        ("text", "fault"),
        [
            ('{"type": "error"}\n[1]', ":2: [1] was left out: an event is a JSON object"),
            ('["x", {"type": "error"}]', ': [0]: "x" was left out: an event is a JSON object'),
            (
                '[{"type": "thought"}, {"type": "error"}]',
                f": [0]: an event has the type 'thought': expected one of {KNOWN_TYPES}; it was left out",
            ),
        ],
    )
    def test_an_invalid_event_that_is_no_call_is_left_out_with_a_warning(
        self, tmp_path: Path, text: str, fault: str
    ) -> None:
        path = self.write(tmp_path / "t.json", text)
        response = with_trace(ProviderResponse(trace_ref=str(path)))
        assert (response.trace, response.warnings) == ((TraceEvent("error"),), (f"{path}{fault}",))

    @pytest.mark.parametrize("text", ["", "\n", "[]"])
    def test_an_empty_file_is_an_empty_trace(self, tmp_path: Path, text: str) -> None:
        assert read_trace(self.write(tmp_path / "t.json", text)) == ()

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (
                '[{"type": "message"},\n{"type": ]',
                ":2: expected a JSON list of events, or one event per line: Expecting value",
            ),
            (
                '{"type": "message"}\n\nDone.',
                ":3: expected a JSON list of events, or one event per line: Expecting value",
            ),
            ("[" * 100_000, ":1: expected a JSON list of events, or one event per line: nested too deeply"),
            (
                '{"type": "message"}\n' + "7" * 5_000,
                ":2: expected a JSON list of events, or one event per line: a number has too many digits",
            ),
            (
                '{"type": "toolcall"}',
                f":1: an event has the type 'toolcall': expected one of {KNOWN_TYPES} (did you mean 'tool_call'?)",
            ),
            ('{"name": "find"}', f":1: an event has the type None: expected one of {KNOWN_TYPES}"),
        ],
    )
    def test_a_file_that_is_no_trace_is_an_error_with_the_place(self, tmp_path: Path, text: str, message: str) -> None:
        path = self.write(tmp_path / "t.json", text)
        with pytest.raises(ProviderError) as caught:
            read_trace(path)
        assert str(caught.value) == f"{path}{message}"
        assert caught.value.kind == "config"

    def test_a_file_that_is_not_there_is_an_error(self, tmp_path: Path) -> None:
        path = tmp_path / "missing.json"
        response = with_trace(ProviderResponse(calls(), cost_usd=0.5, trace_ref=str(path)))
        assert response.error == f"{path}: cannot read this trace file: No such file or directory"
        assert response.error_kind == "config"
        assert (response.output_messages, response.cost_usd) == (calls(), 0.5)

    def test_a_file_does_not_hide_an_earlier_error(self, tmp_path: Path) -> None:
        response = ProviderResponse(trace_ref=str(tmp_path / "missing.json"), error="no answer", error_kind="no_answer")
        assert with_trace(response) == response

    def test_a_path_that_can_be_no_file_is_an_error(self) -> None:
        with pytest.raises(ProviderError) as caught:
            read_trace(Path("/tmp/a\0b"))
        assert re.fullmatch("/tmp/a\0b: cannot read this trace file: .*embedded null .*", str(caught.value))


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

    @pytest.mark.scenario("TraceSummary from outputMessages")
    def test_of_messages_the_tool_calls_count(self) -> None:
        trace = extract_trace(ProviderResponse(calls("searchDocs", "verify")))
        assert summarize_trace(trace, NOTHING) == TraceSummary(
            event_count=2,
            tool_names=("searchDocs", "verify"),
            tool_calls_by_name={"searchDocs": 1, "verify": 1},
            error_count=0,
        )

    @pytest.mark.scenario("Provider returns output messages with tool calls")
    def test_tools_are_sorted_by_name_and_counted_by_first_use(self) -> None:
        response = ProviderResponse((*calls("verify", "Zoom"), *calls("ask", "verify")))
        summary = summarize_trace(extract_trace(response), NOTHING)
        assert summary is not None
        assert summary.tool_names == ("Zoom", "ask", "verify")
        assert list(summary.tool_calls_by_name.items()) == [("verify", 2), ("Zoom", 1), ("ask", 1)]

    def test_error_events_are_counted_and_nameless_calls_have_no_name(self) -> None:
        trace = (TraceEvent("error"), TraceEvent("tool_call"), TraceEvent("error"))
        assert summarize_trace(trace, NOTHING) == TraceSummary(3, (), {}, 2)

    @pytest.mark.scenario("No trace available")
    def test_neither_trace_nor_metric_gives_none(self) -> None:
        assert summarize_trace(None, NOTHING) is None

    @pytest.mark.parametrize(
        "reported",
        [
            {"token_usage": TokenUsage(3, 4)},
            {"cost_usd": 0.0},
            {"duration_ms": 12.5},
        ],
    )
    def test_a_metric_alone_gives_none(self, reported: dict[str, Any]) -> None:
        assert summarize_trace(None, validated_metrics(ProviderResponse(**reported))) is None


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

    def test_usage_goes_as_a_whole_when_a_needed_count_makes_no_sense(self) -> None:
        assert validated_metrics(ProviderResponse(token_usage=TokenUsage(-5, 2))) == ReportedMetrics(
            warnings=("token_usage.input is -5 and was left out: expected a finite number of 0 or more",)
        )

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

    def test_only_the_cached_count_goes_when_it_makes_no_sense(self) -> None:
        assert validated_metrics(ProviderResponse(token_usage=TokenUsage(5, 2, -1))) == ReportedMetrics(
            token_usage=TokenUsage(5, 2),
            warnings=("token_usage.cached is -1 and was left out: expected a finite number of 0 or more",),
        )

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

    def test_the_summary_that_judges_read_has_the_measured_duration_too(self) -> None:
        response = ProviderResponse(calls("read"), duration_ms=-2)
        answered = asyncio.run(read_answer(Attempts(1, 40.0, response), RunOptions()))
        assert answered.summary is not None
        assert answered.metrics is not None
        assert (answered.summary.duration_ms, answered.metrics.duration_ms) == (40, 40)

    def test_a_duration_of_a_tool_that_makes_no_sense_is_left_out(self) -> None:
        tools = (ToolCall("read", duration_ms=-5),)
        assert validated_metrics(ProviderResponse((Message("assistant", tool_calls=tools),))) == ReportedMetrics(
            warnings=("duration_ms of the tool 'read' is -5 and was left out: expected a finite number of 0 or more",)
        )

    def test_nothing_reported_gives_nothing_and_no_warning(self) -> None:
        assert validated_metrics(ProviderResponse()) == NOTHING


class TestExecutionMetrics:
    @pytest.mark.scenario("Provider reports token usage")
    @pytest.mark.scenario("Token usage structure")
    def test_token_usage_is_handed_on(self) -> None:
        for usage in (TokenUsage(10, 5), TokenUsage(10, 5, 3)):
            metrics = validated_metrics(ProviderResponse(token_usage=usage))
            assert metrics_of(metrics) == ExecutionMetrics(token_usage=usage)

    @pytest.mark.scenario("Provider reports cost")
    def test_cost_is_handed_on(self) -> None:
        assert metrics_of(validated_metrics(ProviderResponse(cost_usd=0.25))) == ExecutionMetrics(cost_usd=0.25)

    @pytest.mark.scenario("Provider reports duration")
    def test_the_reported_duration_comes_before_the_measured_one(self) -> None:
        tools = (ToolCall("read", duration_ms=5),)
        response = ProviderResponse((Message("assistant", tool_calls=tools),), duration_ms=0)
        assert metrics_of(validated_metrics(response), measured_ms=99) == ExecutionMetrics(
            duration_ms=0, tool_durations={"read": (5,)}
        )

    def test_the_measured_duration_fills_the_gap(self) -> None:
        assert metrics_of(measured_ms=99) == ExecutionMetrics(duration_ms=99)

    @pytest.mark.scenario("Metrics not available")
    def test_nothing_known_gives_none(self) -> None:
        assert execution_metrics(NOTHING, (), exploration_tools=DEFAULT_EXPLORATION_TOOLS) is None

    @pytest.mark.scenario("Computed exploration ratio")
    def test_the_exploration_ratio_is_the_share_of_exploring_calls(self) -> None:
        events = (*events_of("read", "edit", "grep", "run"), RESULT, TraceEvent("tool_call"))
        tools = ("read", "grep", "glob", "search")
        assert metrics_of(events=events, exploration_tools=tools) == ExecutionMetrics(exploration_ratio=0.4)

    def test_the_default_exploration_tools_are_known_by_exact_name(self) -> None:
        assert metrics_of(events=events_of("WebFetch", "READ")).exploration_ratio == 0.5

    @pytest.mark.scenario("Computed tokens per tool")
    def test_tokens_per_tool_are_output_tokens_by_tool_calls(self) -> None:
        usage = ReportedMetrics(token_usage=TokenUsage(1000, 300))
        assert metrics_of(usage, (*events_of("a", "b"), RESULT)).tokens_per_tool == 150
        assert metrics_of(usage, (RESULT,)).tokens_per_tool is None
        assert metrics_of(usage).tokens_per_tool is None
