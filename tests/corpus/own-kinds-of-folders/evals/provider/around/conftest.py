import pytest


@pytest.fixture
def agentv_provider(agentv_provider):
    return lambda prompt: agentv_provider(f"Briefly: {prompt}")
