import pytest
from pytest_agentv import Message, ProviderResponse

@pytest.fixture
def agentv_judge():
    def judge(prompt):
        return ProviderResponse((Message('assistant', '{"score": 1}'),), error='')
    return judge
