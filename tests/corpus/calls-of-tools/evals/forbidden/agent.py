CALLS = [
    {"tool": "delete", "input": {"path": "draft.md"}},
    {"tool": "delete", "input": {"path": "shop.db"}},
    {"tool": "push", "input": {"branch": "main"}},
]


def answer(prompt):
    return {"output_messages": [{"role": "assistant", "content": "Done", "tool_calls": CALLS}]}
