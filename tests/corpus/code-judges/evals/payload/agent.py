def answer(prompt):
    usage = {"input": 200, "output": 50}
    context = ["Tent: 120"]
    return {
        "text": "120 euros",
        "token_usage": usage,
        "cost_usd": 0.002,
        "duration_ms": 850,
        "retrieved_context": context,
    }
