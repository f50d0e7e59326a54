import json

TOKENS = {"prompt_tokens": 30, "completion_tokens": 5, "total_tokens": 35}


def piece(text, **more):
    return {"choices": [{"index": 0, "delta": {"content": text}, **more}]}


HELLO = [piece("Hel"), piece("lo")]
STREAMS = {
    "/reason-then-tokens": [*HELLO, piece("", finish_reason="stop"), {"choices": [], "usage": TOKENS}],
    "/tokens-without-a-reason": [*HELLO, {"choices": [], "usage": TOKENS}],
    "/cut": HELLO,
}


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        return
    await receive()
    events = "".join(f"data: {json.dumps(event)}\n\n" for event in STREAMS[scope["path"]])
    headers = [(b"content-type", b"text/event-stream")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": events.encode()})
