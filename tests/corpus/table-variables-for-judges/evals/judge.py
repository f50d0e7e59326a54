def judge(prompt):
    assert 'the topic tents of' in prompt
    return '{"score": 1, "reasoning": "ok"}'
