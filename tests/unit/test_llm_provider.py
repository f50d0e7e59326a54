"""Models behind an API, asked at a server that speaks their languages; some through the real litellm."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from busy import slowness
from fake_llm import FakeLlm, Reply

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.errors import ProviderError
from pytest_agentv.model.cases import Target
from pytest_agentv.model.messages import Message, TokenUsage, ToolCall
from pytest_agentv.model.secrets import Masker, Secret, masking
from pytest_agentv.providers.api.client import refused_parameter
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse, require_answer
from pytest_agentv.providers.table import KINDS as TABLE
from pytest_agentv.providers.table import create_provider

KEY = "sk-0123456789abcdef"
MODELS = {
    "azure": "gpt-4o",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-2.5-flash",
    "openai": "gpt-4o",
    "litellm": "openai/gpt-4o",
}
PATIENT: dict[str, Any] = {"max_retries": None, "retry_initial_delay_ms": None, "retry_max_delay_ms": None}
QUICK = {"max_retries": 2, "retry_initial_delay_ms": 1, "retry_max_delay_ms": 20}


def chat(content: Any, finish_reason: str, **message: Any) -> Any:
    """Return the body of a chat completion; 30 of its 50 output tokens are reasoning."""
    said = {"role": "assistant", "content": content, **message}
    details = {"completion_tokens_details": {"reasoning_tokens": 30}}
    usage = {"prompt_tokens": 30, "completion_tokens": 50, "total_tokens": 80, **details}
    choices = [{"index": 0, "finish_reason": finish_reason, "message": said}]
    return {"id": "x", "object": "chat.completion", "created": 1, "model": "gpt-4o", "choices": choices, "usage": usage}


def anthropic(stop_reason: str, *blocks: Any, **beside: Any) -> Any:
    usage = {"input_tokens": 3, "output_tokens": 5}
    return {"type": "message", "content": blocks, "stop_reason": stop_reason, "usage": usage, **beside}


def gemini(finish_reason: str, *parts: Any, **beside: Any) -> Any:
    usage = {"promptTokenCount": 3, "candidatesTokenCount": 5}
    said = {"content": {"role": "model", "parts": parts}, "finishReason": finish_reason}
    return {"candidates": [said], "usageMetadata": usage, **beside}


@pytest.fixture(scope="module")
def llm() -> Iterator[FakeLlm]:
    with FakeLlm() as server:
        yield server


def target(kind: str, url: str, **settings: Any) -> Target:
    base_url = f"{url}/v1" if kind in ("openai", "litellm") else url
    values = {"model": MODELS[kind], "api_key": Secret(KEY), "base_url": base_url, **QUICK, **settings}
    return Target("t", kind, TABLE.table[kind](**values), path=str(Path.cwd() / "targets.yaml"), line=3)


def ask_all(given: Target, *requests: ProviderRequest) -> list[ProviderResponse]:
    async def run() -> list[ProviderResponse]:
        provider = create_provider(given, {})
        try:
            return await asyncio.gather(*map(provider.invoke, requests))
        finally:
            await provider.close()

    return asyncio.run(run())


QUESTION = ProviderRequest(Prompt("What is 2 + 2?"), "c1")


def ask(given: Target, seconds: float | None = None) -> ProviderResponse:
    return ask_all(given, QUESTION.replace(timeout_seconds=seconds))[0]


def failure(given: Target, seconds: float | None = None) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        ask(given, seconds)
    return caught.value


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A script of the server for each test."""
    return str(abs(hash(request.node.nodeid)))


def test_requests_in_flight_learn_of_one_refusal(llm: FakeLlm, name: str) -> None:
    refusals = [Reply(status=400, message="`temperature` is deprecated.", when='"temperature"')] * 3
    url = llm.script(name, *refusals, Reply("four", when="What"))

    responses = ask_all(target("openai", url, temperature=0.2), *[QUESTION] * 3)

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
def test_a_refused_parameter_is_read_from_the_words_of_an_api(said: str, path: str | None) -> None:
    sent = {"model": "m", "messages": [], "max_tokens": 5, "temperature": 1, "top_p": 1, "tools": []}
    group = next((each for each in ("reasoning.", "text.") if each in said), "output_config.").rstrip(".")
    sent |= {"thinking": {"type": "adaptive"}, group: {"effort": "low", "format": {}}}

    assert refused_parameter(json.dumps({"error": {"message": said, "code": 400}}), sent) == path


