STREAM = b"""\
: keep-alive

event: step
data: {"text": "120 ", "usage": {"input_tokens": 30, "output_tokens": 1}}

data: {"text": "euros"}

data: {"usage": {"input_tokens": 30, "output_tokens": 5}}

data: [DONE]

"""


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        return
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
    for line in STREAM.splitlines(keepends=True):
        await send({"type": "http.response.body", "body": line, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
