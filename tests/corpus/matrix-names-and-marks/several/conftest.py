import pytest


@pytest.fixture(params=["default", "claude"])
def agentv_target(request):
    return request.param