EXPLAINED = {"category": "bio", "explanation": "It may\nharm."}
CUT = "the answer was cut at max_output_tokens=16"


@pytest.mark.parametrize(
    ("kind", "content", "error"),
    [
        ("openai", chat("  \n", "length"), f"{CUT}; 30 of 50 output tokens were reasoning"),
        ("openai", chat([{"type": "refusal", "refusal": "I will not."}], "stop"), "the model refused: I will not."),  # type: ignore[arg-type]
        ("anthropic", anthropic("refusal", stop_details=EXPLAINED), "the model refused: It may harm."),
        ("anthropic", anthropic("refusal", stop_details={"category": "cyber"}), "the model refused: cyber"),
        ("gemini", gemini("MAX_TOKENS"), CUT),
        ("gemini", gemini("CONTINUATION"), CUT),
        ("gemini", {"promptFeedback": {"blockReason": "JAILBREAK"}}, "there is no answer: a content filter stopped it"),
    ],
)
def test_a_reply_without_an_answer_says_why_and_is_final(
    llm: FakeLlm, name: str, kind: str, content: Any, error: str
) -> None:
    response = ask(target(kind, llm.script(name, Reply(content=content)), max_output_tokens=16))

    assert response.error_kind == "no_answer"
    assert response.error == f"model '{MODELS[kind]}' ({kind}): {error} (finish_reason={response.finish_reason})"
    assert len(llm.asked(name)) == 1


TEXT = {"type": "text", "text": "4"}


@pytest.mark.parametrize(
    ("kind", "usage", "tokens"),
    [
        ("openai", {"prompt_tokens": 30.0, "completion_tokens": 5.0}, TokenUsage(30, 5)),
        ("openai", {"prompt_tokens": 30, "completion_tokens": None}, None),
        ("openai", {"prompt_tokens": "30", "completion_tokens": 5}, None),
        ("openai", {"prompt_tokens": 30, "completion_tokens": -5}, None),
        ("openai", {"prompt_tokens": 30, "completion_tokens": float("inf")}, None),
        ("anthropic", {"output_tokens": 5}, None),
        ("anthropic", {"input_tokens": 3, "cache_read_input_tokens": 2}, None),
        ("gemini", {"candidatesTokenCount": 5}, None),
        ("gemini", {"promptTokenCount": 3}, TokenUsage(3, 0)),
    ],
)
def test_tokens_of_which_a_part_is_missing_are_not_known_and_have_no_price(
    llm: FakeLlm, name: str, kind: str, usage: Any, tokens: TokenUsage | None
) -> None:
    bodies = {"openai": chat("4", "stop"), "anthropic": anthropic("end_turn", TEXT), "gemini": gemini("STOP", TEXT)}
    key = "usageMetadata" if kind == "gemini" else "usage"

    response = ask(target(kind, llm.script(name, Reply(content={**bodies[kind], key: usage}))))

    assert (response.token_usage, response.cost_usd is None) == (tokens, tokens is None)


DOWN = {"message": "the upstream is down", "code": 502}
FOUR = {"type": "text", "text": "It is fo"}


@pytest.mark.parametrize(
    ("kind", "whole", "blank"),
    [
        ("openai", {**chat("It is fo", "stop"), "error": DOWN}, {**chat(None, "stop"), "error": DOWN}),
        ("anthropic", anthropic("end_turn", FOUR, error=DOWN), anthropic("end_turn", error=DOWN)),
        ("gemini", gemini("STOP", FOUR, error=DOWN), gemini("STOP", {"text": ""}, error=DOWN)),
    ],
)
def test_an_answer_beside_an_error_is_broken_off(llm: FakeLlm, name: str, kind: str, whole: Any, blank: Any) -> None:
    response = require_answer(ask(target(kind, llm.script(name, Reply(content=whole)))))
    assert (response.finish_reason, response.error_kind) == ("error", "network")
    assert response.output_messages == (Message("assistant", "It is fo"),)
    assert response.token_usage is not None

    told = failure(target(kind, llm.script(f"{name}-blank", Reply(content=blank))))
    assert "replied with an error: the upstream is down" in str(told)


