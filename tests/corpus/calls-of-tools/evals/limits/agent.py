CALLS = [{"tool": "search"}, {"tool": "read"}, {"tool": "search"}]


def answer(prompt):
    if prompt == "text":
        return "120 euros"
    calls = CALLS if prompt in ("price", "traced") else []
    trace = {"trace": [{"type": "tool_call", "name": "delete"}]} if prompt == "traced" else {}
    return {"output_messages": [{"role": "assistant", "content": "120 euros", "tool_calls": calls}], **trace}
