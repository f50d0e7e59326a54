import pytest

@pytest.fixture(scope="module")
def agentv_provider(request):
    name = request.node.name
    yield lambda prompt: f"hello from {name}"
    name = "the grave"
