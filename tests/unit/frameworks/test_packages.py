"""Results of agent frameworks, played by stand-ins; `tests/frameworks` has the real ones."""

from datetime import UTC, datetime, timedelta

import pytest

from pytest_agentv.errors import ProviderError
from pytest_agentv.model.messages import TokenUsage

BEGAN = datetime(2026, 1, 2, 3, 4, 5, 600_000, UTC)


def exchange(of):
    """Messages of pydantic-ai with one call."""
    part = lambda kind, **fields: of("pydantic_ai", part_kind=kind, **fields)  # noqa: E731
    usage = of("pydantic_ai", input_tokens=30, output_tokens=5, cache_read_tokens=4, details={"reasoning_tokens": 2})
    reply = {"kind": "response", "usage": usage, "model_name": "gpt-4o", "provider_name": "openai"}
    returned = part(
        "tool-return",
        tool_name="lookup",
        tool_call_id="c1",
        content={"a": 1},
        timestamp=BEGAN + timedelta(milliseconds=250),
    )
    return [
        of("pydantic_ai", kind="request", parts=[part("user-prompt", content="Where?")]),
        of(
            "pydantic_ai",
            parts=[part("tool-call", tool_name="lookup", args='{"order": 7}', tool_call_id="c1")],
            timestamp=BEGAN,
            **reply,
        ),
        of("pydantic_ai", kind="request", parts=[returned]),
        of("pydantic_ai", parts=[part("text", content="Sent.")], timestamp=BEGAN, finish_reason="stop", **reply),
    ]


def test_cache_writes_of_pydantic_ai_cost_more_and_the_price_of_audio_is_not_known(read, stand_in):
    def cost(**tokens):
        usage = stand_in("pydantic_ai", input_tokens=3000, output_tokens=5, **tokens)
        told = {"usage": usage, "model_name": "claude-sonnet-4-5", "provider_name": "anthropic"}
        part = stand_in("pydantic_ai", part_kind="text", content="Sent.")
        return read(stand_in("pydantic_ai", kind="response", parts=[part], timestamp=BEGAN, **told)).cost_usd

    assert cost(cache_write_tokens=2000) == pytest.approx(cost() + 2000 * 0.25 * 3e-6)
    assert cost(input_audio_tokens=10) is None


def test_a_run_whose_tokens_are_more_than_those_of_its_replies_has_no_known_cost(read, stand_in):
    usage = stand_in("pydantic_ai", input_tokens=100, output_tokens=50)
    result = stand_in("pydantic_ai", new_messages=lambda: exchange(stand_in), output="Sent.", usage=usage)

    response = read(result)

    assert response.token_usage == TokenUsage(100, 50)
    assert response.cost_usd is None, "agents that the agent called are in it"


def test_an_openai_agents_run_that_waits_for_approval_is_no_answer(read, stand_in):
    wanted = stand_in("agents", name="refund")
    result = stand_in("agents", new_items=[], raw_responses=[], final_output=None, interruptions=[wanted])

    assert read(result).error == "the run waits for a person to approve refund"


def test_a_users_own_package_named_agents_is_no_framework(read, stand_in):
    with pytest.raises(ProviderError, match="returned a value of type Result: expected a str"):
        read(stand_in("agents", answer=5))


def ai(of, content="", **fields):
    return of("langchain_core.messages", type="ai", content=content, **fields)


def human(of, content="Where?", **fields):
    return of("langchain_core.messages", type="human", content=content, **fields)


def test_cache_writes_of_langchain_cost_more_and_other_tiers_have_no_known_price(read, stand_in):
    def cost(model, provider, details, out=None, **metadata):
        usage = {"input_tokens": 3000, "output_tokens": 5, "input_token_details": details}
        told = {"model_name": model, "model_provider": provider, **metadata}
        said = ai(stand_in, "Sent.", usage_metadata=usage | {"output_token_details": out or {}}, response_metadata=told)
        return read(said).cost_usd

    claude = ("claude-sonnet-4-5", "anthropic")
    usual, written = cost(*claude, {}), cost(*claude, {"cache_creation": 2000})
    assert written == pytest.approx(usual + 2000 * 0.25 * 3e-6)
    assert cost(*claude, {"cache_creation": 0, "ephemeral_5m_input_tokens": 2000}) == written
    assert cost(*claude, {"cache_creation": 0, "ephemeral_1h_input_tokens": 2000}) is None
    gpt = ("gpt-5", "openai")
    assert cost(*gpt, {"flex_cache_read": 1000, "flex": 2000}, {"flex_reasoning": 3}, service_tier="flex") is None
    assert cost(*gpt, {"audio": 10}) is None


def test_a_humans_message_with_a_name_is_one_agent_telling_another(read, told, stand_in):
    call = {"name": "search", "args": {}, "id": "c1"}
    told_back = human(stand_in, "found it", name="researcher")
    messages = [human(stand_in), ai(stand_in, tool_calls=[call]), told_back, ai(stand_in, "Here it is.")]

    assert [tool for tool, *_ in told(read(messages))[0]] == ["search"]
