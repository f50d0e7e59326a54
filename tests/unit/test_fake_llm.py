"""The server that stands in for models: what coding agents get from it, read as a client reads it."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import httpx
import pytest
from fake_llm import FakeLlm, Reply, ToolCall

# Without TLS no certificates are needed, which are read anew for each client.
get, post = partial(httpx.get, verify=False), partial(httpx.post, verify=False)

CALLS = (ToolCall("read", {"path": "a.txt"}, said="I will look."), ToolCall("write", {"path": "b.txt"}))

PATHS = {
    "anthropic": "/v1/messages",
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "gemini": "/v1beta/models/m:streamGenerateContent?alt=sse",
}


@pytest.fixture(scope="module")
def llm() -> Iterator[FakeLlm]:
    with FakeLlm() as server:
        yield server


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A script of the server for each test."""
    return str(abs(hash(request.node.nodeid)))


def conversation(api: str, results: int = 0, question: str = "hi") -> dict[str, Any]:
    """A request with so many results of tools in it."""
    said = {"role": "user", "content": question}
    if api == "anthropic":
        blocks = [{"type": "tool_result", "tool_use_id": f"call_{n}", "content": "x"} for n in range(results)]
        return {"model": "m", "stream": True, "messages": [said, {"role": "user", "content": blocks}]}
    if api == "chat":
        done = [{"role": "tool", "tool_call_id": f"call_{n}", "content": "x"} for n in range(results)]
        return {"model": "m", "stream": True, "messages": [said, *done]}
    if api == "responses":
        outputs = [{"type": "function_call_output", "call_id": f"call_{n}", "output": "x"} for n in range(results)]
        return {"model": "m", "stream": True, "input": [{"type": "message", **said}, *outputs]}
    parts = [{"functionResponse": {"name": "t", "response": {}}}] * results
    return {"contents": [{"role": "user", "parts": [{"text": question}, *parts]}]}


def events(url: str, api: str, body: Any) -> list[Any]:
    reply = post(f"{url}{PATHS[api]}", json=body)
    assert (reply.status_code, reply.headers["content-type"]) == (200, "text/event-stream")
    payloads = [line.removeprefix("data: ") for line in reply.text.split("\n") if line.startswith("data: ")]
    assert (payloads[-1] == "[DONE]") == (api == "chat")
    return [json.loads(payload) for payload in payloads if payload != "[DONE]"]


def read_anthropic(stream: list[Any]) -> tuple[str, list[Any]]:
    deltas = [event["delta"] for event in stream if event["type"] == "content_block_delta"]
    starts = [event["content_block"] for event in stream if event["type"] == "content_block_start"]
    names = [block["name"] for block in starts if block["type"] == "tool_use"]
    arguments = [json.loads(delta["partial_json"]) for delta in deltas if "partial_json" in delta]
    assert [stream[0]["type"], stream[-1]["type"]] == ["message_start", "message_stop"]
    assert stream[-2]["delta"]["stop_reason"] == ("tool_use" if names else "end_turn")
    return "".join(delta.get("text", "") for delta in deltas), list(zip(names, arguments, strict=True))


def read_chat(stream: list[Any]) -> tuple[str, list[Any]]:
    deltas = [event["choices"][0]["delta"] for event in stream if event["choices"]]
    calls = [call["function"] for delta in deltas for call in delta.get("tool_calls", ())]
    names = [call["name"] for call in calls if "name" in call]
    arguments = [json.loads(call["arguments"]) for call in calls if call["arguments"]]
    assert stream[-1]["usage"]["prompt_tokens"] == 30
    assert stream[-2]["choices"][0]["finish_reason"] == ("tool_calls" if names else "stop")
    return "".join(delta.get("content", "") for delta in deltas), list(zip(names, arguments, strict=True))


def read_responses(stream: list[Any]) -> tuple[str, list[Any]]:
    items = [event["item"] for event in stream if event["type"] == "response.output_item.done"]
    text = "".join(event["delta"] for event in stream if event["type"] == "response.output_text.delta")
    assert [stream[0]["type"], stream[-1]["type"]] == ["response.created", "response.completed"]
    assert stream[-1]["response"]["output"] == items
    calls = [item for item in items if item["type"] == "function_call"]
    return text, [(call["name"], json.loads(call["arguments"])) for call in calls]


def read_gemini(stream: list[Any]) -> tuple[str, list[Any]]:
    parts = [part for event in stream for part in event["candidates"][0]["content"]["parts"]]
    calls = [part["functionCall"] for part in parts if "functionCall" in part]
    return "".join(part.get("text", "") for part in parts), [(call["name"], call["args"]) for call in calls]


READERS: dict[str, Callable[[list[Any]], tuple[str, list[Any]]]] = {
    "anthropic": read_anthropic,
    "chat": read_chat,
    "responses": read_responses,
    "gemini": read_gemini,
}


@pytest.mark.parametrize("api", PATHS)
def test_a_play_asks_for_its_tools_in_turn_and_then_answers(llm: FakeLlm, name: str, api: str) -> None:
    url = llm.script(name, Reply("It is done.", calls=CALLS))

    said = [READERS[api](events(url, api, conversation(api, results))) for results in (0, 1, 2)]

    assert said == [
        ("I will look.", [("read", {"path": "a.txt"})]),
        ("", [("write", {"path": "b.txt"})]),
        ("It is done.", []),
    ]
    assert [request.method for request in llm.asked(name)] == ["POST"] * 3


@pytest.mark.parametrize("api", PATHS)
def test_a_fault_comes_when_the_tools_have_been_called(llm: FakeLlm, name: str, api: str) -> None:
    url = llm.script(name, Reply(status=500, message="overloaded", calls=CALLS[:1]))

    assert READERS[api](events(url, api, conversation(api)))[1]
    failure = post(f"{url}{PATHS[api]}", json=conversation(api, 1), headers={"x-api-key": "k"})
    assert (failure.status_code, failure.json()["error"]["message"]) == (500, "overloaded to the key k")
