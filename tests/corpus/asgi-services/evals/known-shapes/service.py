import json

CALL = {"tool": "search", "input": {"query": "tent"}}
REPLIES = {
    "/text": ("text/plain", "120 euros"),
    "/json-text": ("application/json", '"120 euros"'),
    "/mapping": ("application/json", json.dumps({"text": "120 euros", "cost_usd": 0.5})),
    "/messages": ("application/json", json.dumps({"output_messages": [{"role": "assistant", "content": "120 euros", "tool_calls": [CALL]}]})),
    "/chat": ("application/json", json.dumps({"choices": [{"message": {"role": "assistant", "content": "120 euros"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 30, "completion_tokens": 5}})),
    "/other": ("application/json", json.dumps({"price": 120})),
}


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        return
    await receive()
    kind, body = REPLIES[scope["path"]]
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind.encode())]})
    await send({"type": "http.response.body", "body": body.encode()})
