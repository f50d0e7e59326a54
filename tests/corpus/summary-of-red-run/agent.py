def answer(prompt):
    number = int(prompt)
    if number == 12:
        raise RuntimeError("the index is empty")
    text = ("120 euros, " if number > 2 else "") + ("30 days" if number > 5 else "")
    return {"text": text or "no idea", "token_usage": {"input": 100, "output": number}, "cost_usd": 0.01}
