import asyncio

JSON, HTML = b"application/json", b"text/html"
REPLIES = {
    "/status": (500, JSON, b'{"detail": "the database is down"}'),
    "/unauthorized": (401, JSON, b'{"detail": "no token"}'),
    "/empty": (200, JSON, b""),
    "/page": (200, HTML, b"<html><title>Sign in</title><body>Please sign in</body></html>"),
    "/cut": (200, JSON, b'{"answer": "120 eu'),
    "/error": (200, JSON, b'{"answer": "", "error": "no stock"}'),
    "/moved": (307, JSON, b""),
    "/path": (200, JSON, b'{"reply": {"text": "120 euros"}}'),
}


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        return
    await receive()
    if scope["path"] == "/raises":
        raise LookupError("no such product")
    if scope["path"] == "/silent":
        return
    if scope["path"] in ("/half", "/endless"):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(1 if scope["path"] == "/half" else 99):
            await send({"type": "http.response.body", "body": b"x" * 2**20, "more_body": True})
        return
    if scope["path"] == "/slow":
        await asyncio.Event().wait()
    status, kind, body = REPLIES[scope["path"]]
    headers = [(b"content-type", kind), (b"location", b"/elsewhere")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
