import json

JSON, EVENTS, HTML, TEXT = "application/json", "text/event-stream", "text/html", "text/plain"
SECRET = "hunter2-0123456789 is wrong"


def streamed(*events):
    return "".join(f"data: {each if isinstance(each, str) else json.dumps(each)}\n\n" for each in events)


def chat(**choice):
    return {"object": "chat.completion.chunk", "choices": [choice]}


def used(reply, **usage):
    return {**reply, "usage": usage}


STEP = {"tool": "search", "error": "no such page"}
ANTHROPIC = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "hi"}]}
RESPONSE = {"object": "response", "status": "completed", "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]}]}
CHAT = {"choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": "hi"}}]}
CACHED = {"cached_tokens": 60}

REPLIES = {
    # places
    "names": {"a b": [{"c": 1}, {"c": 2}], "d": {"x": 3}},
    "missing": {"answer": "4", "calls": [{"d": 2}]},
    "all-empty": {"content": [], "stop_reason": "refusal"},
    "all-null": {"content": [{"text": None}]},
    "all-texts": {"content": [{"text": None}, {"text": "hi"}, {"text": " you"}]},
    "all-lists": {"content": [{"text": ["a", None]}, {"text": []}]},
    "all-mappings": {"content": [{"text": {"a": 1}}, {"text": None}]},
    "nested": {"output": [{"content": [{"text": "a"}]}, {"content": [{"text": "b"}, {}]}, {}]},
    # no answers
    "html": (HTML + "; charset=utf-8", b"<html><title>Sign in</title>"),
    "html-at-place": (HTML, b"Sign in"),
    "cut": (JSON, b'{"text": "4'),
    "deep": (JSON, b"[" * 100_000),
    "latin": (JSON, b'{"text": "\xe4"}'),
    "elsewhere": (JSON, b'{"said": "4"}'),
    "cut-of-no-kind": ("", b'{"text": "It is fo'),
    "cut-as-html": (HTML, b'{"text": "four", "cost_usd": 0.5'),
    "blank": (TEXT, b" \n"),
    "events": (EVENTS + "; charset=utf-8", streamed({"text": "4"})),
    "stream-cut-1": (EVENTS, 'data: {"t": "He'),
    "stream-cut-2": (EVENTS, 'data: {"text": "fo'),
    "stream-cut-3": (EVENTS, "data: {"),
    "stream-cut-4": (EVENTS, streamed({"t": "fo"}) + 'data: {"t'),
    "stream-empty": (EVENTS, "data: "),
    "stream-error-event": (EVENTS, "data: a\n\nevent: error\ndata: no room\n\n"),
    "stream-of-claude": (EVENTS, streamed({"type": "message_start"}, {"delta": {"text": "a"}})),
    "stream-of-gemini": (EVENTS, streamed({"candidates": [{"content": {"parts": [{"text": "a"}]}}]})),
    "stream-that-is-json": (JSON, b'{"error": "quota"}'),
    # letters and pages
    "json-latin": (JSON + "; charset=iso-8859-1", '{"text": "Größe"}'.encode("latin-1")),
    "json-nobody": (JSON + "; charset=nobody-knows", '{"text": "Größe"}'),
    "json-utf-16": (JSON, '{"text": "Größe"}'.encode("utf-16")),
    "json-bom": (JSON, '{"text": "Größe"}'.encode("utf-8-sig")),
    "text-latin": (TEXT + "; charset=iso-8859-1", "Größe".encode("latin-1")),
    "text-undefined": (TEXT + "; charset=undefined", "Größe"),
    "text-base64": (TEXT + "; charset=base64", "Größe"),
    "text-bom": (TEXT, "Größe".encode("utf-8-sig")),
    "page-asked-for": (HTML, "<html>Hi</html>"),
    "page-as-text": (TEXT, "<html>Hi</html>"),
    "no-page": (HTML, "A text of a framework that calls every text a page"),
    "bold": (HTML, "<b>Hi</b>"),
    "number-as-html": (HTML, "1.50"),
    "brace-in-text": (TEXT, '{"a": 1'),
    # errors beside an answer
    **{f"error-{at}": {"said": "Try later.", "error": error} for at, error in enumerate(["quota", True, 503, ["quota"], [{"message": "quota"}], {"code": 503}])},
    "error-beside-nothing": {"text": "", "error": "quota"},
    "error-asked-for": {"error": "quota"},
    **{f"no-error-{at}": {"said": "4", "error": error} for at, error in enumerate([None, "", {}, [], 0, False, {"code": 0, "message": None}])},
    **{f"no-error-streamed-{at}": (EVENTS, streamed({"said": "4", "error": error})) for at, error in enumerate([None, "", {}, [], 0, False, {"code": 0, "message": None}])},
    # streams
    **{
        f"broken-off-{at}": (EVENTS, streamed({"delta": "It is fo"}, event, "[DONE]"))
        for at, event in enumerate([
            {"error": {"message": "overloaded", "code": 502}},
            {"error": "overloaded", "delta": ""},
            {"type": "run_error", "error": "overloaded"},
            {"type": "RunFailed", "error": "overloaded"},
        ])
    },
    "step-type": (EVENTS, streamed({"delta": "It is "}) + "event: tool_result\n" + streamed({**STEP, "type": "tool_result"}, {"delta": "4."})),
    "step-event": (EVENTS, streamed({"delta": "It is "}) + "event: tool_result\n" + streamed({**STEP, "event": "tool_result"}, {"delta": "4."})),
    "step-named-by-the-stream": (EVENTS, streamed({"delta": "It is "}) + "event: tool_result\n" + streamed(STEP, {"delta": "4."})),
    "chat-stops-early": (EVENTS, streamed(chat(delta={"content": "a"}, finish_reason=None))),
    "chat-done": (EVENTS, streamed(chat(delta={"content": "a"}, finish_reason=None), "[DONE]")),
    "chat-finished": (EVENTS, streamed(chat(delta={"content": "a"}, finish_reason=None), chat(finish_reason="stop"))),
    "numbers": (EVENTS, streamed("I have ", "5", " tents")),
    "number-in-pieces": (EVENTS, streamed("1", ".50")),
    "quoted-pieces": (EVENTS, streamed('"a"', '"5"')),
    "json-in-pieces": (EVENTS, streamed('{"', "a", '": 1}')),
    "pieces-and-whole": (EVENTS, streamed("It is ", "5", {"text": "It is 5"})),
    "many-lines": (EVENTS, "data: a\r\ndata: b\r\n\r\nid: 1\rdata: c\r\rdata: rest"),
    "numbers-at-places": (EVENTS, streamed({"t": "I have "}, {"t": 5}, {"t": None}, {"t": " tents"})),
    # tokens
    "tokens-claude": used(ANTHROPIC, input_tokens=10, cache_creation_input_tokens=5000, cache_read_input_tokens=200, output_tokens=4),
    "tokens-response": used(RESPONSE, input_tokens=100, input_tokens_details=CACHED, output_tokens=9),
    "tokens-chat": used(CHAT, prompt_tokens=100, prompt_tokens_details=CACHED, completion_tokens=9),
    "tokens-xai": used(CHAT, prompt_tokens=10, completion_tokens=2, total_tokens=17, completion_tokens_details={"reasoning_tokens": 5}),
    "tokens-half-response": used(RESPONSE, input_tokens=100, input_tokens_details={}, output_tokens=None),
    "tokens-half-claude": used(ANTHROPIC, input_tokens=100, cache_read_input_tokens=5),
    "tokens-half-chat": used(CHAT, prompt_tokens=100, total_tokens=100),
    "tokens-a-text": used({"text": "hi"}, input=7, output="4000"),
    "tokens-a-number": {"text": "hi", "usage": 12},
    "tokens-none": {"text": "hi", "usage": None},
    "tokens-empty": used({"text": "hi"}),
    "tokens-null": used({"text": "hi"}, input=None, output=None),
    "tokens-0": used({"text": "hi"}, input=0, output=0),
    "tokens-in-alone": used({"text": "hi"}, **{"in": 7}),
    # errors that hold a secret near the place where a text is cut
    **{f"secret-event-{before}": (EVENTS, f"event: error\ndata: {'w' * before}{SECRET}\n\n") for before in (41, 50, 55, 339, 345, 390)},
    **{f"secret-error-{before}": {"error": "w" * before + SECRET} for before in (41, 50, 55, 339, 345, 390)},
    **{f"secret-key-{before}": {"w" * before + SECRET: 1} for before in (41, 50, 55, 339, 345, 390)},
}


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        return
    await receive()
    reply = REPLIES[scope["path"].strip("/")]
    kind, body = reply if isinstance(reply, tuple) else (JSON, json.dumps(reply))
    headers = [(b"content-type", kind.encode())] if kind else []
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body if isinstance(body, bytes) else body.encode()})
