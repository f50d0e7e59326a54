"""What models are asked through litellm and without it is the same, in one run of both: litellm is the oracle."""

import base64
import importlib.util
import json

import pytest
from fake_llm import FakeLlm, Reply

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("litellm") is None, reason="litellm is not installed"),
]

KEY = "sk-0123456789abcdef"
KEY_HEADERS = {
    *("authorization", "openai-organization", "api-key", "x-api-key", "x-goog-api-key", "anthropic-version"),
    *("content-type", "x-team"),
}
# Models for which litellm leaves nothing out and translates nothing by their names.
MODELS = {"openai": "gpt-4o", "azure": "gpt-4o", "anthropic": "claude-sonnet-4-5", "gemini": "gemini-2.5-flash"}
CHATS = (
    None,
    (("system", "S"), ("user", "a"), ("user", "ä\n\u2028🙂")),
    (("assistant", "b"), ("assistant", "b2"), ("user", "c")),
    (("user", "a"), ("assistant", "b \n")),
)
SHAPE = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "place", "strict": True, "schema": SHAPE}}
SAMPLING = {"top_p": 0.5, "stop": ["END", "."], "seed": 7}
PRICE = {"name": "price_of", "description": "Look up a price", "parameters": SHAPE}
OWN = {"headers": {"X-Team": "shop"}, "extra_body": {"metadata": {"user_id": "u1"}}}
ALL = {**SAMPLING, **OWN, "temperature": 0.2, "response_format": FORMAT, "organization": "org-1", "tools": [PRICE]}
KEYS = (
    *((kind, SAMPLING) for kind in ("openai", "azure", "gemini")),
    *((kind, {"response_format": FORMAT}) for kind in ("openai", "azure")),
    ("openai", {"stop": "END", "organization": "org-1"}),
    ("openai", {"model": "gpt-5", "reasoning_effort": "minimal"}),
    ("anthropic", {"top_p": 0.5, "stop": ["END"]}),
    ("anthropic", {"thinking_budget": 1024}),
    ("anthropic", {"thinking_budget": 2000, "max_output_tokens": 100}),
    *(("azure", {"api_version": version, "max_output_tokens": 50}) for version in ("v1", "preview", "2025-03-01")),
    ("openai", {**ALL, "max_output_tokens": 50}),
)
COMBINATIONS = [
    *(
        (kind, limits, chat)
        for kind in MODELS
        for limits in ({}, {"temperature": 0.0, "max_output_tokens": 4000})
        for chat in CHATS
    ),
    *((kind, keys, None) for kind, keys in KEYS),
]
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(40))
PDF = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj"
MEDIA = [
    "Compare: ",
    *({"type": kind, "value": name} for kind, name in (("image", "chart.png"), ("file", "report.pdf"))),
    "Thanks.",
]
USAGE = {"prompt_tokens": 1000, "completion_tokens": 500, "total_tokens": 1500}