@pytest.mark.parametrize(
    ("error", "asked", "kind"),
    [
        ({"message": "m", "code": 502}, 3, "network"),
        ({"message": "m", "code": 402}, 1, "config"),
        ("m", 1, "crash"),
        ({"message": "m", "code": "invalid"}, 1, "crash"),
        ({"message": "m", "code": "429"}, 3, "rate_limit"),
        ({"message": "m", "type": "rate_limit_error"}, 3, "rate_limit"),
        ({"message": "m", "type": "api_error"}, 3, "network"),
        ({"message": "m", "type": "overloaded_error"}, 3, "network"),
        ({"message": "m", "type": "authentication_error"}, 1, "auth"),
        ({"message": "m", "type": "api_error", "code": 400}, 1, "config"),
        ({"message": "m", "status": 503}, 3, "network"),
        ({"message": "m", "code": 429, "type": "insufficient_quota"}, 1, "rate_limit"),
    ],
)
def test_an_error_with_the_status_200_is_told(llm: FakeLlm, name: str, error: Any, asked: int, kind: str) -> None:
    found = failure(target("openai", llm.script(name, Reply(content={"error": error, "choices": []}))))

    assert str(found).startswith("model 'gpt-4o' (openai) replied with an error: m")
    assert (found.kind, len(llm.asked(name))) == (kind, asked)


CUSTOM = {"id": "c", "type": "custom", "custom": {"name": "run", "input": "42"}}
LOOK = {"name": "look", "arguments": '{"order": 7}'}


@pytest.mark.parametrize("client", ["direct", "litellm"])
@pytest.mark.parametrize(
    ("content", "keys", "call"),
    [
        (
            chat("I do.", "tool_calls", tool_calls=[CUSTOM]),
            {"tools": [{"type": "custom", "custom": {"name": "run"}}]},
            ToolCall("run", "42", id="c"),
        ),
        (
            chat("I do.", "function_call", function_call=LOOK),
            {"extra_body": {"functions": [{"name": "look"}]}},
            ToolCall("look", {"order": 7}),
        ),
    ],
)
def test_custom_tools_get_a_text_and_the_deprecated_call_of_a_function_is_read(
    llm: FakeLlm, name: str, client: str, content: Any, keys: Any, call: ToolCall
) -> None:
    response = ask(target("openai", llm.script(name, Reply(content=content)), client=client, **keys))

    assert response.output_messages == (Message("assistant", "I do.", (call,)),)


