import pytest


@pytest.fixture
def agentv_provider():
    return lambda prompt: 'hi'
