def answer(prompt):
    return {"text": "120 euros", "token_usage": {"input": 10, "output": 5, "cached": 2}, "cost_usd": 0.05}


def judge(prompt):
    return {"text": '{"score": 1, "hits": ["names it"], "misses": []}', "token_usage": {"input": 100, "output": 20}, "cost_usd": 0.25}
