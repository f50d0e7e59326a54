"""The keys of models on the wire, and the calls of their replies."""

import asyncio
import importlib.util
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from fake_llm import FakeLlm, Reply, Request
from pydantic import ValidationError

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.model.base import ABSENT
from pytest_agentv.model.cases import Target
from pytest_agentv.model.secrets import Secret
from pytest_agentv.providers.api.gemini import Gemini
from pytest_agentv.providers.api.litellm import build_arguments
from pytest_agentv.providers.api.openai import Azure, OpenAi, resource_url
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse
from pytest_agentv.providers.table import KINDS, create_provider

PRICE = {
    "name": "price_of",
    "description": "Look up a price",
    "parameters": {"type": "object", "properties": {"product": {"type": "string"}}},
}
SHAPE = {"type": "object", "properties": {"city": {"type": "string"}}}
FORMAT = {"type": "json_schema", "json_schema": {"name": "place", "schema": SHAPE}}
MODELS = {"openai": "gpt-4o", "azure": "gpt-4o", "anthropic": "claude-sonnet-4-5", "gemini": "gemini-2.5-flash"}
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
    fixed = {"model": MODELS.get(kind), "api_key": Secret("sk-0123456789"), "base_url": base_url, "max_retries": 0}
    target = Target("t", kind, KINDS.table[kind](**{**fixed, **keys}))

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


