import pytest


def test_it(agentv):
    assert agentv.run("hi", evaluators=[{"contains": "gpt"}])


@pytest.mark.parametrize("agentv_target", ["default"])
def test_own(agentv, agentv_target):
    assert agentv_target == "default"


class TestOne:
    @pytest.fixture
    def agentv_target(self):
        return "default"

    def test_it(self, agentv):
        assert agentv.run("hi", evaluators=[{"contains": "default"}])
