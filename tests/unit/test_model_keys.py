"""The keys of models on the wire, and the calls of their replies."""

import asyncio
import importlib.util
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from fake_llm import FakeLlm, Reply, Request, ToolCall
from pydantic import ValidationError

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.model.base import ABSENT
from pytest_agentv.model.cases import Target
from pytest_agentv.model.secrets import Secret
from pytest_agentv.providers.api.azure import Azure
from pytest_agentv.providers.api.gemini import Gemini
from pytest_agentv.providers.api.openai import OpenAi
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse
from pytest_agentv.providers.table import KINDS, create_provider

PRICE = {
    "name": "price_of",
    "description": "Look up a price",
    "parameters": {"type": "object", "properties": {"product": {"type": "string"}}},
}
SHAPE = {"type": "object", "properties": {"city": {"type": "string"}}}
FORMAT = {"type": "json_schema", "json_schema": {"name": "place", "schema": SHAPE}}
MODELS = {
    "openai": "gpt-4o",
    "azure": "gpt-4o",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-2.5-flash",
}
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def llm() -> Iterator[FakeLlm]:
    with FakeLlm() as server:
        yield server


def ask(
    llm: FakeLlm, kind: str, keys: dict[str, Any], replies: Sequence[Reply] = ()
) -> tuple[Request, ProviderResponse]:
    """Ask a model once; return what arrived and the response."""
    name = f"keys-{next(NUMBERS)}"
    base_url = llm.script(name, *replies) + ("/v1" if kind in ("openai", "litellm") else "")
    values = {
        "model": MODELS.get(kind),
        "api_key": Secret("sk-0123456789"),
        "base_url": base_url,
        "max_retries": 0,
        **keys,
    }
    target = Target("t", kind, KINDS.table[kind](**values))

    async def run() -> ProviderResponse:
        provider = create_provider(target, {})
        try:
            response: ProviderResponse = await provider.invoke(ProviderRequest(Prompt("Where?"), "c1"))
            return response
        finally:
            await provider.close()

    response = asyncio.run(run())
    (request,) = llm.asked(name)
    return request, response


def body(llm: FakeLlm, kind: str, **keys: Any) -> Any:
    return ask(llm, kind, keys)[0].body


@pytest.mark.parametrize("kind", MODELS)
def test_headers_are_sent_and_replace_those_of_the_api(llm: FakeLlm, kind: str) -> None:
    request, _ = ask(llm, kind, {"headers": {"X-Team": "shop", "Authorization": Secret("Bearer other-0123456789")}})

    assert request.headers["x-team"] == "shop"
    assert request.headers["authorization"] == "Bearer other-0123456789"


@pytest.mark.parametrize("kind", MODELS)
def test_the_extra_body_is_merged_at_every_depth(llm: FakeLlm, kind: str) -> None:
    extra = {"generationConfig": {"topK": 5}, "metadata": {"user": "u1"}, "model": "another"}

    found = body(llm, kind, extra_body=extra, temperature=0.5)

    assert found["metadata"] == {"user": "u1"}
    assert found["generationConfig"] == ({"topK": 5, "temperature": 0.5} if kind == "gemini" else {"topK": 5})
    assert found["model"] == "another"


@pytest.mark.parametrize("kind", MODELS)
def test_a_model_without_these_keys_is_asked_as_before(llm: FakeLlm, kind: str) -> None:
    names = {"anthropic": {"model", "max_tokens", "messages", "system"}, "gemini": {"contents", "system_instruction"}}

    assert set(body(llm, kind)) == names.get(kind, {"model", "messages"})


@pytest.mark.skipif(importlib.util.find_spec("litellm") is None, reason="litellm is not installed")
@pytest.mark.parametrize("kind", ["openai", "azure", "anthropic"])
def test_litellm_sends_headers_and_the_extra_body(llm: FakeLlm, kind: str) -> None:
    keys = {"client": "litellm", "headers": {"X-Team": "shop"}, "extra_body": {"metadata": {"user_id": "u1"}}}

    request, _ = ask(llm, kind, keys)

    assert request.headers["x-team"] == "shop"
    assert request.body["metadata"] == {"user_id": "u1"}


