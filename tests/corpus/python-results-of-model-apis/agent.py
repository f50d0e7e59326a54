QUESTION = {"role": "user", "content": "What does a tent cost?"}
CALL = {"id": "c1", "type": "function", "function": {"name": "price_of", "arguments": '{"product": "tent"}'}}
ASKED = {"role": "assistant", "content": None, "tool_calls": [CALL]}
FOUND = {"role": "tool", "tool_call_id": "c1", "content": '{"euros": 120}'}
SAID = {"role": "assistant", "content": "120 euros"}
USAGE = {
    "prompt_tokens": 30,
    "completion_tokens": 5,
    "prompt_tokens_details": {"cached_tokens": 4},
    "completion_tokens_details": {"reasoning_tokens": 2},
}


def completion(message, reason="stop"):
    choices = [{"index": 0, "message": message, "finish_reason": reason}]
    return {"object": "chat.completion", "model": "team-model", "choices": choices, "usage": USAGE}


RESPONSE = {
    "object": "response",
    "status": "completed",
    "model": "team-model",
    "output": [
        {"type": "function_call", "call_id": "c1", "name": "price_of", "arguments": '{"product": "tent"}'},
        {"type": "function_call_output", "call_id": "c1", "output": '{"euros": 120}'},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "120 euros"}]},
    ],
    "usage": {"input_tokens": 30, "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 2}},
}
CLAUDE = {
    "type": "message",
    "role": "assistant",
    "model": "team-model",
    "content": [{"type": "text", "text": "120 euros"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 26, "output_tokens": 5, "cache_read_input_tokens": 4},
}
CLAUDE_MESSAGES = [
    QUESTION,
    {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "price_of", "input": {"product": "tent"}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": '{"euros": 120}'}]},
    {"role": "assistant", "content": [{"type": "text", "text": "120 euros"}]},
]
GEMINI = {
    "candidates": [{"content": {"role": "model", "parts": [{"text": "120 euros"}]}, "finishReason": "STOP"}],
    "usageMetadata": {"promptTokenCount": 30, "candidatesTokenCount": 5, "totalTokenCount": 35},
    "modelVersion": "team-model",
}
GEMINI_CONTENTS = [
    {"role": "user", "parts": [{"text": "What does a tent cost?"}]},
    {"role": "model", "parts": [{"functionCall": {"name": "price_of", "args": {"product": "tent"}}}]},
    {"role": "user", "parts": [{"functionResponse": {"name": "price_of", "response": {"euros": 120}}}]},
    {"role": "model", "parts": [{"text": "120 euros"}]},
]
RESULTS = {
    "completion": completion(SAID),
    "replies": [completion(ASKED, "tool_calls"), completion(SAID)],
    "chat": [QUESTION, ASKED, FOUND, SAID],
    "chat-and-more": {"messages": [QUESTION, ASKED, FOUND, SAID], "token_usage": {"input": 60, "output": 10}, "cost_usd": 0.004},
    "response": RESPONSE,
    "claude": CLAUDE,
    "claude-messages": CLAUDE_MESSAGES,
    "gemini": GEMINI,
    "gemini-contents": GEMINI_CONTENTS,
}


def answer(prompt, request):
    return RESULTS[request.eval_id]
