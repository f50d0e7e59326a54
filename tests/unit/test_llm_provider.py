"""Models behind an API, asked at a server that speaks their languages; some through the real litellm."""

import asyncio
import gc
import json
import os
import re
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from busy import slowness
from fake_llm import FakeLlm, Reply, Request
from thorough import variation, varied

from pytest_agentv.cases.prompts import ChatMessage, Prompt, PromptMode
from pytest_agentv.engine.answers import Attempts, invoke_with_retries
from pytest_agentv.errors import ProviderError
from pytest_agentv.model.cases import Target
from pytest_agentv.model.messages import Message, TokenUsage, ToolCall, is_cut
from pytest_agentv.model.secrets import Masker, Secret, masking
from pytest_agentv.providers.api import litellm as llm_import
from pytest_agentv.providers.api.failures import refused_parameter
from pytest_agentv.providers.api.provider import LlmProvider
from pytest_agentv.providers.api.replies import DEFAULT_SYSTEM_PROMPT
from pytest_agentv.providers.base import Adapter, ProviderRequest, ProviderResponse, TargetEnvironment
from pytest_agentv.providers.table import KINDS as TABLE
from pytest_agentv.providers.table import create_provider

KEY = "sk-0123456789abcdef"
KINDS = ("azure", "anthropic", "gemini", "openai")
MODELS = {
    "azure": "gpt-4o",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-2.5-flash",
    "openai": "gpt-4o",
    "litellm": "openai/gpt-4o",
}
STOPPED = {"azure": "stop", "anthropic": "end_turn", "gemini": "STOP", "openai": "stop"}
"""Why a model stopped that was at its end, in the words of each API."""
PATIENT: dict[str, Any] = {"max_retries": None, "retry_initial_delay_ms": None, "retry_max_delay_ms": None}
QUICK = {"max_retries": 2, "retry_initial_delay_ms": 1, "retry_max_delay_ms": 20}


def chat(content: str | None, finish_reason: str, **message: Any) -> Any:
    """Return the body of a chat completion; 30 of its 50 output tokens are reasoning."""
    return {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-4o",
        "choices": [
            {
                "index": 0,
                "finish_reason": finish_reason,
                "message": {"role": "assistant", "content": content, **message},
            }
        ],
        "usage": {
            "prompt_tokens": 30,
            "completion_tokens": 50,
            "total_tokens": 80,
            "completion_tokens_details": {"reasoning_tokens": 30},
        },
    }


def tool(name: str) -> Any:
    return {"id": name, "type": "function", "function": {"name": name, "arguments": "{}"}}


def anthropic(blocks: list[Any], stop_reason: str) -> Any:
    return {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": MODELS["anthropic"],
        "content": blocks,
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": {"input_tokens": 3, "output_tokens": 5},
    }


def gemini(parts: list[Any], finish_reason: str) -> Any:
    return {
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": finish_reason, "index": 0}],
        "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 5, "totalTokenCount": 8},
        "modelVersion": MODELS["gemini"],
    }


@pytest.fixture(scope="module")
def llm() -> Iterator[FakeLlm]:
    with FakeLlm() as server:
        yield server


def target(kind: str, url: str, **settings: Any) -> Target:
    base_url = f"{url}/v1" if kind in ("openai", "litellm") else url
    values = {"model": MODELS[kind], "api_key": Secret(KEY), "base_url": base_url, **QUICK, **settings}
    return Target("t", kind, TABLE.table[kind](**values), path=str(Path.cwd() / "targets.yaml"), line=3)


def ask(given: Target, request: ProviderRequest | None = None) -> ProviderResponse:
    async def run() -> ProviderResponse:
        provider = create_provider(given, {})
        try:
            return await provider.invoke(request or ProviderRequest(Prompt("What is 2 + 2?"), "c1"))
        finally:
            await provider.close()

    return asyncio.run(run())