class TestAnthropic:
    @pytest.mark.parametrize("model", ["claude-sonnet-4-5", "claude-opus-4-6", "my-model"])
    def test_effort_is_effort_for_all_models(self, llm: FakeLlm, model: str) -> None:
        found = body(llm, "anthropic", model=model, reasoning_effort="high", max_output_tokens=100)

        assert found["output_config"] == {"effort": "high"}
        assert found["thinking"] == {"type": "adaptive"}
        assert found["max_tokens"] == 100

    def test_a_budget_is_on_top_of_the_answer(self, llm: FakeLlm) -> None:
        found = body(llm, "anthropic", reasoning_effort="none", thinking_budget=1024, max_output_tokens=100)

        assert found["thinking"] == {"type": "enabled", "budget_tokens": 1024}
        assert found["max_tokens"] == 1124
        assert "output_config" not in found

    def test_a_schema_is_the_format_of_the_output(self, llm: FakeLlm) -> None:
        found = body(llm, "anthropic", response_format=FORMAT)

        assert found["output_config"] == {"format": {"type": "json_schema", "schema": SHAPE}}

    def test_functions_and_own_tools_stand_side_by_side(self, llm: FakeLlm) -> None:
        search = {"type": "web_search_20250305", "name": "web_search"}

        assert body(llm, "anthropic", tools=[PRICE, search])["tools"] == [
            {"name": "price_of", "description": "Look up a price", "input_schema": PRICE["parameters"]},
            search,
        ]


class TestGemini:
    @pytest.mark.parametrize("model", ["gemini-2.5-pro", "gemini-3.8-flash"])
    def test_effort_is_a_level(self, llm: FakeLlm, model: str) -> None:
        found = body(llm, "gemini", model=model, reasoning_effort="medium")

        assert found["generationConfig"] == {"thinkingConfig": {"thinkingLevel": "medium"}}

    def test_a_format_is_a_type_and_a_schema(self, llm: FakeLlm) -> None:
        assert body(llm, "gemini", response_format=FORMAT)["generationConfig"] == {
            "response_mime_type": "application/json",
            "response_json_schema": SHAPE,
        }

    def test_functions_are_declared_together(self, llm: FakeLlm) -> None:
        found = body(llm, "gemini", tools=[PRICE, {"google_search": {}}, {"name": "now"}])

        declared = {"name": "price_of", "description": "Look up a price", "parametersJsonSchema": PRICE["parameters"]}
        assert found["tools"] == [{"function_declarations": [declared, {"name": "now"}]}, {"google_search": {}}]


@pytest.mark.parametrize("kind", ["openai", "azure"])
def test_functions_have_the_shape_of_openai(llm: FakeLlm, kind: str) -> None:
    assert body(llm, kind, tools=[PRICE])["tools"] == [{"type": "function", "function": PRICE}]


@pytest.mark.parametrize("kind", MODELS)
def test_calls_of_a_model_with_tools_are_its_answer(llm: FakeLlm, kind: str) -> None:
    reply = Reply(calls=(ToolCall("price_of", {"product": "tent"}),))

    _, response = ask(llm, kind, {"tools": [PRICE]}, [reply])

    assert response.error is None
    (message,) = response.output_messages or ()
    assert [(call.tool, call.input) for call in message.tool_calls] == [("price_of", {"product": "tent"})]


def test_calls_of_a_model_without_tools_are_no_answer(llm: FakeLlm) -> None:
    _, response = ask(llm, "openai", {}, [Reply(calls=(ToolCall("price_of", {}),))])

    assert response.error_kind == "no_answer"
    assert "called tools instead of answering: price_of" in (response.error or "")


CODE = {"executableCode": {"language": "PYTHON", "code": "print(1)"}}
RAN = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}
SEARCH = {"toolCall": {"id": "s", "toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": ["tent"]}}}
FOUND = {"toolResponse": {"id": "s", "toolType": "GOOGLE_SEARCH_WEB", "response": {"n": 2}}}
NOW = {"functionCall": {"name": "now"}}


