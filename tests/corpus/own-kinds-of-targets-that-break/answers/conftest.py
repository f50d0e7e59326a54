from pytest_agentv import Message, Provider, ProviderResponse, ToolCall, TraceEvent

class OwnResponse(ProviderResponse):
    pass

class OwnMessage(Message):
    pass

class OwnCall(ToolCall):
    pass

class OwnEvent(TraceEvent):
    pass

class Odd(Provider):
    kind = "odd"
    said: str

    def open(self, environment):
        return self

    def invoke(self, request):
        endless = {}
        endless["a"] = endless
        if self.said == "nothing":
            return {"text": None, "cost_usd": 0.5}
        if self.said == "no message":
            return ProviderResponse("hello", cost_usd=0.5)
        if self.said == "subclasses":
            messages = (OwnMessage("assistant", "hello", (OwnCall("t"),)),)
            return OwnResponse(messages, (OwnEvent("tool_call", name="t"),), cost_usd=0.5)
        if self.said == "lists":
            call, event = ToolCall("t", {"a": 1}), TraceEvent("tool_call", name="t")
            messages = [Message("user", "q"), Message("assistant", "hello", [call])]
            return ProviderResponse(messages, [event], cost_usd=0.5, retrieved_context=["text"], warnings=["w"])
        calls = {
            "endless call": ToolCall("t", input=endless),
            "long number": ToolCall("t", output=[10**5000]),
            "odd call": ToolCall("t", id=5),
        }
        if self.said in calls:
            return ProviderResponse((Message("assistant", "hello", (calls[self.said],)),), cost_usd=0.5)
        if self.said == "mapping":
            return {"text": "hello", "trace": [{"type": "tool_call", "input": 10**5000}], "cost_usd": 0.5}
        content = {"object": {"a": object()}, "endless": endless}.get(self.said, "hello")
        raw = {"request_attempts": "two"}
        finish = "length" if self.said == "endless" else None
        return ProviderResponse((Message("assistant", content),), cost_usd=0.5, raw=raw, finish_reason=finish)

def pytest_agentv_providers():
    return [Odd]
