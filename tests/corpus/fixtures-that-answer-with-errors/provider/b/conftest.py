import pytest
from pytest_agentv import Message
from pytest_agentv import ProviderResponse

class Agent:
    async def invoke(self, request):
        return ProviderResponse(output_messages=(Message("assistant", f"hello: {request.prompt.question}"),), cost_usd=0.5, error="", error_kind="timeout")

@pytest.fixture(scope="module")
def agentv_provider():
    return Agent()
