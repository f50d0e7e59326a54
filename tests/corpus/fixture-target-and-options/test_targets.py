import pytest


@pytest.fixture(params=["default", "terse"])
def agentv_target(request):
    return request.param


def test_limit(agentv, agentv_target):
    result = agentv.run("How long?", evaluators=[{"contains": "30 days"}])
    assert result
    assert result.target == agentv_target
