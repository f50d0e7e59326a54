import json

starts = 0


async def app(scope, receive, send):
    global starts
    if scope["type"] == "lifespan":
        await receive()
        starts += 1
        scope["state"]["shop"] = "north"
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    await receive()
    body = json.dumps({"answer": f"{scope['state']['shop']}, started {starts} time"})
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": body.encode()})


async def broken(scope, receive, send):
    await receive()
    await send({"type": "lifespan.startup.failed", "message": "no database"})


async def odd(scope, receive, send):
    if scope["type"] != "lifespan":
        return await app({**scope, "state": {"shop": "north"}}, receive, send)
    await receive()
    raise RuntimeError("no lifespan here")


async def odd_end(scope, receive, send):
    if scope["type"] != "lifespan":
        return await app({**scope, "state": {"shop": "north"}}, receive, send)
    await receive()
    await send({"type": "lifespan.startup.complete"})
    await receive()
    raise RuntimeError("no database to close")


no_application = []