@pytest.mark.parametrize(
    ("parts", "calls", "ran"),
    [
        ([CODE, RAN], [("code_execution", {"code": "print(1)"}, "1")], 1),
        ([CODE, {"codeExecutionResult": {"outcome": "OUTCOME_OK"}}], [("code_execution", {"code": "print(1)"}, "")], 1),
        ([CODE], [("code_execution", {"code": "print(1)"}, ABSENT)], 1),
        ([SEARCH, FOUND], [("google_search", {"queries": ["tent"]}, {"n": 2})], 1),
        ([{"toolCall": {"toolType": "URL_CONTEXT"}}, FOUND], [("url_context", {}, ABSENT)], 1),
        ([SEARCH, NOW], [("google_search", {"queries": ["tent"]}, ABSENT), ("now", {}, ABSENT)], 1),
        ([NOW], [("now", {}, ABSENT)], 0),
        ([{"functionCall": {"name": "now", "args": None}}], [("now", {}, ABSENT)], 0),
        ([{"functionCall": None, "executableCode": None, "toolCall": None}], [], 0),
    ],
)
def test_calls_of_gemini_and_of_the_tools_of_google(parts: list[Any], calls: list[Any], ran: int) -> None:
    """Checks of forbidden tools did not see those that Google ran."""
    content = {"role": "model", "parts": [*parts, {"text": "four"}]}
    reply = Gemini(api_key=Secret("k-0123456789")).api({}).read({"candidates": [{"content": content}]})

    assert reply is not None
    assert [(call.tool, call.input, call.output) for call in reply.tools] == calls
    assert reply.ran == ran


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("gemini", {"candidates": [{"content": {"parts": [CODE, RAN]}, "finishReason": "STOP"}]}),
        (
            "anthropic",
            {"content": [{"type": "server_tool_use", "name": "web_search", "input": {}}], "stop_reason": "end_turn"},
        ),
    ],
)
def test_a_call_that_the_api_ran_itself_is_no_answer(llm: FakeLlm, kind: str, content: Any) -> None:
    _, response = ask(llm, kind, {"tools": [PRICE]}, [Reply(content=content)])

    assert response.error_kind == "no_answer"
    assert "called tools instead of answering" in (response.error or "")


@pytest.mark.parametrize(
    ("function", "given"),
    [
        ({"name": "now"}, {}),
        ({"name": "now", "arguments": None}, {}),
        ({"name": "now", "arguments": "null"}, {}),
        ({"name": "now", "arguments": '{"tz": "UTC"}'}, {"tz": "UTC"}),
        ({"name": "now", "arguments": "tz"}, "tz"),
    ],
)
def test_a_call_of_openai_without_arguments_has_none(function: Any, given: Any) -> None:
    """They were taken for arguments that are not reported, so a check of them was an ERROR."""
    message = {"content": None, "tool_calls": [{"id": "c", "type": "function", "function": function}]}
    reply = OpenAi(model="m").api({}).read({"choices": [{"message": message}]})

    assert reply is not None
    assert [call.input for call in reply.tools] == [given]


@pytest.mark.parametrize("kind", ["openai", "azure"])
def test_a_reasoning_model_gets_no_temperature(llm: FakeLlm, kind: str) -> None:
    limits = {"temperature": 0.5, "max_output_tokens": 9, "base_model": "o3"}

    assert body(llm, kind, **limits)["temperature"] == 0.5
    assert "temperature" not in body(llm, kind, **limits, reasoning=True)


