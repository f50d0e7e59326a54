import json


def answer(prompt):
    return json.loads(prompt)


def judge(prompt):
    checks = [{"id": name, "satisfied": name != "d", "reasoning": ""} for name in "abcd" if f"[{name}]" in prompt]
    return json.dumps({"checks": checks, "overall_reasoning": ""})
