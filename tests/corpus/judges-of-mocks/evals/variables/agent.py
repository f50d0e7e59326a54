import json


def answer(prompt):
    calls = [{"tool": "search", "input": {"query": "tent"}, "output": "120"}]
    return {
        "output_messages": [{"role": "assistant", "content": "120 euros", "tool_calls": calls}],
        "retrieved_context": ["Tents cost 120 euros."],
        "duration_ms": 850,
    }


def judge(prompt):
    told = [word for word in ("search", "Tents cost", "tents only", "120 euros") if word in prompt]
    return json.dumps({"score": len(told) / 4, "hits": told, "misses": [], "reasoning": "So much is told."})