@pytest.mark.parametrize(
    ("kind", "keys", "cost"),
    [
        ("azure", {"base_model": "o3", "client": "litellm"}, 0.006),
        ("azure", {"base_model": "gpt-4o", "reasoning": True, "client": "litellm"}, 0.0075),
        ("openai", {"base_model": "gpt-4o"}, 0.0075),
        ("openai", {"base_model": "gpt-4o", "client": "litellm"}, 0.0075),
        ("litellm", {"base_model": "gpt-4o", "model": "openai/team-7"}, 0.0075),
        ("litellm", {"base_model": "gpt-4o-mini", "model": "openai/gpt-4o"}, 0.00045),
        ("litellm", {"model": "openai/team-7"}, None),
    ],
)
def test_the_model_behind_a_name_gives_the_price(
    llm: FakeLlm, kind: str, keys: dict[str, Any], cost: float | None
) -> None:
    message = {"role": "assistant", "content": "four"}
    usage = {"prompt_tokens": 1000, "completion_tokens": 500, "total_tokens": 1500}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    model = keys.get("model", "team-7").removeprefix("openai/")
    content = {"id": "x", "object": "chat.completion", "created": 1, "model": model, "choices": choices, "usage": usage}

    sent, response = ask(llm, kind, {"model": model, **keys}, [Reply(content=content)])

    assert (response.cost_usd is None) is (cost is None)
    assert cost is None or 0.5 * cost < (response.cost_usd or 0) < 2 * cost  # prices change
    assert set(sent.body) == {"model", "messages"}
    assert sent.body["model"] == model
    assert "o_series" not in sent.path


@pytest.mark.parametrize(
    "path",
    ["", "/openai", "/openai/v1", "/openai/deployments/gpt-4o/chat/completions", "/openai/responses"],
)
def test_a_url_of_the_portal_keeps_its_version(path: str) -> None:
    url = f"https://r.openai.azure.com{path}?api-version=2025-01-01-preview"
    settings = Azure(base_url=url, model="gpt-4o", api_key=Secret("k-0123456789"))

    asked = settings.api({}).request(())
    assert asked.url == (
        "https://r.openai.azure.com/openai/deployments/gpt-4o/chat/completions?api-version=2025-01-01-preview"
    )
    assert "2024-06-01" in settings.replace(api_version="2024-06-01").api({}).request(()).url


@pytest.mark.parametrize(
    ("endpoint", "version", "query"),
    [
        ("https://r.azure.com/openai?team=a%20b&API-Version=2025-01-01", "", "?api-version=2025-01-01&team=a%20b"),
        ("https://r.azure.com?team=a&api-version=2025-01-01&x", "2024-06-01", "?api-version=2024-06-01&team=a&x"),
        ("r.azure.com?team=a", "2024-06-01", "?api-version=2024-06-01&team=a"),
        ("https://r.azure.com/openai/v1/?team=a&api-version=preview", "", "?team=a"),
        ("https://r.azure.com/openai/v1?api-version=preview", "", ""),
    ],
)
def test_the_query_of_an_endpoint_is_kept_as_that_of_a_base_url(endpoint: str, version: str, query: str) -> None:
    """It may be what a gateway tells its callers by. It was left out."""
    keys = {"api_version": version} if version else {}
    api = Azure(base_url=endpoint, model="m", **keys).api({})
    place = "v1" if "/v1" in endpoint else "deployments/m"
    assert api.request(()).url == f"https://r.azure.com/openai/{place}/chat/completions{query}"
    assert api.embed(["x"]).url == f"https://r.azure.com/openai/{place}/embeddings{query}"


@pytest.mark.parametrize("kind", MODELS)
def test_a_query_that_litellm_would_not_send_is_refused(kind: str) -> None:
    """litellm drops that of Azure, and puts the path of the others behind it."""
    keys = {"model": "m", "base_url": "https://r.azure.com/x?gw=1"}
    with pytest.raises(
        ValidationError, match=r"client\n.*litellm does not send the query of a URL .*leave out `client`"
    ):
        KINDS.table[kind](**keys, client="litellm")
    for fine in (
        keys,
        {**keys, "client": "direct"},
        {"model": "m", "base_url": "https://r.azure.com", "client": "litellm"},
    ):
        assert KINDS.table[kind](**fine).base_url == fine["base_url"]


def test_the_version_in_an_endpoint_is_sent_through_litellm_too() -> None:
    endpoint = "https://r.azure.com/openai/v1/?api-version=2025-01-01"
    settings = Azure(base_url=endpoint, model="m", client="litellm").api_settings
    assert settings.api_version == "2025-01-01"


