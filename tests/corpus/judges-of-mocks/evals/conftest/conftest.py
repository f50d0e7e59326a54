import json

import pytest


@pytest.fixture(scope="session")
def agentv_judge():
    def judge(prompt):
        if "nonsense" in prompt:
            raise ValueError("I do not judge nonsense")
        good = "30 days" in prompt
        return json.dumps({"score": float(good), "hits": ["names the limit"] if good else [], "misses": []})

    return judge
