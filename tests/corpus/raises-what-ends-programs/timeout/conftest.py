import pytest
class Agent:
    async def invoke(self, request): raise TimeoutError('slow' if request.eval_id == 'slow' else '')
@pytest.fixture(scope='session')
def agentv_provider(): return Agent()