def test_settings_do_not_show_their_secrets() -> None:
    settings = Azure(model="m", headers={"X-Pass": Secret("hunter2-0123456789")})

    assert "hunter2" not in repr(settings) + repr(settings.api_settings)


SAMPLING: dict[str, Any] = {"seed": 7, "top_p": 0.5, "stop": ["END"], "temperature": 0.2, "max_output_tokens": 50}


@pytest.mark.parametrize(
    ("kind", "keys", "found"),
    [
        *(
            (kind, SAMPLING, {"seed": 7, "top_p": 0.5, "stop": ["END"], "temperature": 0.2, limit: 50})
            for kind, limit in (("openai", "max_tokens"), ("azure", "max_completion_tokens"))
        ),
        ("openai", {"model": "gpt-5", "reasoning_effort": "low"}, {"reasoning_effort": "low"}),
        ("azure", {"model": "o3", "reasoning_effort": "low"}, {"reasoning_effort": "low"}),
        ("openai", {"response_format": FORMAT}, {"response_format": FORMAT}),
        ("azure", {"response_format": FORMAT}, {"response_format": FORMAT}),
        (
            "anthropic",
            {key: value for key, value in SAMPLING.items() if key != "seed"},
            {"top_p": 0.5, "stop_sequences": ["END"], "temperature": 0.2, "max_tokens": 50},
        ),
        (
            "gemini",
            SAMPLING,
            {
                "generationConfig": {
                    "seed": 7,
                    "top_p": 0.5,
                    "stop_sequences": ["END"],
                    "temperature": 0.2,
                    "max_output_tokens": 50,
                }
            },
        ),
    ],
)
def test_each_key_is_on_the_wire(llm: FakeLlm, kind: str, keys: dict[str, Any], found: dict[str, Any]) -> None:
    asked = body(llm, kind, **keys)

    assert {key: asked[key] for key in found} == found
    assert set(asked) - set(found) <= {"model", "messages", "system", "max_tokens", "contents", "system_instruction"}


def test_the_organization_is_a_header(llm: FakeLlm) -> None:
    assert ask(llm, "openai", {"organization": "org-1"})[0].headers["openai-organization"] == "org-1"


@pytest.mark.skipif(importlib.util.find_spec("litellm") is None, reason="litellm is not installed")
def test_a_target_of_litellm_sends_the_same_keys(llm: FakeLlm) -> None:
    keys = {**SAMPLING, "model": "openai/gpt-4o", "organization": "org-1", "tools": [PRICE], "response_format": FORMAT}

    request, _ = ask(llm, "litellm", keys)

    assert {key: request.body[key] for key in ("seed", "top_p", "stop", "temperature", "max_tokens")} == {
        "seed": 7,
        "top_p": 0.5,
        "stop": ["END"],
        "temperature": 0.2,
        "max_tokens": 50,
    }
    assert request.headers["openai-organization"] == "org-1"
    assert request.body["tools"] == [{"type": "function", "function": PRICE}]
    assert request.body["response_format"] == FORMAT
    assert not [key for key in request.body if key.startswith("_")]


@pytest.mark.parametrize("kind", [*MODELS, "pi-coding-agent"])
def test_a_key_is_trimmed(kind: str) -> None:
    """Files and secrets of CI end with a newline."""
    key = KINDS.table[kind](model="m", api_key=" sk-0123456789\r\n").api_key

    assert key == Secret("sk-0123456789")


@pytest.mark.parametrize(
    ("key", "what"),
    [
        ("sk-0123\nsk-4567", "U+000A at character 8"),
        ("\u200bsk-0123", "U+200B (ZERO WIDTH SPACE) at character 1"),
        ("sk-\u201c0123\u201d", "U+201C (LEFT DOUBLE QUOTATION MARK) at character 4"),
        ("sk-\x00", "U+0000 at character 4"),
    ],
)
def test_a_key_with_a_character_that_no_key_has_is_refused_and_not_quoted(key: str, what: str) -> None:
    with pytest.raises(ValidationError) as caught:
        KINDS.table["openai"](model="m", api_key=key)

    (error,) = caught.value.errors()
    assert error["msg"] == f"Value error, the key holds {what}, which no key does: copy it anew"
