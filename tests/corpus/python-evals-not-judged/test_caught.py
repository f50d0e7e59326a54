import pytest

from pytest_agentv import EvalErrored


def test_caught(agentv):
    with pytest.raises(EvalErrored):
        agentv.run("Hello", evaluators=[{"contains": "hi"}])