@pytest.mark.parametrize("before", [372, 380, 386])
def test_a_long_refusal_does_not_show_half_a_secret(llm: FakeLlm, name: str, before: int) -> None:
    words = "w " * (before // 2) + f"never tell {KEY} to anyone"
    masker = Masker([KEY])
    with masking(masker):
        response = ask(target("openai", llm.script(name, Reply(content=chat(None, "stop", refusal=words)))))

    assert "the model refused: w w" in (response.error or "")
    assert "sk-" not in masker.mask(response.error or "")


def test_waiting_is_no_part_of_the_duration(llm: FakeLlm, name: str) -> None:
    url = llm.script(name, Reply(status=429, headers={"retry-after": "60"}), Reply())
    started = time.perf_counter()

    response = ask(target("openai", url, max_retries=1, retry_initial_delay_ms=1, retry_max_delay_ms=400))

    elapsed_ms = (time.perf_counter() - started) * 1000
    assert response.raw["waited_ms"] >= 399
    assert response.duration_ms is not None
    assert response.duration_ms + response.raw["waited_ms"] <= elapsed_ms


BUSY = f"model 'gpt-4o' (openai) replied HTTP 503: busy to the key Bearer {KEY}"


@pytest.mark.parametrize(
    ("replies", "keys", "seconds", "kind", "message"),
    [
        (
            [Reply(status=503, message="busy", headers={"retry-after": "55"})],
            PATIENT,
            30,
            "network",
            f"{BUSY}; no time is left for another request (1 request, 0.0 s of waiting)",
        ),
        (
            [Reply(status=503, message="busy"), Reply(delay_seconds=30)],
            {},
            1.5,
            "timeout",
            f"no answer from model 'gpt-4o' (openai) within 1.5 s (2 requests, 0.0 s of waiting; before: {BUSY})",
        ),
    ],
)
def test_the_limit_holds_for_all_requests_and_waits_of_a_call(
    llm: FakeLlm, name: str, replies: list[Reply], keys: Any, seconds: float, kind: str, message: str
) -> None:
    started = time.perf_counter()

    error = failure(target("openai", llm.script(name, *replies), **keys), seconds)

    assert time.perf_counter() - started < 10
    assert (error.kind, str(error)) == (kind, message)


def test_a_call_that_is_cancelled_ends_at_once(llm: FakeLlm, name: str) -> None:
    given = target("openai", llm.script(name, Reply(delay_seconds=30)))

    async def run() -> float:
        provider = create_provider(given, {})
        task = asyncio.create_task(provider.invoke(QUESTION))
        await asyncio.to_thread(llm.wait_for, name)
        started = time.perf_counter()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await provider.close()
        return time.perf_counter() - started

    assert asyncio.run(run()) < 5


def test_litellm_follows_no_redirect_to_another_server_with_the_key(llm: FakeLlm, name: str) -> None:
    with FakeLlm() as other:
        place = {"location": other.script(name)}
        error = failure(target("openai", llm.script(name, Reply(status=307, headers=place)), client="litellm"))

    assert (other.requests, "307" in str(error)) == ([], True)


def test_what_litellm_cannot_ask_is_an_error_without_a_request(llm: FakeLlm, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY"):
        monkeypatch.delenv(variable, raising=False)
    before = len(llm.requests)

    error = failure(target("litellm", llm.url, model="nobody/nothing"))

    assert error.kind == "config"
    assert str(error).startswith("model 'nobody/nothing' (litellm) could not be asked: LLM Provider NOT provided.")
    assert "OPENAI_API_KEY" in str(failure(target("litellm", llm.url, api_key=None)))
    assert len(llm.requests) == before


PROGRAM = """
import asyncio, sys
from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.model.cases import Target
from pytest_agentv.model.secrets import Secret
from pytest_agentv.providers.base import ProviderRequest
from pytest_agentv.providers.table import KINDS, create_provider

async def main():
    url, limit = sys.argv[1:]
    for kind in ("openai", "litellm"):
        settings = KINDS.table[kind](model="gpt-4o", api_key=Secret("x"), base_url=url)
        provider = create_provider(Target("t", kind, settings), {})
        try:
            response = await provider.invoke(ProviderRequest(Prompt("q"), "c1", timeout_seconds=float(limit)))
            print(response.output_messages[0].content, response.cost_source)
        except Exception as error:
            print(error.kind, error)
        finally:
            await provider.close()

asyncio.run(main())
"""


def test_packages_that_cannot_be_imported_are_said_cost_no_answer_and_do_not_hang(
    llm: FakeLlm, name: str, tmp_path: Path
) -> None:
    """In a process of its own, where nothing has imported them yet; the price does not count as time of the answer."""
    limit = 0.5 * slowness()
    broken = "raise ImportError('broken installation')\n"
    (tmp_path / "genai_prices.py").write_text(f"import time\ntime.sleep({2 * limit})\n{broken}", "utf-8")
    (tmp_path / "litellm.py").write_text(broken, "utf-8")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LITELLM", "OPENAI"))}

    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM, llm.script(name, Reply("hello")), str(limit)],
        cwd=tmp_path, env={**kept, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert (done.stdout, done.stderr) == ("hello None\nconfig litellm cannot be imported: broken installation\n", "")
    assert len(llm.asked(name)) == 1