def failure(given: Target, request: ProviderRequest | None = None) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        ask(given, request)
    return caught.value


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A script of the server for each test."""
    return str(abs(hash(request.node.nodeid)))


def arrived(llm: FakeLlm, name: str) -> Request:
    (request,) = llm.asked(name)
    return request


class TestRequests:
    @pytest.mark.scenario("Azure OpenAI provider")
    def test_azure_is_asked_for_a_chat_completion_of_the_deployment(self, llm: FakeLlm, name: str) -> None:
        ask(target("azure", llm.script(name), temperature=0.2, max_output_tokens=50))

        request = arrived(llm, name)
        assert request.path == "/openai/deployments/gpt-4o/chat/completions"
        assert request.query == {"api-version": "2024-10-01-preview"}
        assert request.headers["api-key"] == KEY
        assert request.body == {
            "model": "gpt-4o",
            "messages": [
                {"role": "system", "content": DEFAULT_SYSTEM_PROMPT},
                {"role": "user", "content": "What is 2 + 2?"},
            ],
            "temperature": 0.2,
            "max_completion_tokens": 50,
        }

    @pytest.mark.parametrize("deployment", ["o3-mini", "gpt-4o", "my-deployment"])
    def test_an_azure_deployment_of_a_reasoning_model_gets_no_temperature(
        self, llm: FakeLlm, name: str, deployment: str
    ) -> None:
        keys = {"model": deployment, "temperature": 0.2, "max_output_tokens": 50, "reasoning": True}
        ask(target("azure", llm.script(name), **keys))

        request = arrived(llm, name)
        assert request.path == f"/openai/deployments/{deployment}/chat/completions"
        assert request.body == {
            "model": deployment,
            "messages": [
                {"role": "system", "content": DEFAULT_SYSTEM_PROMPT},
                {"role": "user", "content": "What is 2 + 2?"},
            ],
            "max_completion_tokens": 50,
        }

    @pytest.mark.scenario("Anthropic provider")
    def test_anthropic_is_asked_for_a_message(self, llm: FakeLlm, name: str) -> None:
        ask(target("anthropic", llm.script(name), temperature=0.2, max_output_tokens=50))

        request = arrived(llm, name)
        assert request.path == "/v1/messages"
        assert (request.headers["x-api-key"], request.headers["anthropic-version"]) == (KEY, "2023-06-01")
        assert request.body == {
            "model": "claude-sonnet-4-5",
            "system": [{"type": "text", "text": DEFAULT_SYSTEM_PROMPT}],
            "messages": [{"role": "user", "content": [{"type": "text", "text": "What is 2 + 2?"}]}],
            "temperature": 0.2,
            "max_tokens": 50,
        }

    @pytest.mark.scenario("Anthropic provider")
    def test_anthropic_thinks_within_its_budget(self, llm: FakeLlm, name: str) -> None:
        ask(target("anthropic", llm.script(name), temperature=0.2, max_output_tokens=50, thinking_budget=1024))

        body = arrived(llm, name).body
        assert body["thinking"] == {"type": "enabled", "budget_tokens": 1024}
        assert body["max_tokens"] == 1074
        assert body["temperature"] == 0.2

    @pytest.mark.scenario("Google Gemini provider")
    def test_gemini_is_asked_to_generate_content(self, llm: FakeLlm, name: str) -> None:
        ask(target("gemini", llm.script(name), temperature=0.2, max_output_tokens=50))

        request = arrived(llm, name)
        assert request.path == "/v1beta/models/gemini-2.5-flash:generateContent"
        assert request.headers["x-goog-api-key"] == KEY
        assert request.body == {
            "system_instruction": {"parts": [{"text": DEFAULT_SYSTEM_PROMPT}]},
            "contents": [{"role": "user", "parts": [{"text": "What is 2 + 2?"}]}],
            "generationConfig": {"temperature": 0.2, "max_output_tokens": 50},
        }

    @pytest.mark.parametrize("kind", ["openai", "litellm"])
    def test_openai_and_models_of_litellm_are_asked_for_a_chat_completion(
        self, llm: FakeLlm, name: str, kind: str
    ) -> None:
        ask(target(kind, llm.script(name), temperature=0.2, max_output_tokens=50))

        request = arrived(llm, name)
        assert request.path == "/v1/chat/completions"
        assert request.headers["authorization"] == f"Bearer {KEY}"
        assert request.body == {
            "model": "gpt-4o",
            "messages": [
                {"role": "system", "content": DEFAULT_SYSTEM_PROMPT},
                {"role": "user", "content": "What is 2 + 2?"},
            ],
            "temperature": 0.2,
            "max_tokens": 50,
        }

    def test_requests_in_flight_learn_of_one_refusal(self, llm: FakeLlm, name: str) -> None:
        refusals = [Reply(status=400, message="`temperature` is deprecated.", when='"temperature"')] * 3
        url = llm.script(name, *refusals, Reply("four", when="What"))

        async def run() -> list[ProviderResponse]:
            provider = create_provider(target("openai", url, temperature=0.2), {})
            try:
                request = ProviderRequest(Prompt("What is 2 + 2?"), "c1")
                return await asyncio.gather(*(provider.invoke(request) for _ in range(3)))
            finally:
                await provider.close()

        responses = asyncio.run(run())
        assert ["temperature" in request.body for request in llm.asked(name)].count(False) == 3
        assert len({response.warnings for response in responses}) == 1
        assert [response.raw["request_attempts"] for response in responses] == [1, 1, 1]

    @pytest.mark.parametrize(
        ("said", "path"),
        [
            ("Unrecognized request argument supplied: top_p", "top_p"),
            ("`temperature` may only be set to 1 when thinking is enabled.", "temperature"),
            ("adaptive thinking is not supported on this model", "thinking"),
            ("output_config.format: Extra inputs are not permitted", "output_config.format"),
            ("output format is not supported for this model.", "output_config.format"),
            ("Unsupported parameter: 'reasoning.effort' is not supported with this model.", "reasoning.effort"),
            ("Invalid parameter: 'text.format' of type 'x' is not supported with this model.", "text.format"),
            ("Unknown name \"topP\" at 'generation_config': Cannot find field.", "top_p"),
            ("The model does not exist. Set another temperature", None),
            ("output_config.format.schema: property 'minLength' is not supported", None),
            ("`temperature` and `top_p` cannot both be specified for this model.", None),
            ("thinking with tools is not supported: use the Responses API", None),
            ("This model does not support image inputs", None),
            ("tools are not supported by this model", None),
            ("max_tokens must be greater than thinking.budget_tokens", None),
        ],
    )
    def test_a_refused_parameter_is_read_from_the_words_of_an_api(self, said: str, path: str | None) -> None:
        sent: dict[str, Any] = {
            "model": "m",
            "messages": [],
            "max_tokens": 5,
            "temperature": 1,
            "top_p": 1,
            "tools": [],
        }
        sent["thinking"] = {"type": "adaptive"}
        group = next((each for each in ("reasoning.", "text.") if each in said), "output_config.").rstrip(".")
        sent[group] = {"effort": "low", "format": {}}

        assert refused_parameter(json.dumps({"error": {"message": said, "code": 400}}), sent) == path

    def test_no_name_of_a_model_decides_what_is_sent(self, llm: FakeLlm, name: str) -> None:
        ask(target("openai", llm.script(name), model="o3", temperature=0.2))

        body = arrived(llm, name).body
        assert body["temperature"] == 0.2
        assert body["messages"][0]["role"] == "system"

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_judge_and_a_conversation_reach_every_api(self, llm: FakeLlm, name: str, kind: str) -> None:
        chat = (ChatMessage("user", "first"), ChatMessage("assistant", "second"), ChatMessage("user", "third"))
        request = ProviderRequest(Prompt("flat", "", chat), "c1", system_prompt="You are a judge.")

        ask(target(kind, llm.script(name)), request)

        shown = str(arrived(llm, name).body)
        assert [text in shown for text in ("You are a judge.", "first", "second", "third", "flat")] == [True] * 4 + [
            False
        ]
        assert DEFAULT_SYSTEM_PROMPT not in shown


class TestAnswers:
    @pytest.mark.parametrize(
        ("kind", "cost"),
        [("azure", 0.000115), ("anthropic", 0.000141), ("gemini", 1.91e-05), ("openai", 0.000115)],
    )
    @pytest.mark.scenario("Provider reports token usage")
    @pytest.mark.scenario("Provider reports cost")
    @pytest.mark.scenario("Provider reports duration")
    def test_an_answer_comes_with_tokens_cost_and_duration(
        self, llm: FakeLlm, name: str, kind: str, cost: float
    ) -> None:
        response = ask(target(kind, llm.script(name, Reply("four", cached_tokens=10))))

        assert response.output_messages == (Message("assistant", "four"),)
        assert response.token_usage == TokenUsage(input=20, output=5, cached=10)
        assert response.cost_usd is not None
        assert 0.5 * cost < response.cost_usd < 2 * cost  # prices change
        assert response.duration_ms is not None
        assert response.raw == {"model": MODELS[kind], "request_attempts": 1}
        assert response.finish_reason == STOPPED[kind]

    @pytest.mark.parametrize(
        ("kind", "model"),
        [
            ("azure", "my-deployment"),
            ("azure", "gpt-4-of-ours"),
            ("anthropic", "claude-of-ours"),
            ("gemini", "gem-of-ours"),
            ("openai", "ours"),
        ],
    )
    def test_a_model_without_a_price_has_no_cost(self, llm: FakeLlm, name: str, kind: str, model: str) -> None:
        response = ask(target(kind, llm.script(name), model=model))

        assert response.cost_usd is None
        assert response.token_usage == TokenUsage(30, 5)

    @pytest.mark.parametrize("kind", KINDS)
    def test_an_empty_answer_is_an_error_and_keeps_its_tokens(self, llm: FakeLlm, name: str, kind: str) -> None:
        response = ask(target(kind, llm.script(name, Reply(text=""))))

        assert response.error_kind == "no_answer"
        assert response.error is not None
        expected = f"model '{MODELS[kind]}' ({kind}): the model's answer is empty (finish_reason={STOPPED[kind]})"
        assert response.error == expected
        assert response.token_usage == TokenUsage(30, 5)
        assert len(llm.asked(name)) == 1

    @pytest.mark.parametrize(
        ("kind", "content", "error"),
        [
            ("openai", chat(None, "content_filter"), "there is no answer: a content filter stopped it"),
            ("azure", chat(None, "content_filter"), "there is no answer: a content filter stopped it"),
            (
                "openai",
                chat("  \n", "length"),
                "the answer was cut at max_output_tokens=16; 30 of 50 output tokens were reasoning",
            ),
            ("openai", chat(None, "stop", refusal="I cannot\nhelp"), "the model refused: I cannot help"),
            (
                "openai",
                chat(None, "tool_calls", tool_calls=[tool("get_weather"), tool("search")]),
                "the model called tools instead of answering: get_weather, search",
            ),
            ("openai", chat(None, "novel"), "the model's answer is empty"),
            ("anthropic", anthropic([], "max_tokens"), "the answer was cut at max_output_tokens=16"),
            ("anthropic", anthropic([], "refusal"), "there is no answer: the model refused"),
            (
                "anthropic",
                {**anthropic([], "refusal"), "stop_details": {"category": "bio", "explanation": "It may\nharm."}},
                "the model refused: It may harm.",
            ),
            (
                "anthropic",
                {**anthropic([], "refusal"), "stop_details": {"type": "refusal", "category": "cyber"}},
                "the model refused: cyber",
            ),
            (
                "anthropic",
                anthropic([{"type": "tool_use", "id": "x", "name": "search", "input": {}}], "tool_use"),
                "the model called tools instead of answering: search",
            ),
            ("gemini", gemini([], "MAX_TOKENS"), "the answer was cut at max_output_tokens=16"),
            ("gemini", gemini([], "SAFETY"), "there is no answer: a content filter stopped it"),
            ("gemini", gemini([], "CONTINUATION"), "the answer was cut at max_output_tokens=16"),
            (
                "gemini",
                {"promptFeedback": {"blockReason": "JAILBREAK"}},
                "there is no answer: a content filter stopped it",
            ),
            (
                "gemini",
                {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {}, "modelVersion": "g"},
                "there is no answer: a content filter stopped it",
            ),
        ],
    )
    def test_a_reply_without_an_answer_says_why_and_is_final(
        self, llm: FakeLlm, name: str, kind: str, content: Any, error: str
    ) -> None:
        response = ask(target(kind, llm.script(name, Reply(content=content)), max_output_tokens=16))

        assert response.error_kind == "no_answer"
        assert response.error == (f"model '{MODELS[kind]}' ({kind}): {error} (finish_reason={response.finish_reason})")
        assert len(llm.asked(name)) == 1

    @pytest.mark.parametrize(
        ("usage", "tokens"),
        [
            ({"prompt_tokens": 30.0, "completion_tokens": 5.0}, TokenUsage(30, 5)),
            ({"prompt_tokens": 30, "completion_tokens": 0}, TokenUsage(30, 0)),
            ({"completion_tokens": 5}, None),
            ({"prompt_tokens": 30, "completion_tokens": None}, None),
            ({"prompt_tokens": "30", "completion_tokens": 5}, None),
            ({"prompt_tokens": 30, "completion_tokens": -5}, None),
            ({"prompt_tokens": 30, "completion_tokens": float("inf")}, None),
            (None, None),
        ],
    )
    def test_tokens_of_which_a_part_is_missing_are_not_known_and_have_no_price(
        self, llm: FakeLlm, name: str, usage: Any, tokens: TokenUsage | None
    ) -> None:
        response = ask(target("openai", llm.script(name, Reply(content={**chat("four", "stop"), "usage": usage}))))

        assert response.token_usage == tokens
        assert (response.cost_usd is None) is (tokens is None)

    @pytest.mark.parametrize(
        ("kind", "usage"),
        [
            ("anthropic", {"output_tokens": 5}),
            ("anthropic", {"input_tokens": "3", "output_tokens": 5}),
            ("anthropic", {"input_tokens": 3, "cache_read_input_tokens": 2}),
            ("gemini", {"candidatesTokenCount": 5}),
            ("gemini", {"promptTokenCount": None, "candidatesTokenCount": 5}),
        ],
    )
    def test_tokens_of_which_a_part_is_missing_have_no_price(
        self, llm: FakeLlm, name: str, kind: str, usage: Any
    ) -> None:
        reply = (
            anthropic([{"type": "text", "text": "4"}], "end_turn")
            if kind == "anthropic"
            else gemini([{"text": "4"}], "STOP")
        )
        key = "usage" if kind == "anthropic" else "usageMetadata"

        response = ask(target(kind, llm.script(name, Reply(content={**reply, key: usage}))))

        assert (response.token_usage, response.cost_usd) == (None, None)

    def test_gemini_leaves_out_the_tokens_of_an_answer_without_any(self, llm: FakeLlm, name: str) -> None:
        reply = {**gemini([{"text": "4"}], "STOP"), "usageMetadata": {"promptTokenCount": 3}}

        assert ask(target("gemini", llm.script(name, Reply(content=reply)))).token_usage == TokenUsage(3, 0)

    def test_an_answer_that_an_error_of_the_server_broke_off_is_not_judged(self, llm: FakeLlm, name: str) -> None:
        given = target("openai", llm.script(name, Reply(content=chat("It is fo", "error"))))
        provider = create_provider(given, {})

        async def run() -> Attempts:
            try:
                return await invoke_with_retries(provider, ProviderRequest(Prompt("q"), "c1"), 2)
            finally:
                await provider.close()

        response = asyncio.run(run()).response
        assert response is not None
        assert response.error_kind == "network"
        assert response.error == "the answer is not whole: an error of the server broke it off (finish_reason=error)"
        assert response.token_usage == TokenUsage(30, 50, reasoning=30)
        assert len(llm.asked(name)) == 1

    @pytest.mark.parametrize("place", ["reply", "choice"])
    def test_an_error_beside_a_part_of_the_answer_is_no_answer(self, llm: FakeLlm, name: str, place: str) -> None:
        error = {"message": "the upstream is down", "code": 502}
        body = chat("It is fo", "stop")
        (body if place == "reply" else body["choices"][0])["error"] = error

        response = ask(target("openai", llm.script(name, Reply(content=body))))

        assert response.finish_reason == "error"
        assert response.output_messages == (Message("assistant", "It is fo"),)
        assert response.token_usage == TokenUsage(30, 50, reasoning=30)

    @pytest.mark.parametrize(
        ("kind", "whole", "blank"),
        [
            ("anthropic", anthropic([{"type": "text", "text": "It is fo"}], "end_turn"), anthropic([], "end_turn")),
            ("gemini", gemini([{"text": "It is fo"}], "STOP"), gemini([{"text": ""}], "STOP")),
        ],
    )
    def test_an_error_beside_an_answer_is_one_of_each_api(
        self, llm: FakeLlm, name: str, kind: str, whole: Any, blank: Any
    ) -> None:
        error = {"message": "the upstream is down", "code": 502}

        response = ask(target(kind, llm.script(name, Reply(content={**whole, "error": error}))))
        assert (response.finish_reason, response.output_messages) == ("error", (Message("assistant", "It is fo"),))

        told = failure(target(kind, llm.script(f"{name}-blank", Reply(content={**blank, "error": error}))))
        assert "replied with an error: the upstream is down" in str(told)

    def test_an_error_beside_a_blank_answer_is_told(self, llm: FakeLlm, name: str) -> None:
        body = {**chat(None, "stop"), "error": {"message": "the upstream is down", "code": 502}}

        error = failure(target("openai", llm.script(name, Reply(content=body))))

        assert str(error).startswith("model 'gpt-4o' (openai) replied with an error: the upstream is down")
        assert (error.kind, len(llm.asked(name))) == ("network", 3)

    @pytest.mark.parametrize(
        ("body", "asked", "kind", "message"),
        [
            ({"error": {"message": "the upstream is down", "code": 502}}, 3, "network", "the upstream is down"),
            ({"error": {"message": "too many", "code": 429}}, 3, "rate_limit", "too many"),
            ({"error": {"message": "no credits", "code": 402}}, 1, "config", "no credits"),
            ({"error": "boom", "choices": []}, 1, "crash", "boom"),
            ({"error": {"message": "odd", "code": "invalid"}}, 1, "crash", "odd"),
            ({"error": {"message": "too many", "code": "429"}}, 3, "rate_limit", "too many"),
            ({"error": {"message": "too many", "type": "rate_limit_error"}}, 3, "rate_limit", "too many"),
            ({"error": {"message": "down", "type": "api_error"}}, 3, "network", "down"),
            ({"error": {"message": "no room", "type": "overloaded_error"}}, 3, "network", "no room"),
            ({"error": {"message": "bad key", "type": "authentication_error"}}, 1, "auth", "bad key"),
            ({"error": {"message": "too long", "type": "api_error", "code": 400}}, 1, "config", "too long"),
            ({"error": {"message": "away", "status": 503}}, 3, "network", "away"),
            (
                {"error": {"message": "no money", "code": 429, "type": "insufficient_quota"}},
                1,
                "rate_limit",
                "no money",
            ),
        ],
    )
    def test_an_error_with_the_status_200_is_told(
        self, llm: FakeLlm, name: str, body: Any, asked: int, kind: str, message: str
    ) -> None:
        error = failure(target("openai", llm.script(name, Reply(content=body))))

        assert str(error).startswith(f"model 'gpt-4o' (openai) replied with an error: {message}")
        assert error.kind == kind
        assert len(llm.asked(name)) == asked

    def test_a_reply_of_another_kind_is_shown(self, llm: FakeLlm, name: str) -> None:
        body = {"choices": None, "base_resp": {"status_code": 1004, "status_msg": "login fäil"}}

        error = failure(target("openai", llm.script(name, Reply(content=body))))

        assert str(error) == (
            "model 'gpt-4o' (openai) replied without any choice: "
            '{"choices": null, "base_resp": {"status_code": 1004, "status_msg": "login fäil"}}'
        )
        assert (error.kind, len(llm.asked(name))) == ("crash", 1)

    @pytest.mark.parametrize("client", ["direct", "litellm"])
    @pytest.mark.parametrize("text", ["42", '{"order": 7}', "print(1)"])
    def test_the_input_of_a_custom_tool_is_a_free_text(self, llm: FakeLlm, name: str, client: str, text: str) -> None:
        call = {"id": "c", "type": "custom", "custom": {"name": "run", "input": text}}
        url = llm.script(name, Reply(content=chat(None, "tool_calls", tool_calls=[call])))

        response = ask(target("openai", url, client=client, tools=[{"type": "custom", "custom": {"name": "run"}}]))

        assert response.error is None
        assert response.output_messages == (Message("assistant", "", (ToolCall("run", text, id="c"),)),)

    @pytest.mark.parametrize("client", ["direct", "litellm"])
    def test_the_deprecated_call_of_a_function_is_read(self, llm: FakeLlm, name: str, client: str) -> None:
        called = {"name": "look", "arguments": '{"order": 7}'}
        url = llm.script(name, Reply(content=chat("I look.", "function_call", function_call=called)))

        response = ask(target("openai", url, client=client, extra_body={"functions": [{"name": "look"}]}))

        assert response.output_messages == (Message("assistant", "I look.", (ToolCall("look", {"order": 7}),)),)

    @pytest.mark.parametrize("beside", [None, {}])
    def test_without_a_deprecated_call_there_is_none(self, llm: FakeLlm, name: str, beside: Any) -> None:
        content = chat("Done.", "stop", function_call=beside, tool_calls=[tool("look")])

        (message,) = ask(target("openai", llm.script(name, Reply(content=content)))).output_messages or ()

        assert [call.tool for call in message.tool_calls] == ["look"]

    def test_a_refusal_in_a_part_of_the_content_is_told(self, llm: FakeLlm, name: str) -> None:
        body = chat("", "stop")
        body["choices"][0]["message"]["content"] = [{"type": "refusal", "refusal": "I will not."}]

        response = ask(target("openai", llm.script(name, Reply(content=body))))

        assert response.error == "model 'gpt-4o' (openai): the model refused: I will not. (finish_reason=stop)"
        assert response.error_kind == "no_answer"

    @pytest.mark.parametrize("before", [372, 380, 386])
    def test_a_long_refusal_does_not_show_half_a_secret(self, llm: FakeLlm, name: str, before: int) -> None:
        words = "w " * (before // 2) + f"never tell {KEY} to anyone"
        masker = Masker([KEY])
        with masking(masker):
            response = ask(target("openai", llm.script(name, Reply(content=chat(None, "stop", refusal=words)))))

        assert "the model refused: w w" in (response.error or "")
        assert "sk-" not in masker.mask(response.error or "")

    @pytest.mark.parametrize(
        ("kind", "content"),
        [
            ("openai", chat("It is fo", "length")),
            ("anthropic", anthropic([{"type": "text", "text": "It is fo"}], "max_tokens")),
            ("gemini", gemini([{"text": "It is fo"}], "MAX_TOKENS")),
        ],
    )
    def test_an_answer_that_was_cut_but_has_text_is_an_answer_with_its_finish_reason(
        self, llm: FakeLlm, name: str, kind: str, content: Any
    ) -> None:
        response = ask(target(kind, llm.script(name, Reply(content=content))))

        assert response.error is None
        assert response.output_messages == (Message("assistant", "It is fo"),)
        assert is_cut(response.finish_reason)

    @pytest.mark.parametrize(
        ("kind", "is_compressed"),
        [
            ("openai", True),
            ("gemini", False),
            *(varied(kind, number % 2 == 0) for number, kind in enumerate(KINDS)),
        ],
    )
    def test_a_reply_that_is_too_large_is_an_error_and_is_not_asked_for_again(
        self, llm: FakeLlm, name: str, kind: str, is_compressed: bool
    ) -> None:
        error = failure(target(kind, llm.script(name, Reply("x" * 10 * 2**20, is_compressed=is_compressed))))

        assert str(error) == f"the reply of model '{MODELS[kind]}' ({kind}) is too large: it has more than 10 MiB"
        assert error.kind == "crash"
        assert len(llm.asked(name)) == 1

    def test_a_compressed_reply_is_read(self, llm: FakeLlm, name: str) -> None:
        response = ask(target("openai", llm.script(name, Reply("x" * 2**20, is_compressed=True))))

        assert response.output_messages == (Message("assistant", "x" * 2**20),)

    def test_a_prompt_that_azure_filters_has_no_answer(self, llm: FakeLlm, name: str) -> None:
        body = {"error": {"message": "The prompt was filtered", "code": "content_filter", "status": 400}}

        error = failure(target("azure", llm.script(name, Reply(status=400, content=body))))

        assert error.kind == "no_answer"
        assert "The prompt was filtered" in str(error)

    def test_a_reply_without_choices_is_an_error(self, llm: FakeLlm, name: str) -> None:
        reply = Reply(content={"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": []})

        error = failure(target("openai", llm.script(name, reply)))

        assert error.kind == "crash"
        assert str(error).startswith("model 'gpt-4o' (openai) replied without any choice: {")


class TestRetries:
    def test_attempts_waits_and_the_last_error_are_reported(self, llm: FakeLlm, name: str) -> None:
        url = llm.script(name, Reply(status=429, message="slow down"), Reply(status=503), Reply("done"))

        response = ask(target("openai", url))

        assert response.output_messages == (Message("assistant", "done"),)
        assert response.raw["request_attempts"] == 3
        assert response.raw["last_error"] == (
            f"model 'gpt-4o' (openai) replied HTTP 503: the server says no to the key Bearer {KEY}"
        )
        assert 0 < response.raw["waited_ms"] < 1000

    def test_waiting_is_no_part_of_the_duration(self, llm: FakeLlm, name: str) -> None:
        url = llm.script(name, Reply(status=429, headers={"retry-after": "60"}), Reply())
        started = time.perf_counter()

        response = ask(target("openai", url, max_retries=1, retry_initial_delay_ms=1, retry_max_delay_ms=400))

        elapsed_ms = (time.perf_counter() - started) * 1000
        assert response.raw["waited_ms"] >= 399
        assert response.duration_ms is not None
        assert response.duration_ms + response.raw["waited_ms"] <= elapsed_ms

    @pytest.mark.parametrize("kind", KINDS)
    def test_the_wait_that_a_server_asks_for_is_kept(self, llm: FakeLlm, name: str, kind: str) -> None:
        slept: list[float] = []

        async def sleep(seconds: float) -> None:
            slept.append(seconds)

        async def run(given: Target) -> None:
            provider = LlmProvider(given.settings, TargetEnvironment(given), sleep)
            await provider.invoke(ProviderRequest(Prompt("q"), "c1", timeout_seconds=100))
            await provider.close()

        url = llm.script(name, Reply(status=429, headers={"Retry-After": "7"}), Reply(status=429), Reply())
        asyncio.run(run(target(kind, url, **PATIENT)))

        assert slept[0] == 7
        assert 1.5 <= slept[1] <= 2.5

    def test_no_wait_is_begun_that_would_outlast_the_time_limit(self, llm: FakeLlm, name: str) -> None:
        url = llm.script(name, Reply(status=429, message="slow", headers={"retry-after": "55"}))
        started = time.perf_counter()

        error = failure(target("openai", url, **PATIENT), ProviderRequest(Prompt("q"), "c1", timeout_seconds=30))

        assert time.perf_counter() - started < 10
        assert (error.kind, str(error)) == (
            "rate_limit",
            f"model 'gpt-4o' (openai) replied HTTP 429: slow to the key Bearer {KEY}; "
            "no time is left for another request (1 request, 0.0 s of waiting)",
        )

    @pytest.mark.scenario("Disable retries")
    def test_without_retries_the_first_429_is_the_error(self, llm: FakeLlm, name: str) -> None:
        error = failure(target("openai", llm.script(name, Reply(status=429), Reply()), max_retries=0))

        assert error.kind == "rate_limit"
        assert len(llm.asked(name)) == 1

    @pytest.mark.scenario("Custom retryable status codes")
    def test_a_status_that_the_policy_does_not_list_is_the_error(self, llm: FakeLlm, name: str) -> None:
        policy: dict[str, Any] = {**QUICK, "retry_status_codes": (429, 503)}

        error = failure(target("anthropic", llm.script(name, Reply(status=500), Reply()), **policy))
        response = ask(target("anthropic", llm.script(f"{name}0", Reply(status=503), Reply()), **policy))

        assert str(error).startswith("model 'claude-sonnet-4-5' (anthropic) replied HTTP 500: ")
        assert error.raw["request_attempts"] == 1
        assert response.raw["request_attempts"] == 2


class Scripted:
    """A provider that plays a list of outcomes."""

    mode: PromptMode = "lm"

    def __init__(self, *outcomes: ProviderResponse | ProviderError) -> None:
        self._outcomes = list(outcomes)

    async def check(self) -> None: ...

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        outcome = self._outcomes.pop(0)
        if isinstance(outcome, ProviderError):
            raise outcome
        return outcome

    async def close(self) -> None: ...


class TestRecord:
    def requests(self, *outcomes: ProviderResponse | ProviderError) -> Any:
        request = ProviderRequest(Prompt("q"), "c1")
        return asyncio.run(invoke_with_retries(Scripted(*outcomes), request, max_retries=5)).requests

    def test_the_requests_of_all_calls_of_a_case_are_summed_up(self) -> None:
        timeout = ProviderError("late", "timeout", {"request_attempts": 2, "waited_ms": 10, "last_error": "HTTP 503"})
        response = ProviderResponse(raw={"request_attempts": 1, "model": "m"})

        assert self.requests(timeout, timeout, response) == {
            "request_attempts": 5,
            "waited_ms": 20,
            "last_error": "HTTP 503",
        }

    @pytest.mark.scenario("Verbose logging")
    def test_a_call_whose_request_was_repeated_says_so_in_the_log(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level("DEBUG", "pytest_agentv")
        self.requests(ProviderResponse(raw={"request_attempts": 3, "last_error": "HTTP 429"}))
        assert re.fullmatch(r"target: call 1, \d+ ms: answered at request 3; before: HTTP 429", caplog.messages[-1])

    def test_a_provider_without_an_api_and_a_cached_answer_made_none(self) -> None:
        assert self.requests(ProviderResponse(raw={"exit_code": 0})) == {}
        assert self.requests(ProviderResponse(raw={"request_attempts": 3}, cached=True)) == {}


class TestTimeLimit:
    @pytest.mark.parametrize("kind", KINDS)
    def test_an_answer_that_does_not_come_is_a_timeout(self, llm: FakeLlm, name: str, kind: str) -> None:
        url = llm.script(name, Reply(delay_seconds=30))

        error = failure(target(kind, url), ProviderRequest(Prompt("q"), "c1", timeout_seconds=0.8))

        assert (error.kind, str(error)) == ("timeout", f"no answer from model {MODELS[kind]!r} ({kind}) within 0.8 s")
        assert error.raw == {"request_attempts": 1}
        assert len(llm.asked(name)) == 1

    def test_the_limit_holds_for_all_requests_of_a_call(self, llm: FakeLlm, name: str) -> None:
        url = llm.script(name, Reply(status=503, message="busy"), Reply(delay_seconds=30))

        error = failure(target("openai", url), ProviderRequest(Prompt("q"), "c1", timeout_seconds=1.5))

        assert str(error) == (
            "no answer from model 'gpt-4o' (openai) within 1.5 s (2 requests, 0.0 s of waiting; "
            f"before: model 'gpt-4o' (openai) replied HTTP 503: busy to the key Bearer {KEY})"
        )

    def test_a_call_that_is_cancelled_ends_at_once(self, llm: FakeLlm, name: str) -> None:
        given = target("openai", llm.script(name, Reply(delay_seconds=30)))

        async def run() -> float:
            provider = create_provider(given, {})
            task = asyncio.create_task(provider.invoke(ProviderRequest(Prompt("q"), "c1")))
            await asyncio.to_thread(llm.wait_for, name)
            started = time.perf_counter()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await provider.close()
            return time.perf_counter() - started

        assert asyncio.run(run()) < 5


class TestLitellm:
    @pytest.mark.parametrize("kind", KINDS)
    def test_connections_are_reused(self, llm: FakeLlm, name: str, kind: str) -> None:
        async def run(provider: Adapter) -> None:
            for _ in range(5):
                await provider.invoke(ProviderRequest(Prompt("q"), "c1", timeout_seconds=60))
            await provider.close()

        before = llm.connections
        asyncio.run(run(create_provider(target(kind, llm.script(name)), {})))

        assert len(llm.asked(name)) == 5
        assert llm.connections == before + 1

    def test_closing_one_target_leaves_the_others_open(self, llm: FakeLlm, name: str) -> None:
        async def run(target_: Adapter, judge: Adapter) -> None:
            request = ProviderRequest(Prompt("q"), "c1")
            await judge.invoke(request)
            await target_.close()
            await judge.invoke(request)
            await judge.close()

        before = llm.connections
        given = target("openai", llm.script(name))
        asyncio.run(run(create_provider(given, {}), create_provider(given, {})))

        assert llm.connections == before + 1

    def test_many_requests_are_in_flight_at_once(self, llm: FakeLlm, name: str) -> None:
        async def run(provider: Adapter) -> None:
            await asyncio.gather(*(provider.invoke(ProviderRequest(Prompt("q"), "c1")) for _ in range(40)))
            await provider.close()

        asyncio.run(run(create_provider(target("openai", llm.script(name, Reply(delay_seconds=1))), {})))

        assert llm.most_in_flight[name] == 40

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_redirect_to_another_server_is_not_followed_with_the_key(
        self, llm: FakeLlm, name: str, kind: str
    ) -> None:
        with FakeLlm() as other:
            place = {"location": other.script(name)}
            error = failure(target(kind, llm.script(name, Reply(status=307, headers=place)), client="litellm"))

        assert other.requests == []
        assert "307" in str(error)

    def test_a_redirect_to_the_same_server_is_followed(self, llm: FakeLlm, name: str) -> None:
        elsewhere = llm.script(f"{name}-moved", Reply("moved")) + "/v1/chat/completions"
        moved = Reply(status=307, headers={"location": elsewhere})

        response = ask(target("openai", llm.script(name, moved), client="litellm"))

        assert response.output_messages == (Message("assistant", "moved"),)

    def test_a_model_that_litellm_does_not_know_is_an_error_without_a_request(self, llm: FakeLlm) -> None:
        before = len(llm.requests)

        error = failure(target("litellm", llm.url, model="nobody/nothing"))

        assert error.kind == "config"
        assert str(error).startswith("model 'nobody/nothing' (litellm) could not be asked: LLM Provider NOT provided.")
        assert len(llm.requests) == before

    def test_a_missing_key_is_an_error_without_a_request(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for variable in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY"):
            monkeypatch.delenv(variable, raising=False)

        error = failure(target("litellm", "http://127.0.0.1:9", api_key=None))

        assert error.raw["request_attempts"] == 1
        assert "OPENAI_API_KEY" in str(error)

    def test_a_refused_connection_is_an_error_of_the_network(self) -> None:
        error = failure(target("openai", "http://127.0.0.1:9"))

        assert error.kind == "network"
        refused = "no whole reply from model 'gpt-4o' (openai): Cannot connect to host 127.0.0.1:9 [Connect call failed"
        assert str(error).startswith(refused)
        assert re.search(r" \(3 requests, [0-9.]+ s of waiting\)$", str(error))

    def test_errors_hold_no_litellm_chatter(self, llm: FakeLlm, name: str, capfd: pytest.CaptureFixture[str]) -> None:
        error = failure(target("gemini", llm.script(name, Reply(status=401))))

        assert error.__suppress_context__
        assert capfd.readouterr() == ("", "")


def run_program(text: str, cwd: Path, **environment: str) -> str:
    """Run a program in a fresh process, where nothing has imported litellm yet; return what it printed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LITELLM", "OPENAI"))}
    program = [sys.executable, "-W", "error", "-c", textwrap.dedent(text)]
    done = subprocess.run(program, cwd=cwd, env=kept | environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@variation  # the usual test is that of the fault matrix, whose process imports litellm as well
def test_the_import_starts_with_the_first_provider_looks_nothing_up_and_leaves_the_environment_alone(
    llm: FakeLlm, name: str, tmp_path: Path
) -> None:
    (tmp_path / ".env").write_text("OPENAI_API_KEY=from-dotenv\n", encoding="utf-8")
    printed = run_program(
        f"""
        import asyncio, os, sys
        asked = []
        sys.addaudithook(lambda event, args: asked.append(args[0]) if event == "socket.getaddrinfo" else None)
        before = dict(os.environ)
        from pytest_agentv.model.secrets import Secret
        from pytest_agentv.model.cases import Target
        from pytest_agentv.cases.prompts import Prompt
        from pytest_agentv.providers.api import litellm as llm_import
        from pytest_agentv.providers.api.anthropic import Anthropic
        from pytest_agentv.providers.base import ProviderRequest
        from pytest_agentv.providers.table import create_provider

        async def main():
            print("litellm" in sys.modules)
            base_url = "{llm.script(name)}"
            settings = Anthropic(
                model="claude-sonnet-4-5",
                api_key=Secret("{KEY}"),
                base_url=base_url,
                thinking_budget=2000,
                client="litellm",
            )
            provider = create_provider(Target("t", "anthropic", settings), {{}})
            provider.warm_up()
            print(llm_import.begin_import.cache_info().currsize)
            changed = lambda: sorted(name for name in os.environ if before.get(name) != os.environ[name])
            await llm_import.load_litellm()
            await provider.invoke(ProviderRequest(Prompt("q"), "c1"))
            await provider.close()
            print(set(changed()) - {{"TIKTOKEN_CACHE_DIR"}})

        asyncio.run(main())
        print([host for host in asked if host != "127.0.0.1"])
        """,
        tmp_path,
    )

    assert printed.split("\n") == ["False", "1", "set()", "[]", ""]
    assert len(llm.asked(name)) == 1


def test_a_litellm_that_cannot_be_imported_is_said_and_does_not_hang(tmp_path: Path) -> None:
    (tmp_path / "litellm.py").write_text("raise ImportError('broken installation')\n", encoding="utf-8")
    printed = run_program(
        """
        import asyncio
        from pytest_agentv.errors import ProviderError
        from pytest_agentv.model.cases import Target
        from pytest_agentv.cases.prompts import Prompt
        from pytest_agentv.providers.base import ProviderRequest
        from pytest_agentv.providers.api.model import Litellm
        from pytest_agentv.providers.table import create_provider

        async def main():
            provider = create_provider(Target("t", "litellm", Litellm(model="m")), {})
            try:
                await provider.invoke(ProviderRequest(Prompt("q"), "c1"))
            except ProviderError as error:
                print(error.kind, error)

        asyncio.run(main())
        """,
        tmp_path,
        PYTHONPATH=str(tmp_path),
    )

    assert printed == "config litellm cannot be imported: broken installation\n"


ASK_AND_TELL_THE_PRICE = """
    import asyncio, sys, threading
    importers = []

    class Watch:
        @staticmethod
        def find_spec(name, path=None, target=None):
            if name == "genai_prices":
                importers.append(threading.current_thread().name)

    sys.meta_path.insert(0, Watch)
    from pytest_agentv.model.secrets import Secret
    from pytest_agentv.model.cases import Target
    from pytest_agentv.cases.prompts import Prompt
    from pytest_agentv.providers.api.openai import OpenAi
    from pytest_agentv.providers.base import ProviderRequest
    from pytest_agentv.providers.table import create_provider

    async def main():
        settings = OpenAi(model="gpt-4o", api_key=Secret("x"), base_url="{url}")
        provider = create_provider(Target("t", "openai", settings), {{}})
        try:
            response = await provider.invoke(ProviderRequest(Prompt("q"), "c1"))
            print(response.output_messages[0].content, response.cost_source)
        except Exception as error:
            print(type(error).__name__)
        finally:
            await provider.close()

    asyncio.run(main())
    print(set(importers) - {{"agentv-import-http"}})
    """


def test_price_tables_are_imported_beside_the_event_loop(llm: FakeLlm, name: str, tmp_path: Path) -> None:
    """The loop of a run serves other cases, which the import would hold up for a tenth of a second."""
    url = llm.script(name, Reply("hello"))

    assert run_program(ASK_AND_TELL_THE_PRICE.format(url=url), tmp_path) == "hello genai-prices\nset()\n"


@pytest.mark.parametrize("error", [varied("ImportError"), varied("RuntimeError")])
def test_an_answer_outlives_price_tables_that_cannot_be_imported(
    error: str, llm: FakeLlm, name: str, tmp_path: Path
) -> None:
    (tmp_path / "genai_prices.py").write_text(f"raise {error}('broken installation')\n", encoding="utf-8")
    program = ASK_AND_TELL_THE_PRICE.format(url=llm.script(name, Reply("hello")))

    assert run_program(program, tmp_path, PYTHONPATH=str(tmp_path)) == "hello None\nset()\n"
    assert len(llm.asked(name)) == 1


def test_an_answer_does_not_time_out_because_of_its_price(llm: FakeLlm, name: str, tmp_path: Path) -> None:
    limit = 0.5 * slowness()
    imported = f"import time\ntime.sleep({2 * limit})\nraise ImportError\n"
    (tmp_path / "genai_prices.py").write_text(imported, encoding="utf-8")
    program = ASK_AND_TELL_THE_PRICE.format(url=llm.script(name, Reply("hello"))).replace(
        '"c1"', f'"c1", timeout_seconds={limit}'
    )

    assert run_program(program, tmp_path, PYTHONPATH=str(tmp_path)) == "hello None\nset()\n"


def test_a_refused_request_does_not_wait_for_price_tables(llm: FakeLlm, name: str, tmp_path: Path) -> None:
    (tmp_path / "genai_prices.py").write_text("import time\ntime.sleep(600)\n", encoding="utf-8")
    program = ASK_AND_TELL_THE_PRICE.format(url=llm.script(name, Reply(status=401)))

    assert run_program(program, tmp_path, PYTHONPATH=str(tmp_path)) == "ProviderError\nset()\n"


@pytest.mark.parametrize("is_enabled", [True, False])
def test_the_garbage_collector_rests_while_litellm_is_imported_and_is_then_as_it_was(is_enabled: bool) -> None:
    """Imports are a quarter quicker without it; but a program that has switched it off must not find it on."""

    def fail_to_import() -> None:
        with llm_import._without_collector():
            assert not gc.isenabled()
            raise ImportError

    if not is_enabled:
        gc.disable()
    try:
        with pytest.raises(ImportError):
            fail_to_import()
        assert gc.isenabled() == is_enabled
    finally:
        gc.enable()


def test_what_litellm_warns_of_at_its_import_is_dropped_and_other_threads_warn_as_ever() -> None:
    raised: list[str] = []

    def work() -> None:
        try:
            with llm_import._without_warnings():
                warnings.warn("of the import", UserWarning, stacklevel=2)
                inside.set()
                assert seen.wait(10)
            warnings.warn("of later", UserWarning, stacklevel=2)
        except UserWarning as warning:
            raised.append(str(warning))

    inside, seen, original = threading.Event(), threading.Event(), warnings.warn
    thread = threading.Thread(target=work)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        thread.start()
        assert inside.wait(10)
        with pytest.raises(UserWarning, match="of another thread"):
            warnings.warn("of another thread", UserWarning, stacklevel=2)
        seen.set()
        thread.join(10)
    assert raised == ["of later"]
    assert warnings.warn is original
