def answer(prompt):
    if prompt == "Hello":
        return "Hi."
    calls = [
        {"tool": "search", "input": {"query": "returns"}, "output": "30 days"},
        {"tool": "search", "input": {"query": "fees"}, "output": "none"},
        {"tool": "book", "input": {"id": 7}},
    ]
    said = [
        {"role": "assistant", "content": "I look it up.", "tool_calls": calls},
        {"role": "assistant", "content": "Within 30 days."},
    ]
    return {"output_messages": said, "duration_ms": 40}
