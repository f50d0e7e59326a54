"""Models behind an API, asked at a server that speaks their languages; some through the real litellm."""

import asyncio
import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from busy import slowness
from fake_llm import FakeLlm, Reply
from thorough import varied

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.engine.answers import Attempts, invoke_with_retries
from pytest_agentv.errors import ProviderError
from pytest_agentv.model.cases import Target
from pytest_agentv.model.messages import Message, TokenUsage, ToolCall
from pytest_agentv.model.secrets import Masker, Secret, masking
from pytest_agentv.providers.api.failures import refused_parameter
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse
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


class TestRequests:
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


class TestAnswers:
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

    @pytest.mark.parametrize("before", [372, 380, 386])
    def test_a_long_refusal_does_not_show_half_a_secret(self, llm: FakeLlm, name: str, before: int) -> None:
        words = "w " * (before // 2) + f"never tell {KEY} to anyone"
        masker = Masker([KEY])
        with masking(masker):
            response = ask(target("openai", llm.script(name, Reply(content=chat(None, "stop", refusal=words)))))

        assert "the model refused: w w" in (response.error or "")
        assert "sk-" not in masker.mask(response.error or "")

    def test_a_prompt_that_azure_filters_has_no_answer(self, llm: FakeLlm, name: str) -> None:
        body = {"error": {"message": "The prompt was filtered", "code": "content_filter", "status": 400}}

        error = failure(target("azure", llm.script(name, Reply(status=400, content=body))))

        assert error.kind == "no_answer"
        assert "The prompt was filtered" in str(error)


class TestRetries:
    def test_waiting_is_no_part_of_the_duration(self, llm: FakeLlm, name: str) -> None:
        url = llm.script(name, Reply(status=429, headers={"retry-after": "60"}), Reply())
        started = time.perf_counter()

        response = ask(target("openai", url, max_retries=1, retry_initial_delay_ms=1, retry_max_delay_ms=400))

        elapsed_ms = (time.perf_counter() - started) * 1000
        assert response.raw["waited_ms"] >= 399
        assert response.duration_ms is not None
        assert response.duration_ms + response.raw["waited_ms"] <= elapsed_ms

    def test_no_wait_is_begun_that_would_outlast_the_time_limit(self, llm: FakeLlm, name: str) -> None:
        url = llm.script(name, Reply(status=429, message="slow", headers={"retry-after": "55"}))
        started = time.perf_counter()

        error = failure(target("openai", url, **PATIENT), ProviderRequest(Prompt("q"), "c1", timeout_seconds=30))

        assert time.perf_counter() - started < 10
        assert (error.kind, str(error)) == (
            "rate_limit",
            "model 'gpt-4o' (openai) replied HTTP 429: slow to the key Bearer ***; "
            "no time is left for another request (1 request, 0.0 s of waiting)",
        )


class TestTimeLimit:
    def test_the_limit_holds_for_all_requests_of_a_call(self, llm: FakeLlm, name: str) -> None:
        url = llm.script(name, Reply(status=503, message="busy"), Reply(delay_seconds=30))

        error = failure(target("openai", url), ProviderRequest(Prompt("q"), "c1", timeout_seconds=1.5))

        assert str(error) == (
            "no answer from model 'gpt-4o' (openai) within 1.5 s (2 requests, 0.0 s of waiting; "
            "before: model 'gpt-4o' (openai) replied HTTP 503: busy to the key Bearer ***)"
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
    def test_a_redirect_to_another_server_is_not_followed_with_the_key(
        self, llm: FakeLlm, name: str, kind: str
    ) -> None:
        with FakeLlm() as other:
            place = {"location": other.script(name)}
            error = failure(target(kind, llm.script(name, Reply(status=307, headers=place)), client="litellm"))

        assert other.requests == []
        assert "307" in str(error)

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


def run_program(text: str, cwd: Path, **environment: str) -> str:
    """Run a program in a fresh process, where nothing has imported litellm yet; return what it printed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LITELLM", "OPENAI"))}
    program = [sys.executable, "-W", "error", "-c", textwrap.dedent(text)]
    done = subprocess.run(program, cwd=cwd, env=kept | environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


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
