def answer(prompt):
    if prompt == "dead":
        raise ConnectionError("the line is dead")
    return {"text": f"hi {prompt}", "cost_usd": 0.25, "token_usage": {"input": 10, "output": 5}}