@pytest.mark.parametrize(
    ("kind", "keys", "cost"),
    [
        ("azure", {"base_model": "o3", "client": "litellm"}, 0.006),
        ("openai", {"base_model": "gpt-4o"}, 0.0075),
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
    ("endpoint", "version", "query"),
    [
        *(
            (f"https://r.azure.com{path}?api-version=2025-01-01-preview", "", "?api-version=2025-01-01-preview")
            for path in ("", "/openai", "/openai/deployments/m/chat/completions", "/openai/responses")
        ),
        ("https://r.azure.com?api-version=2025-01-01-preview", "2024-06-01", "?api-version=2024-06-01"),
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
    url = "https://r.azure.com/x"
    with pytest.raises(ValidationError, match=r"litellm does not send the query of a URL .*leave out `client`"):
        KINDS.table[kind](model="m", base_url=f"{url}?gw=1", client="litellm")
    for query, client in (("?gw=1", "direct"), ("", "litellm")):
        assert KINDS.table[kind](model="m", base_url=url + query, client=client).base_url == url + query


@pytest.mark.skipif(importlib.util.find_spec("litellm") is None, reason="litellm is not installed")
def test_a_target_of_litellm_sends_the_same_keys(llm: FakeLlm) -> None:
    sampling = {"seed": 7, "top_p": 0.5, "stop": ["END"], "temperature": 0.2, "response_format": FORMAT}
    keys = {"model": "openai/gpt-4o", "organization": "org-1", "tools": [PRICE], "max_output_tokens": 50}
    own = {"headers": {"X-Team": "shop"}, "extra_body": {"metadata": {"user_id": "u1"}}}

    request, _ = ask(llm, "litellm", {**sampling, **keys, **own})

    tools = [{"type": "function", "function": PRICE}]
    sent = {**sampling, "max_tokens": 50, "tools": tools, "metadata": {"user_id": "u1"}, "model": "gpt-4o"}
    assert {key: value for key, value in request.body.items() if key != "messages"} == sent
    assert (request.headers["openai-organization"], request.headers["x-team"]) == ("org-1", "shop")


AZURE_VERSION = {"azure": {"api_version": "2024-10-01-preview"}}
LIMITS: dict[str, Any] = {"temperature": 0.5, "max_output_tokens": 100}
THINKING = {"type": "enabled", "budget_tokens": 2000}


@pytest.mark.parametrize(
    ("kind", "settings", "expected"),
    [
        (
            "openai",
            {"base_url": "http://r/v1", "api_format": "responses"},
            {"model": "openai/responses/m", "api_base": "http://r/v1"},
        ),
        (
            "azure",
            {"base_url": "https://r.openai.azure.com/", "api_version": "v", **LIMITS},
            {
                "model": "azure/m",
                "api_base": "https://r.openai.azure.com",
                "api_version": "v",
                "temperature": 0.5,
                "max_tokens": 100,
            },
        ),
        (
            "azure",
            {"base_url": "r", "reasoning": True, **LIMITS},
            {"model": "azure/o_series/m", "api_base": "https://r.openai.azure.com", "max_completion_tokens": 100},
        ),
        ("anthropic", {"thinking_budget": 2000}, {"model": "anthropic/m", "thinking": THINKING}),
        (
            "anthropic",
            {"thinking_budget": 2000, **LIMITS},
            {"model": "anthropic/m", "max_tokens": 2100, "thinking": THINKING},
        ),
        ("litellm", {"base_url": "http://p/v1", "api_version": "v"}, {"api_base": "http://p/v1", "api_version": "v"}),
    ],
)
def test_what_litellm_is_called_with(kind: str, settings: dict[str, Any], expected: dict[str, Any]) -> None:
    found = build_arguments(KINDS.table[kind](model="m", **settings).api({}))
    assert found == {"model": "m", "drop_params": True, **AZURE_VERSION.get(kind, {}), **expected}


@pytest.mark.parametrize(
    ("kind", "written", "used"),
    [
        *(("anthropic", f"http://p{end}", "http://p") for end in ("", "/", "/v1", "/v1/", "/v1/messages")),
        *(("gemini", f"http://p{end}", "http://p/v1beta") for end in ("", "/v1beta/")),
        ("gemini", "http://p/v1", "http://p/v1"),
        ("gemini", "http://p/gemini", "http://p/gemini/v1beta"),
        ("openai", "http://p/v1", "http://p/v1"),
    ],
)
def test_the_base_url_for_litellm_has_its_version(kind: str, written: str, used: str) -> None:
    assert build_arguments(KINDS.table[kind](model="m", base_url=written).api({}))["api_base"] == used


@pytest.mark.scenario("Azure OpenAI provider")
@pytest.mark.parametrize(
    ("written", "endpoint"),
    [
        ("https://r.openai.azure.com/openai", "https://r.openai.azure.com"),
        ("https://r.openai.azure.com/openai/v1", "https://r.openai.azure.com"),
        ("HTTP://proxy:8080/azure", "HTTP://proxy:8080/azure"),
        ("r", "https://r.openai.azure.com"),
        ("r.cognitiveservices.azure.com", "https://r.cognitiveservices.azure.com"),
    ],
)
def test_an_azure_resource_is_named_by_url_or_host_or_name(written: str, endpoint: str) -> None:
    assert resource_url(written) == endpoint


@pytest.mark.parametrize("kind", [*MODELS, "pi-coding-agent"])
def test_a_key_is_trimmed(kind: str) -> None:
    """Files and secrets of CI end with a newline."""
    key = KINDS.table[kind](model="m", api_key=" sk-0123456789\r\n").api_key

    assert key == Secret("sk-0123456789")


@pytest.mark.parametrize(
    ("key", "what"),
    [
        ("sk-0123\nsk-4567", "U+000A at character 8"),
        ("\u200bsk-0123", "U+200B at character 1"),
        ("sk-\u201c0123\u201d", "U+201C at character 4"),
        ("sk-\x00", "U+0000 at character 4"),
    ],
)
def test_a_key_with_a_character_that_no_key_has_is_refused_and_not_quoted(key: str, what: str) -> None:
    with pytest.raises(ValidationError) as caught:
        KINDS.table["openai"](model="m", api_key=key)

    (error,) = caught.value.errors()
    assert error["msg"] == f"Value error, the key holds {what}, which no key does: copy it anew"
