import json

TOKENS = {"prompt_tokens": 30, "completion_tokens": 5, "total_tokens": 35}


def piece(text, **more):
    return {"choices": [{"index": 0, "delta": {"content": text}, **more}]}


HELLO = [piece("Hel"), piece("lo")]
CLAUDE = [
    {"type": "message_start", "message": {"usage": {"input_tokens": 30, "output_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello"}},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}},
]
STREAMS = {
    "/reason-then-tokens": [*HELLO, piece("", finish_reason="stop"), {"choices": [], "usage": TOKENS}],
    "/tokens-without-a-reason": [*HELLO, {"choices": [], "usage": TOKENS}],
    "/claude-reason-with-tokens": CLAUDE,
    "/cut": HELLO,
    "/claude-cut": CLAUDE[:-1],
}


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        return
    await receive()
    events = "".join(f"data: {json.dumps(event)}\n\n" for event in STREAMS[scope["path"]])
    headers = [(b"content-type", b"text/event-stream")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": events.encode()})
