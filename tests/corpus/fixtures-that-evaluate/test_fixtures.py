import pytest


@pytest.fixture
def before(agentv):
    agentv.run("x", evaluators=[{"contains": 30}])


@pytest.fixture
def after(agentv):
    yield
    agentv.run("x", evaluators=[{"contains": 30}])


def test_before(before): ...


def test_after(after): ...
