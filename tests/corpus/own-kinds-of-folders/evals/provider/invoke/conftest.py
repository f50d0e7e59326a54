import pytest

from pytest_agentv import Message, ProviderResponse


class Parrot:
    async def invoke(self, request):
        return ProviderResponse((Message("assistant", content=f"parrot {request.prompt.question}"),))


@pytest.fixture
def agentv_provider():
    return Parrot()
