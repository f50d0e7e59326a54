import json

import pytest


@pytest.fixture(scope="session")
def agentv_judge():
    def judge(prompt):
        good = "within 30 days" in prompt.lower()
        return json.dumps({"score": float(good), "hits": ["names it"] if good else [], "misses": []})

    return judge
