import pytest


@pytest.fixture
def agentv_judge():
    return lambda prompt: '{"score": 1, "hits": [], "misses": []}'
