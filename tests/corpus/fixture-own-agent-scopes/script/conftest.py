import json, pytest

@pytest.fixture
def agentv_judge():
    def judge(prompt):
        assert isinstance(prompt, str)
        with open("judged.txt", "a") as file:
            print("-", file=file)
        if "polite" in prompt:
            checks = [{"id": "polite", "satisfied": True, "reasoning": "yes"}]
            return json.dumps({"checks": checks, "overall_reasoning": "fine"})
        return json.dumps({"score": 0.75, "hits": ["fine"], "misses": [], "reasoning": "because"})
    return judge



@pytest.fixture
def agentv_provider():
    def answer(prompt):
        with open("calls.txt", "a") as file:
            print(prompt, file=file)
        return f"hello: {prompt}"
    return answer
