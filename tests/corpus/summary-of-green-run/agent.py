def answer(prompt):
    if prompt == "stove":
        return {"text": "45 euros", "token_usage": {"input": 10, "output": 5, "reasoning": 2}, "cost_usd": 0.0005}
    return "120 euros"
