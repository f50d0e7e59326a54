from types import SimpleNamespace


def of(package, **fields):
    """Return an object whose class is of a package."""
    return type("Result", (SimpleNamespace,), {"__module__": f"{package}.inner"})(**fields)


def part(kind, **fields):
    return of("pydantic_ai", part_kind=kind, **fields)


def reply(said):
    usage = of("pydantic_ai", input_tokens=30, output_tokens=5, cache_read_tokens=4)
    return of("pydantic_ai", kind="response", parts=[said], usage=usage, model_name="team-model", timestamp=None)


PYDANTIC_AI = [
    of("pydantic_ai", kind="request", parts=[part("user-prompt", content="What does a tent cost?")]),
    reply(part("tool-call", tool_name="price_of", args={"product": "tent"}, tool_call_id="c1")),
    of("pydantic_ai", kind="request", parts=[part("tool-return", tool_name="price_of", tool_call_id="c1", content=120)]),
    reply(part("text", content="120 euros")),
]
LANGCHAIN = [
    of("langchain_core.messages", type="human", content="What does a tent cost?"),
    of(
        "langchain_core.messages",
        type="ai",
        content="",
        tool_calls=[{"name": "price_of", "args": {"product": "tent"}, "id": "c1"}],
        usage_metadata={"input_tokens": 30, "output_tokens": 5},
    ),
    of("langchain_core.messages", type="tool", content="120", tool_call_id="c1"),
    of("langchain_core.messages", type="ai", content="120 euros", usage_metadata={"input_tokens": 40, "output_tokens": 5}),
]
INPUT_LIST = [
    {"role": "user", "content": "What does a tent cost?"},
    {"type": "function_call", "call_id": "c1", "name": "price_of", "arguments": '{"product": "tent"}'},
    {"type": "function_call_output", "call_id": "c1", "output": "120"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "120 euros"}]},
]
RESULTS = {
    "pydantic-ai": PYDANTIC_AI,
    "langchain": LANGCHAIN,
    "langgraph": {"messages": LANGCHAIN, "steps": 2},
    "openai-agents": INPUT_LIST,
}


def answer(prompt, request):
    return RESULTS[request.eval_id]
