import json


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        return
    await receive()
    reply = {"answer": "hello", "usage": {"input_tokens": 10}}
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": json.dumps(reply).encode()})
