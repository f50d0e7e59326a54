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

    def open(self, environment):
        return self

    def invoke(self, request):
        with open("asked-for-records.txt", "a") as file:
            file.write("x")
        if request.eval_id == "subclasses":
            messages = (OwnMessage("assistant", "hello", (OwnCall("t"),)),)
            return OwnResponse(messages, (OwnEvent("tool_call", name="t"),), cost_usd=0.5)
        call, event = ToolCall("t", {"a": 1}), TraceEvent("tool_call", name="t")
        messages = [Message("user", "q"), Message("assistant", "hello", [call])]
        return ProviderResponse(messages, [event], cost_usd=0.5, retrieved_context=["text"], warnings=["w"])


def pytest_agentv_providers():
    return [Odd]
