CALLS = [{"tool": "search"}, {"tool": "read"}, {"tool": "search"}]


def answer(prompt):
    if prompt == "text":
        return "120 euros"
    calls = CALLS if prompt == "price" else []
    return {"output_messages": [{"role": "assistant", "content": "120 euros", "tool_calls": calls}]}
