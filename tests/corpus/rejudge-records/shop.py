from pathlib import Path


def answer(prompt, request):
    with Path("calls.txt").open("a") as file:
        file.write(f"{request.eval_id} {request.answer}\n")
    text = f"The {prompt} costs 120 euros."
    if prompt == "tent":
        return {"text": text, "trace": [{"type": "tool_call", "name": "look_up", "input": {"name": "tent"}}]}
    if prompt == "rope":
        return {"output_messages": [called("a rope"), {"role": "assistant", "content": text}]}
    if prompt == "stove":
        return {"output_messages": [called("a stove " * 3000), {"role": "assistant", "content": text}]}
    if prompt == "lamp" and request.answer == 0:
        return {"output_messages": [called("a lamp"), {"role": "assistant", "content": "It costs 130 euros."}]}
    return text


def called(what):
    calls = [{"tool": "look_up", "input": {"name": what}}]
    return {"role": "assistant", "content": "I look it up.", "tool_calls": calls}
