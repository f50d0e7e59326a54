import pytest


def test_values(agentv_targets, agentv_target, agentv_provider, agentv_judge):
    model = agentv_targets["model"]
    assert (model.kind, model.values["model"], model.values["base_url"]) == ("openai", "gpt", "${{ URL_OF_NOBODY }}")
    assert "written-down" not in str(model.values)
    assert agentv_target == "default"
    assert agentv_provider("Hi").output_messages[-1].content == "hello"
    assert agentv_judge is None


def test_both(agentv, agentv_provider):
    assert agentv.evaluate(agentv_provider("Hi"), evaluators=[{"contains": "hello"}])


class TestSilent:
    @pytest.fixture
    def agentv_target(self):
        return "silent"

    def test_no_answer(self, agentv_provider):
        with pytest.raises(Exception, match="the target gave no answer: a content filter stopped it") as caught:
            agentv_provider("Hi")
        assert caught.value.kind == "no_answer"


class TestExits:
    @pytest.fixture
    def agentv_target(self):
        return "exits"

    def test_raises(self, agentv_provider):
        agentv_provider("Hi")
