def told(text, cost=None):
    tokens = {"token_usage": {"input": 10, "output": 5}, "duration_ms": 100}
    return {"text": text, **tokens, **({} if cost is None else {"cost_usd": cost})}


def dear(prompt):
    return told("no" if prompt in "12" else "yes", 0.02)


def cheap(prompt):
    return told("no" if prompt == "5" else "yes", 0.01)


def partly(prompt):
    return told("yes", 0.01 if prompt == "1" else None)


def broken(prompt):
    if prompt != "7":
        raise ValueError("it is down")
    return told("yes", 0.001)
