def answer(messages):
    said = messages[-1]["content"]
    text = f"refunded {said}" if said.isdigit() else "What is your order number?"
    return {"text": text, "cost_usd": 0.25, "token_usage": {"input": 10, "output": 5}}
