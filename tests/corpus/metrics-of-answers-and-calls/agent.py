import math

from pytest_agentv import Message, ProviderResponse, TokenUsage, ToolCall, TraceEvent


def call(name, **keys):
    return TraceEvent("tool_call", name=name, **keys)


def calling(*calls):
    return ProviderResponse((Message("assistant", "done", calls),))


def said(**keys):
    return ProviderResponse((Message("assistant", "done"),), **keys)


RESULT = TraceEvent("tool_result")
ANSWERS = {
    "events-of-calls": ProviderResponse((
        Message("assistant", "done", (ToolCall("b", {"q": 1}, None, id="call_1"), ToolCall("a", timestamp="2025-01-01T00:00:09Z")), timestamp="2025-01-01T00:00:00Z"),
        Message("tool", tool_calls=(ToolCall("c"),)),
        Message("assistant", "done"),
    )),
    "explicit-trace": ProviderResponse((Message("assistant", "done", (ToolCall("other"),)),), trace=(call("search"), RESULT), trace_ref="missing.json"),
    "all-events-count": said(trace=(call("search"), RESULT, call("search"), RESULT, call("verify"), RESULT)),
    "tools-by-name": ProviderResponse((Message("assistant", "done", (ToolCall("verify"), ToolCall("Zoom"))), Message("assistant", "done", (ToolCall("ask"), ToolCall("verify"))))),
    "negative": said(duration_ms=-1, cost_usd=0.5),
    "nan": said(cost_usd=math.nan),
    "infinite": said(cost_usd=math.inf),
    "yes": said(cost_usd=True),
    "a-text": said(cost_usd="12"),
    "too-long": said(cost_usd=10**5000),
    "negative-input": said(token_usage=TokenUsage(-5, 2)),
    "negative-cached": said(token_usage=TokenUsage(5, 2, -1)),
    "mapping": said(token_usage={"input": 1, "output": 2}, cost_usd=0.5),
    "secret": said(token_usage="." * 70 + "sk-1234567890abcdefghij"),
    "durations-of-calls": calling(ToolCall("read", duration_ms=5), ToolCall("edit"), ToolCall("read", duration_ms=7.5)),
    "odd-durations": calling(ToolCall("read", duration_ms="12"), ToolCall("read", duration_ms=math.nan), ToolCall("edit", duration_ms=5)),
    "long-duration": calling(ToolCall("read", duration_ms=10**5000)),
    "durations-of-the-trace": calling(ToolCall("read"), ToolCall("edit")).replace(trace=(
        call("read", id="1", metadata={"duration_ms": 5}),
        call("edit", id="2"),
        TraceEvent("tool_result", id="2", metadata={"durationMs": 7.5}),
    )),
    "durations-of-both": calling(ToolCall("read", duration_ms=4), ToolCall("edit")).replace(trace=(
        call("read", id="1", metadata={"duration_ms": 5}),
        call("edit", id="2", metadata={"duration_ms": 7.5}),
    )),
}


def answer(prompt):
    return ANSWERS[prompt]
