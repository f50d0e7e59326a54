CALL = {"tool": "search", "input": {"docId": 1}, "duration_ms": 5}


def judge(prompt):
    return f"judge: {prompt if len(prompt) < 100 else len(prompt)}"


def main(prompt):
    parts = [{"type": "image", "url": "a.png"}, {"type": "text", "text": f"main: {prompt}"}]
    said = [{"role": "assistant", "content": "before"}, {"role": "assistant", "content": parts, "tool_calls": [CALL]}]
    took = {"token_usage": {"input": 10, "output": 5, "cached": 1}, "cost_usd": 0.1, "duration_ms": 12}
    return {"output_messages": [*said, {"role": "tool", "content": "t"}], **took}


def broken(prompt):
    raise ValueError("the model is down")
