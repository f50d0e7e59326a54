import asyncio
import itertools


def chunk(delta, reason=None, **more):
    choices = [{"index": 0, "delta": delta, "finish_reason": reason}]
    return {"object": "chat.completion.chunk", "model": "team-model", "choices": choices, **more}


def call(**function):
    return {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": function}]}


CHAT = [
    chunk({"role": "assistant", "content": ""}),
    chunk(call(name="price_of", arguments='{"prod')),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": 'uct": "tent"}'}}]}),
    chunk({"content": "120 "}),
    chunk({"content": "euros"}),
    chunk({}, "stop"),
    {**chunk({}), "choices": [], "usage": {"prompt_tokens": 30, "completion_tokens": 5}},
]
STREAMS = {
    "endless": itertools.repeat("m" * 2**20),
    "waits": ["120 euros"],
    "texts": ["120 ", "euros"],
    "texts-then-result": ["120 ", "euros", {"text": "120 euros", "cost_usd": 0.5}],
    "chat": CHAT,
    "nothing": [],
    "neither": [1, 2],
}


async def answer(prompt, request):
    for piece in STREAMS[request.eval_id]:
        yield piece
    if request.eval_id == "waits":
        await asyncio.sleep(1000)
