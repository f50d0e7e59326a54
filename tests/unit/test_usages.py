"""The tokens that a service reports."""

import asyncio
import json
from typing import Any

import pytest

from pytest_agentv.model.messages import TokenUsage
from pytest_agentv.providers.api.base import HttpReply
from pytest_agentv.providers.base import ProviderResponse
from pytest_agentv.providers.service_reply import Paths, parse_path, read_reply

ANTHROPIC = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "hi"}]}
RESPONSE = {
    "object": "response",
    "status": "completed",
    "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]}],
}
CHAT = {"choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": "hi"}}]}


def read(reply: dict[str, Any], tokens: Any = None, answer: str | None = None) -> ProviderResponse:
    http = HttpReply(200, {"content-type": "application/json"}, json.dumps(reply).encode())
    paths = Paths(parse_path(answer) if answer else None, tokens, None, None)
    return asyncio.run(read_reply(http, paths, "target", is_stream=False))


@pytest.mark.parametrize(
    ("reply", "usage", "expected"),
    [
        (
            ANTHROPIC,
            {
                "input_tokens": 10,
                "cache_creation_input_tokens": 5000,
                "cache_read_input_tokens": 200,
                "output_tokens": 4,
            },
            TokenUsage(5010, 4, 200),
        ),
        (
            ANTHROPIC,
            {"input_tokens": 10, "output_tokens": 4, "output_tokens_details": {"thinking_tokens": 3}},
            TokenUsage(10, 4, None, 3),
        ),
        (
            RESPONSE,
            {
                "input_tokens": 100,
                "input_tokens_details": {"cached_tokens": 60},
                "output_tokens": 9,
                "output_tokens_details": {"reasoning_tokens": 5},
            },
            TokenUsage(40, 9, 60, 5),
        ),
        (
            CHAT,
            {"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 60}, "completion_tokens": 9},
            TokenUsage(40, 9, 60),
        ),
        (
            CHAT,  # xAI reports what was spent on reasoning in the total only
            {
                "prompt_tokens": 10,
                "completion_tokens": 2,
                "total_tokens": 17,
                "completion_tokens_details": {"reasoning_tokens": 5},
            },
            TokenUsage(10, 7, None, 5),
        ),
        (RESPONSE, {"input_tokens": 100}, None),
        (RESPONSE, {"input_tokens": 100, "input_tokens_details": {}, "output_tokens": None}, None),
        (ANTHROPIC, {"input_tokens": 100, "cache_read_input_tokens": 5}, None),
        (CHAT, {"prompt_tokens": 100, "total_tokens": 100}, None),
    ],
)
def test_tokens_count_alike_with_and_without_a_path(
    reply: dict[str, Any], usage: dict[str, Any], expected: TokenUsage | None
) -> None:
    whole = {**reply, "usage": usage}
    assert read(whole).token_usage == read(whole, parse_path("$.usage")).token_usage == expected


@pytest.mark.parametrize(
    ("tokens", "usage", "shown"),
    [
        ("$.usage", {"input": 7, "output": "4000"}, '{"input":7,"output":"4000"}'),
        ("$.usage", 12, "12"),
        ({"input": "$.usage.in"}, {"in": 7}, '{"input":7}'),
        ({"input": "$.usage.in", "output": "$.usage.out?"}, {"in": 7}, '{"input":7,"output":null}'),
    ],
)
def test_what_is_unknown_is_not_0_and_is_told(tokens: Any, usage: Any, shown: str) -> None:
    paths = parse_path(tokens) if isinstance(tokens, str) else {name: parse_path(path) for name, path in tokens.items()}
    response = read({"text": "hi", "usage": usage}, paths, "$.text")
    assert response.token_usage is None
    assert response.warnings == (
        f"the tokens are {shown} and were left out: expected the numbers of input and of output tokens",
    )


@pytest.mark.parametrize("usage", [None, {}, {"input": None, "output": None}, {"input": 0, "output": 0}])
def test_tokens_that_are_not_reported_are_no_fault(usage: Any) -> None:
    response = read({"text": "hi", "usage": usage}, parse_path("$.usage"), "$.text")
    assert (response.token_usage, response.warnings) == (None, ())
