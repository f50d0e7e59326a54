CALLS = [
    {"tool": "search", "input": {"query": "tent"}},
    {"tool": "read", "input": {"id": 7, "page": 1}},
    {"tool": "search", "input": {"query": "the price of the tent"}},
]


def answer(prompt):
    if prompt == "text":
        return "120 euros"
    calls = CALLS if prompt == "price" else []
    return {"output_messages": [{"role": "assistant", "content": "120 euros", "tool_calls": calls}]}
