from pytest_agentv import ProviderResponse
from pytest_agentv import Message, Provider

class Answering:
    mode = "lm"
    def __init__(self, name): self.name = name
    async def check(self): ...
    async def invoke(self, request):
        return ProviderResponse(output_messages=(Message("assistant", "hello from below"),))
    async def close(self): ...

class Own(Provider):
    kind = "own"
    def open(self, environment): return Answering(environment.name)

def pytest_agentv_providers():
    return {"own": Own}
