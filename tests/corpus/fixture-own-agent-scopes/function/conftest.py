import pytest

@pytest.fixture(scope="function")
def agentv_provider(request):
    name = request.node.name
    yield lambda prompt: f"hello from {name}"
    name = "the grave"
