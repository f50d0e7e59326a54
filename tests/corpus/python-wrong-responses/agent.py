from decimal import Decimal
from unittest.mock import MagicMock

from pytest_agentv import Message, ProviderResponse, ToolCall

SAID = {"role": "assistant", "content": "120 euros"}
NULL = {"role": "assistant", "content": None}
CALL = {"tool": "s", "input": {"a": 1}}
NAN = float("nan")


class Markup(str):
    """As that of template engines, which escapes what is added to it."""

    __slots__ = ()

    def __str__(self):
        return "escaped"

    def __add__(self, other):
        return Markup(f"{str.__str__(self)}(escaped)")


def deep(levels):
    found = 1
    for _ in range(levels):
        found = [found]
    return found


def mapping(text, messages, duration, cost):
    return {"text": text, "output_messages": messages, "duration_ms": duration, "cost_usd": cost}


def stays_silent():
    yield "hel"
    return "lo"


RESULTS = {
    # A wrong field of a response
    "messages": ProviderResponse("hello"),
    "role": ProviderResponse(({"role": 5},)),
    "no-role": ProviderResponse([{"content": "x"}]),
    "tool-calls": ProviderResponse((Message("assistant", "", tool_calls="s"),)),
    "tool": ProviderResponse((Message("assistant", "", (ToolCall(5),)),)),
    "trace-id": ProviderResponse(trace=({"type": "tool_call", "id": 5},)),
    "trace": ProviderResponse(trace=7),
    "context": ProviderResponse(retrieved_context="text"),
    "warnings": ProviderResponse(warnings=(1,)),
    "error": ProviderResponse(error=1),
    "finish-reason": ProviderResponse(finish_reason=5),
    "trace-ref": ProviderResponse(trace_ref=1),
    "raw": ProviderResponse(raw=None),
    "mapping-as-message": ProviderResponse([SAID]),
    # Values that are no answers
    "two-keys": {"answer": 1, "b": 2},
    "no-keys": {},
    "reference": {"text": "x", "trace_ref": 1},
    "set": {"text": {1, 2}},
    "nan": {"text": NAN},
    "null-and-no-messages": {"text": None, "output_messages": []},
    "null-message": {"output_messages": [NULL]},
    "null-both": {"text": None, "output_messages": [NULL]},
    "mock": MagicMock(),
    "returns": stays_silent(),
    # What is nested too deeply does not cost the figures
    **{
        f"deep-{what}-{levels}": mapping(*fields)
        for levels in (300, 5000)
        for what, fields in {
            "text": (deep(levels), [], 1, 0.5),
            "duration": ("a", 5, deep(levels), 0.5),
            "figures": ("a", 5, deep(levels), deep(levels)),
        }.items()
    },
    # A figure that is no number does not cost the answer
    "cost-is-text": {"text": "120 euros", "cost_usd": "1", "duration_ms": 7},
    "cost-is-nan": {"text": "120 euros", "cost_usd": NAN, "duration_ms": 7},
    "cost-is-decimal": {"text": "120 euros", "cost_usd": Decimal("0.5"), "duration_ms": 7},
    "duration-of-a-call": {"output_messages": [{**SAID, "tool_calls": [{**CALL, "duration_ms": NAN}]}]},
    "duration-of-a-camel-call": {"outputMessages": ({**SAID, "toolCalls": [{**CALL, "durationMs": NAN}]},)},
    # An answer is a plain text, as the cache returns it
    "markup": Markup("120 euros"),
    "markup-in-a-response": ProviderResponse((Message("assistant", Markup("120 euros")),)),
}


class OddError(Exception):
    def __init__(self, found):
        self.found = found

    def __str__(self):
        if self.found is KeyError:
            raise KeyError("x")
        if self.found is SystemExit:
            raise SystemExit
        return 5


def answer(prompt, request):
    if request.eval_id.startswith("odd-"):
        raise OddError({"odd-raises": KeyError, "odd-exits": SystemExit}.get(request.eval_id))
    return RESULTS[request.eval_id]
