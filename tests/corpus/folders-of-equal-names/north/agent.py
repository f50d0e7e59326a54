def answer(prompt):
    return "function north"

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        raise RuntimeError("there is none")
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"app north"})
