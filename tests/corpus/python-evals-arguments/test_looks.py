import pytest

HELLO = [{"contains": "hello"}]
BYE = [{"contains": "goodbye"}]


def test_forgets(agentv):
    print(agentv.run("Say hello", evaluators=BYE))


def test_decides(agentv):
    assert agentv.run("Say hello", evaluators=BYE).score == 0


def test_forgets_one(agentv):
    assert not agentv.run("Say hello", evaluators=BYE)
    agentv.run("Say hello", evaluators=BYE)


def test_passes(agentv):
    agentv.run("Say hello", evaluators=HELLO)


def test_decides_beside_an_error(agentv):
    assert not agentv.run("Say hello", evaluators=BYE)
    with pytest.raises(Exception):
        agentv.run("Say hello", evaluators=[{"name": "x", "type": "heuristc"}])


@pytest.fixture
def evaluated(agentv):
    result = agentv.run("Say hello", evaluators=BYE)
    yield
    assert not result


def test_decides_at_its_end(evaluated):
    pass
