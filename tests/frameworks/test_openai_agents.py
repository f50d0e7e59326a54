import pytest
from fake_llm import FakeLlm, Reply, ToolCall

agents = pytest.importorskip("agents", reason="openai-agents is not installed")

from agents import Agent, OpenAIResponsesModel, Runner, function_tool
from openai import AsyncOpenAI
from pydantic import BaseModel

pytestmark = [pytest.mark.frameworks, pytest.mark.filterwarnings("default", "ignore::ResourceWarning")]

agents.set_tracing_disabled(True)

LOOKUP = (ToolCall("lookup", {"order": 7}),)
CALLS = [("lookup", {"order": 7}, {"status": "sent (7)"})]
TOKENS = {"input": 52, "output": 10, "cached": 8}
COST = 52 * 2.5e-6 + 8 * 1.25e-6 + 10 * 10e-6


@function_tool
def lookup(order: int) -> dict[str, str]:
    """Look an order up."""
    return {"status": f"sent ({order})"}


@pytest.fixture
def desk(fake_llm: FakeLlm):
    """Make an agent whose model looks order 7 up, then answers."""

    def make(text="Order 7: sent", calls=LOOKUP, **settings):
        url = fake_llm.script("desk", Reply(text, calls=calls, cached_tokens=4))
        model = OpenAIResponsesModel("gpt-4o", AsyncOpenAI(base_url=url, api_key="key"))
        return Agent(name="desk", model=model, tools=[lookup], **settings)

    return make


def test_an_agent_is_asked_and_its_run_is_read(ask, desk):
    response = ask(desk())

    assert (response.text, response.calls, response.tokens) == ("Order 7: sent", CALLS, TOKENS)
    assert response.cost_usd == pytest.approx(COST)


def test_a_function_may_return_the_result_or_its_items(ask, desk):
    async def result(prompt):
        return await Runner.run(desk(), prompt)

    async def items(prompt):
        return (await Runner.run(desk(), prompt)).to_input_list()

    whole, listed = ask(result), ask(items)
    assert whole.text == listed.text == "Order 7: sent"
    assert [call[:2] for call in listed.calls] == [call[:2] for call in whole.calls] == [("lookup", {"order": 7})]
    assert whole.cost_usd is None, "the settings of a run may name another model, and its result does not tell"
    assert listed.tokens is None, "a list of items does not tell it"


def test_a_structured_output_is_the_answer(ask, desk):
    class Status(BaseModel):
        status: str

    response = ask(desk('{"status": "sent"}', output_type=Status))

    assert response.text == '{"status": "sent"}'
    assert len([said for said in response.messages if said.get("content")]) == 1


def test_a_conversation_is_handed_over_as_items(ask, desk, fake_llm: FakeLlm):
    ask(desk(), conversation=True)

    assert [(turn["role"], turn["content"]) for turn in fake_llm.asked("desk")[0].body["input"]] == [
        ("system", "Be brief."),
        ("user", "Hello"),
        ("assistant", "Hi!"),
        ("user", "Where is order 7?"),
    ]


def test_a_hand_over_is_a_call_and_tells_who_answered(ask, desk, fake_llm: FakeLlm):
    url = fake_llm.script("triage", Reply(calls=(ToolCall("transfer_to_desk", {}),)))
    model = OpenAIResponsesModel("gpt-4o", AsyncOpenAI(base_url=url, api_key="key"))

    response = ask(Agent(name="triage", model=model, handoffs=[desk(calls=())]))

    assert [(said["name"], [call["tool"] for call in said.get("tool_calls", ())]) for said in response.messages] == [
        ("triage", ["transfer_to_desk"]),
        ("desk", []),
    ]


@pytest.mark.parametrize("yields_texts", [False, True])
def test_a_streamed_run_is_read_to_its_end(ask, desk, yields_texts):
    async def streamed(prompt):
        return Runner.run_streamed(desk(), prompt)

    async def texts_and_the_result(prompt):
        result = Runner.run_streamed(desk(), prompt)
        async for event in result.stream_events():
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                yield event.data.delta
        yield result

    response = ask(texts_and_the_result if yields_texts else streamed)

    assert (response.error, response.text, response.calls) == (None, "Order 7: sent", CALLS)
    assert response.tokens == TOKENS
