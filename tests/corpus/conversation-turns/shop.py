def answer(messages):
    said = messages[-1]["content"]
    if said == "boom":
        raise ValueError("the shop is closed")
    if said.isdigit():
        call = {"tool": "refund", "input": {"order": said}}
        return {"output_messages": [{"role": "assistant", "content": f"refunded {said}", "tool_calls": [call]}], "cost_usd": 0.5}
    return {"output_messages": [{"role": "assistant", "content": "What is your order number?"}], "cost_usd": 0.25}
