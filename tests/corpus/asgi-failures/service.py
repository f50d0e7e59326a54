JSON, HTML = b"application/json", b"text/html"
REPLIES = {
    "/status": (500, JSON, b'{"detail": "the database is down"}'),
    "/unauthorized": (401, JSON, b'{"detail": "no token"}'),
    "/empty": (200, JSON, b""),
    "/page": (200, HTML, b"<html><title>Sign in</title><body>Please sign in</body></html>"),
    "/cut": (200, JSON, b'{"answer": "120 eu'),
    "/error": (200, JSON, b'{"answer": "", "error": "no stock"}'),
    "/path": (200, JSON, b'{"reply": {"text": "120 euros"}}'),
}


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        return
    await receive()
    if scope["path"] == "/raises":
        raise LookupError("no such product")
    status, kind, body = REPLIES[scope["path"]]
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", kind)]})
    await send({"type": "http.response.body", "body": body})