def chat(**message):
    choices = [{"index": 0, "message": {"role": "assistant", "content": "hello", **message}, "finish_reason": "stop"}]
    return {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": choices, "usage": USAGE}


CUSTOM = {"id": "c", "type": "custom", "custom": {"name": "run", "input": "42"}}
TOOL = {"tools": [{"type": "custom", "custom": {"name": "run"}}]}
ALONE = {
    "azure-price": ("azure", {"model": "team-7", "base_model": "o3", "client": "litellm"}, chat()),
    "price": ("litellm", {"model": "openai/team-7", "base_model": "gpt-4o-mini"}, chat()),
    "no-price": ("litellm", {"model": "openai/team-7"}, chat()),
    "custom-tool": ("openai", {"client": "litellm", **TOOL}, chat(tool_calls=[CUSTOM])),
    "function-call": (
        *("openai", {"client": "litellm", "extra_body": {"functions": [{"name": "look"}]}}),
        chat(function_call={"name": "look", "arguments": '{"order": 7}'}),
    ),
    "nobody": ("litellm", {"model": "nobody/nothing"}, None),
    "no-key": ("litellm", {"model": "openai/gpt-4o", "api_key": None}, None),
    "responses": ("openai", {"client": "litellm", "api_format": "responses"}, None),
    "redirect": ("openai", {"client": "litellm"}, None),
    **{f"media-{kind}": (kind, {"client": "litellm"}, None) for kind in ("openai", "anthropic", "gemini")},
}
"""By the id of the case: what is asked through litellm, and the reply."""


@pytest.fixture
def asked(project, monkeypatch):
    """Return a run, the requests of each of its cases, and those that came to another server."""
    for variable in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY"):
        monkeypatch.delenv(variable, raising=False)
    targets, cases = [], []
    with FakeLlm() as server, FakeLlm() as other:

        def add(name, kind, keys, content="What is 2 + 2?", *replies):
            url = server.script(name, *replies) + ("/v1" if kind in ("openai", "litellm") else "")
            fixed = {"api_key": KEY, "base_url": url, "max_retries": 0, "model": MODELS.get(kind)}
            fields = {"name": name, "provider": kind, **fixed, **keys}
            targets.append({key: value for key, value in fields.items() if value is not None})
            cases.append({"id": name, "target": name, "input": content, "assert": [{"equals": "hello"}]})

        for at, (kind, keys, turns) in enumerate(COMBINATIONS):
            content = [{"role": role, "content": text} for role, text in turns or [("user", "What is 2 + 2?")]]
            add(f"direct-{at}", kind, keys, content)
            add(f"litellm-{at}", kind, {**keys, "client": "litellm"}, content)
        add("litellm", "litellm", {**ALL, "max_output_tokens": 50, "model": "openai/gpt-4o"})
        for name, (kind, keys, reply) in ALONE.items():
            replies = [] if reply is None else [Reply(content=reply)]
            if name == "redirect":
                replies = [Reply(status=307, headers={"location": other.script("elsewhere")})]
            content = [{"role": "user", "content": MEDIA}] if name.startswith("media") else "What is 2 + 2?"
            add(name, kind, keys, content, *replies)
        project.write("targets.yaml", json.dumps({"targets": targets}))
        project.write("a.eval.yaml", json.dumps({"cases": cases}))
        (project.path / "chart.png").write_bytes(PNG)
        (project.path / "report.pdf").write_bytes(PDF)
        run = project.run("--agentv-workers=8", subprocess=True)
        return run, {name: server.asked(name) for name in run.by_id}, other.requests


def on_the_wire(requests):
    (request,) = requests
    headers = {name: value for name, value in request.headers.items() if name in KEY_HEADERS}
    return {"path": request.path, "query": request.query, "headers": headers, "body": request.body}


def apply_known_differences(kind, limits, expected):
    """Change litellm's request where ours differs on purpose: no name of a model decides what is sent."""
    if kind == "azure" and "max_tokens" in expected["body"]:
        expected["body"]["max_completion_tokens"] = expected["body"].pop("max_tokens")
    if kind == "anthropic":
        expected["body"]["max_tokens"] = limits.get("max_output_tokens", 8192) + limits.get("thinking_budget", 0)
    if kind == "azure" and expected["path"] == "/openai/v1/chat/completions":
        # litellm sends the key as a bearer token to the newer API; the header of a key is `api-key` there too.
        expected["headers"]["api-key"] = expected["headers"].pop("authorization").removeprefix("Bearer ")


def test_a_request_equals_that_of_litellm_and_its_prices_calls_and_errors_are_told(asked):
    run, requests, elsewhere = asked
    failed = {name for name, status in run.statuses.items() if status != "pass"}
    assert failed == {"nobody", "no-key", "redirect"}, run.text
    for at, (kind, keys, _) in enumerate(COMBINATIONS):
        expected = on_the_wire(requests[f"litellm-{at}"])
        apply_known_differences(kind, keys, expected)
        assert on_the_wire(requests[f"direct-{at}"]) == expected, (kind, keys)
    same = on_the_wire(requests["litellm"])
    assert same == on_the_wire(requests[f"direct-{len(COMBINATIONS) - 1}"])
    assert requests["responses"][0].path == "/v1/responses"
    for kind in ("openai", "anthropic", "gemini"):
        body = json.dumps(requests[f"media-{kind}"][0].body)
        places = [body.index(text) for text in ("Compare:", *map(encoded, (PNG, PDF)), "Thanks.")]
        assert places == sorted(places)

    costs = {name: run.by_id[name]["execution_metrics"].get("cost_usd") for name in ALONE if name.endswith("price")}
    for name, cost in (("azure-price", 0.006), ("price", 0.00045)):
        assert 0.5 * cost < costs[name] < 2 * cost  # prices change
        assert requests[name][0].body.keys() == {"model", "messages"}
        assert (requests[name][0].body["model"], "o_series" in requests[name][0].path) == ("team-7", False)
    assert costs["no-price"] is None
    calls = {name: run.by_id[name]["output_messages"][0]["tool_calls"] for name in ("custom-tool", "function-call")}
    assert calls == {
        "custom-tool": [{"tool": "run", "input": "42", "id": "c"}],
        "function-call": [{"tool": "look", "input": {"order": 7}}],
    }

    errors = {name: run.by_id[name]["error"] for name in failed}
    assert errors["nobody"].startswith(
        "model 'nobody/nothing' (litellm) could not be asked: LLM Provider NOT provided."
    )
    assert run.by_id["nobody"]["error_detail"]["kind"] == "config"
    assert "OPENAI_API_KEY" in errors["no-key"]
    assert requests["nobody"] == requests["no-key"] == []
    assert ("307" in errors["redirect"], elsewhere) == (True, []), "the key went to another server"


def encoded(content):
    return base64.b64encode(content).decode()
