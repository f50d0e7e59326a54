def answer(prompt):
    return prompt


def judge(prompt):
    if "rubrics" in prompt:
        return '{"checks": [{"id": "rubric-1", "satisfied": true}]}'
    return '{"score": 1}'
