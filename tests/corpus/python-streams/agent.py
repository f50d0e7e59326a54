def chunk(delta, reason=None, **more):
    choices = [{"index": 0, "delta": delta, "finish_reason": reason}]
    return {"object": "chat.completion.chunk", "model": "team-model", "choices": choices, **more}


def call(**function):
    return {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": function}]}


CHAT = [
    chunk({"role": "assistant", "content": ""}),
    chunk(call(name="price_of", arguments='{"prod')),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": 'uct": "tent"}'}}]}),
    chunk({"content": "120 "}),
    chunk({"content": "euros"}),
    chunk({}, "stop"),
    {**chunk({}), "choices": [], "usage": {"prompt_tokens": 30, "completion_tokens": 5}},
]
CLAUDE = [
    {"type": "message_start", "message": {"type": "message", "role": "assistant", "content": [], "model": "team-model", "usage": {"input_tokens": 30, "output_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "120 "}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "euros"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}},
    {"type": "message_stop"},
]
GEMINI = [
    {"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, **more}], "usageMetadata": {"promptTokenCount": 30, "candidatesTokenCount": 5}}
    for text, more in (("120 ", {}), ("euros", {"finishReason": "STOP"}))
]
STREAMS = {
    "texts": ["120 ", "euros"],
    "texts-then-result": ["120 ", "euros", {"text": "120 euros", "cost_usd": 0.5}],
    "chat": CHAT,
    "claude": CLAUDE,
    "gemini": GEMINI,
    "nothing": [],
    "neither": [1, 2],
}


async def answer(prompt, request):
    for piece in STREAMS[request.eval_id]:
        yield piece
