CALLS = [
    {"tool": "search", "input": {"query": "tent"}, "output": {"found": [{"id": 7}, {"id": 9}]}, "duration_ms": 150},
    {"tool": "read", "input": {"id": 7, "page": 1}},
    {"tool": "close"},
]


def answer(prompt):
    return {"output_messages": [{"role": "assistant", "content": "120 euros", "tool_calls": CALLS}]}
