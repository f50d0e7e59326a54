import json


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        return
    body = (await receive())["body"].decode()
    headers = {name.decode(): value.decode() for name, value in scope["headers"] if name.startswith(b"x-")}
    asked = {"method": scope["method"], "path": scope["path"], "query": scope["query_string"].decode(), "headers": headers}
    reply = {
        "answer": json.dumps({**asked, "body": body}),
        "usage": {"prompt_tokens": 30, "completion_tokens": 5},
        "counts": [{"in": 30}, {"out": 5}],
        "steps": [{"name": "search", "args": {"query": "tent"}, "result": "120 euros"}],
        "sources": [{"text": "tent: 120 euros"}, {"title": "no text"}],
    }
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": json.dumps(reply).encode()})
