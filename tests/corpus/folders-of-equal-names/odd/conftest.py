from pytest_agentv import ProviderResponse
from pytest_agentv import Message

class Answering:
    mode = "lm"
    def __init__(self, target, environment): self.name = target.name
    async def check(self): ...
    async def invoke(self, request):
        return None if self.name == 'none' else ProviderResponse(output_messages='hello')
    async def close(self): ...

def pytest_agentv_providers():
    return {"own": Answering}
