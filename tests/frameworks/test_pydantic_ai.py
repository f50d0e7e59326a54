import pytest

pydantic_ai = pytest.importorskip("pydantic_ai")

from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel

pytestmark = [pytest.mark.frameworks, pytest.mark.filterwarnings("default")]


class Status(BaseModel):
    status: str


def desk(**settings):
    agent = Agent(settings.pop("model", TestModel()), system_prompt="You are a desk.", **settings)

    @agent.tool_plain
    def lookup(order: int) -> dict[str, str]:
        return {"status": f"sent ({order})"}

    return agent


def test_an_agent_is_asked_and_its_run_is_read(ask):
    response = ask(desk())

    assert response.text == '{"lookup":{"status":"sent (0)"}}'
    assert response.calls == [("lookup", {"order": 0}, {"status": "sent (0)"})]
    assert response.tokens["input"] > 0 < response.tokens["output"]
    assert response.cost_usd is None, "nobody knows what the test model costs"
    assert not response.is_text_only
    assert response.error is None


def test_a_structured_output_is_the_answer_and_no_tool_call(ask):
    response = ask(desk(output_type=Status))

    assert response.text == '{"status":"a"}'
    assert [tool for tool, _, _ in response.calls] == ["lookup"]


def test_a_conversation_becomes_the_history_and_the_agents_own_prompt_stays(ask):
    seen = []

    def reply(messages, info):
        seen.extend((part.part_kind, part.content) for message in messages for part in message.parts)
        return ModelResponse(parts=[TextPart("On its way.")])

    response = ask(Agent(FunctionModel(reply), system_prompt="You are a desk."), conversation=True)

    assert response.text == "On its way."
    assert seen == [
        ("system-prompt", "You are a desk."),
        ("system-prompt", "Be brief."),
        ("user-prompt", "Hello"),
        ("text", "Hi!"),
        ("user-prompt", "Where is order 7?"),
    ]


def test_a_function_may_return_the_result_or_its_messages(ask):
    agent = desk()

    async def asynchronous(prompt):
        return await agent.run(prompt)

    async def again(prompt):
        first = await agent.run("Something else?")
        return (await agent.run(prompt, message_history=first.all_messages())).all_messages()

    for function in (asynchronous, agent.run_sync):
        response = ask(function)
        assert response.text == '{"lookup":{"status":"sent (0)"}}'
        assert len(response.calls) == 1
    second = ask(again)
    assert second.calls == [], "the call of the first question is not one of this answer"
    assert second.tokens is not None


def test_streamed_runs_are_read_to_their_end(ask):
    agent = desk()

    async def texts(prompt):
        async with agent.run_stream(prompt) as result:
            async for text in result.stream_text(delta=True):
                yield text

    async def consumed(prompt):
        async with agent.run_stream(prompt) as result:
            await result.get_output()
            return result

    assert ask(texts).text == '{"lookup":{"status":"sent (0)"}}'
    assert ask(texts).is_text_only
    response = ask(consumed)
    assert response.text == '{"lookup":{"status":"sent (0)"}}'
    assert [tool for tool, _, _ in response.calls] == ["lookup"]
    assert len([message for message in response.messages if message.get("content")]) == 1


def test_the_cost_is_that_of_the_models_of_the_replies(ask):
    def reply(messages, info):
        if len(messages) == 1:
            return ModelResponse(parts=[ToolCallPart("lookup", {"order": 7}, "c1")], model_name="gpt-4o")
        return ModelResponse(parts=[TextPart("Sent.")], model_name="gpt-4o")

    async def run(prompt):
        result = await desk(model=FunctionModel(reply)).run(prompt)
        for message in result.new_messages():
            if isinstance(message, ModelResponse):
                message.provider_name = "openai"
                message.model_name = "gpt-4o"
        return result

    response = ask(run)

    tokens = response.tokens
    assert response.cost_usd == pytest.approx(tokens["input"] * 2.5e-6 + tokens["output"] * 10e-6)
