def answer(prompt):
    if prompt == "text":
        return "120 euros"
    if prompt == "trace":
        event = {"type": "tool_call", "timestamp": "2026-03-05T10:00:00Z", "name": "semanticSearch", "input": {"q": "tent"}}
        return {"text": "120 euros", "trace": [event]}
    calls = [{"tool": "semanticSearch", "input": {"q": word}} for word in ("tent", "price", "tents")]
    return {"output_messages": [{"role": "assistant", "content": "120 euros", "tool_calls": calls}]}
