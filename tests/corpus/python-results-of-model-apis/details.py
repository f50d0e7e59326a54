from agent import ASKED, FOUND, GEMINI, QUESTION, RESPONSE, SAID, completion

YES = {"role": "assistant", "content": "Yes."}


class Chunks(list):
    """What a function yields."""


def chunk(delta, reason=None, **more):
    return {"object": "chat.completion.chunk", "choices": [{"delta": delta, "finish_reason": reason}], **more}


def response(*output, model="gpt-5"):
    usage = {"input_tokens": 30, "output_tokens": 5}
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "120 euros"}]}
    return {"object": "response", "output": [*output, said], "model": model, "usage": usage, "status": "completed"}


def claude(**usage):
    text = {"type": "text", "text": "120 euros", "citations": [{"cited_text": "a page"}]}
    told = {"type": "message", "role": "assistant", "content": [text], "model": "claude-sonnet-4-5"}
    return {**told, "usage": {"cache_read_input_tokens": 4, "output_tokens": 5, **usage}, "stop_reason": "end_turn"}


def looked(**action):
    return {"type": "web_search_call", "id": "w", "status": "completed", "action": action}


CUSTOM = {"id": "c", "type": "custom", "custom": {"name": "run", "input": "42"}}
BEGUN = [{**CUSTOM, "index": 0, "custom": {"name": "run", "input": "4"}}]
LOOK = {"name": "lookup", "arguments": '{"order": 7}'}
I_LOOK = {"role": "assistant", "content": "I look.", "function_call": LOOK}
GEMINI_CALL = {
    **GEMINI["candidates"][0],
    "content": {
        "role": "model",
        "parts": [
            {"text": "hmm", "thought": True},
            {"functionCall": {"name": "lookup", "args": {"order": 7}}},
            {"executableCode": {"language": "PYTHON", "code": "print(1)"}},
            {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
            {"executableCode": {"language": "PYTHON", "code": "print(2)"}},
            {"codeExecutionResult": {"outcome": "OUTCOME_OK"}},
            {"toolCall": {"id": "s", "toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": ["tent"]}}},
            {"toolResponse": {"id": "s", "toolType": "GOOGLE_SEARCH_WEB", "response": {"n": 2}}},
            {"toolCall": {"toolType": "URL_CONTEXT"}},
            {"functionCall": {"name": "now"}},
            {"functionCall": {"name": "now", "args": None}},
            {"functionCall": None, "executableCode": None, "toolCall": None},
            {"text": "120 euros"},
        ],
    },
    "groundingMetadata": {"groundingChunks": [{"retrievedContext": {"text": "a page"}}]},
}
GEMINI_USAGE = {"promptTokenCount": 30, "candidatesTokenCount": 5, "thoughtsTokenCount": 2, "cachedContentTokenCount": 4}


def called(**function):
    return completion({"content": "120 euros", "tool_calls": [{"id": "c", "type": "function", "function": function}]})


RESULTS = {
    # What an answer costs: what the reply tells, else the price of its model; other services have no known price.
    "price": {**completion(SAID), "model": "gpt-4o"},
    "price-of-router": {**completion(SAID), "usage": {"prompt_tokens": 1, "completion_tokens": 1, "cost": 2}},
    "price-of-claude": claude(input_tokens=26, cache_creation_input_tokens=0),
    "price-of-cache-writes": claude(input_tokens=20, cache_creation_input_tokens=6),
    "price-of-response": response({"type": "function_call", "call_id": "c", "name": "lookup", "arguments": "{}"}),
    "price-of-mcp": response({"type": "mcp_call", "id": "c", "name": "lookup", "arguments": "{}"}),
    "price-of-shell": response({"type": "shell_call", "id": "c", "environment": {"type": "local"}}),
    "no-price-of-container": response(
        {"type": "shell_call", "id": "c", "environment": {"type": "container_reference", "container_id": "x"}}
    ),
    "no-price-of-code": response({"type": "code_interpreter_call", "id": "c", "code": "1", "container_id": "x"}),
    "no-price-of-pictures": response({"type": "image_generation_call", "id": "c", "result": "AAAA"}),
    "no-price-of-search": response(looked(type="search", query="tents")),
    "no-price-of-file-search": response({"type": "file_search_call", "id": "f", "results": [{"text": "a page"}]}),
    # What was said before the last question is no answer.
    "last-question": [QUESTION, ASKED, FOUND, SAID, QUESTION, YES],
    # Calls: the free text of a tool is no JSON, arguments that are no JSON stay a text, none are none.
    "custom": completion({"role": "assistant", "content": "120 euros", "tool_calls": [CUSTOM]}, "tool_calls"),
    "custom-in-chunks": Chunks([
        chunk({"content": "120 euros"}),
        chunk({"tool_calls": BEGUN}),
        chunk({"tool_calls": [{"index": 0, "custom": {"input": "2"}}]}, "tool_calls"),
    ]),
    "custom-in-response": response(
        {"type": "custom_tool_call", "call_id": "c", "name": "run", "input": '{"a": 1}'},
        {"type": "code_interpreter_call", "id": "c", "code": "42", "outputs": None},
    ),
    "function-call": completion({**I_LOOK, "content": "120 euros"}, "function_call"),
    "function-call-in-chunks": Chunks([
        chunk({"content": "120 euros", "function_call": {"name": "lookup", "arguments": ""}}),
        chunk({"function_call": {"arguments": '{"order": 7}'}}, "stop"),
    ]),
    "function-result": [QUESTION, I_LOOK, {"role": "function", "name": "lookup", "content": "sent"}, SAID],
    "no-json": called(name="lookup", arguments="order 7"),
    "too-deep": called(name="lookup", arguments="[" * 10_000),
    "no-arguments": called(name="now"),
    "null-arguments": called(name="now", arguments=None),
    "null-text-arguments": called(name="now", arguments="null"),
    "calls-of-gemini": {"candidates": [GEMINI_CALL], "usageMetadata": GEMINI_USAGE, "modelVersion": "gemini-2.5-flash"},
    # Azure's first chunk tells of filters only.
    "azure-chunks": Chunks([
        {"object": "", "model": "", "choices": [], "prompt_filter_results": [{"prompt_index": 0}]},
        chunk({"content": "120 euros"}, "stop", model="gpt-4o"),
    ]),
    # Beside messages, everything that is known may be told.
    "all-that-is-known": {
        "messages": [QUESTION, ASKED, FOUND, SAID],
        "token_usage": {"input": 1, "output": 2, "reasoning": 1},
        "costUsd": 0.5,
        "retrieved_context": ["a page"],
    },
    "cut": {**RESPONSE, "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
    "failed": {**response(), "status": "failed", "error": {"message": "overloaded"}},
    "blocked": {"promptFeedback": {"blockReason": "SAFETY"}},
}


def answer(prompt, request):
    found = RESULTS[request.eval_id]
    return iter(found) if isinstance(found, Chunks) else found
