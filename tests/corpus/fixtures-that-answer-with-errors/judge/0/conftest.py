import pytest
from pytest_agentv import Message, ProviderResponse

@pytest.fixture
def agentv_judge():
    def judge(prompt):
        raise RuntimeError('no quota')
    return judge
