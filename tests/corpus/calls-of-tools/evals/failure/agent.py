CALLS = [
    {"tool": "search", "input": {"query": "tent", "limit": 2}, "output": [{"id": 1}, {"id": 2}]},
    {"tool": "read", "input": {"id": 2}, "output": "The tent of " + "many words " * 20},
    {"tool": "note", "input": {}},
]


def answer(prompt):
    return {
        "output_messages": [{"role": "assistant", "content": "Sold out.", "tool_calls": CALLS}],
        "token_usage": {"input": 1200, "output": 30, "cached": 1000},
        "cost_usd": 0.25,
        "finish_reason": "length",
    }
