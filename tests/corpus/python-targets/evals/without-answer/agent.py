USAGE = {"prompt_tokens": 30, "completion_tokens": 5}


def completion(message, reason="stop", **more):
    return {"choices": [{"message": {"role": "assistant", **message}, "finish_reason": reason, **more}], "usage": USAGE}


RESULTS = {
    "refusal": completion({"content": None, "refusal": "I will not."}),
    "filter": completion({"content": ""}, "content_filter"),
    "limit": completion({"content": None}, "length"),
    "empty": completion({"content": None}),
    "broken-off": completion({"content": "It is fo"}, error={"code": 502, "message": "overloaded"}),
    "claude-refusal": {"type": "message", "role": "assistant", "content": [], "usage": {}, "stop_reason": "refusal"},
    "gemini-safety": {"candidates": [{"finishReason": "SAFETY"}]},
    "last-word-of-the-user": [{"role": "assistant", "content": "Hi"}, {"role": "user", "content": "And?"}],
}


def answer(prompt, request):
    return RESULTS[request.eval_id]
