import pytest


@pytest.mark.xfail(reason="in Python")
def test_it(agentv):
    assert agentv.run("hi", evaluators=[{"contains": "nothing"}], repeat=2)


@pytest.mark.xfail(reason="no evaluation", strict=True)
def test_other():
    pass
