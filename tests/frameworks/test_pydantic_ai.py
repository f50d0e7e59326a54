import pytest

pydantic_ai = pytest.importorskip("pydantic_ai")

from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel

from pytest_agentv.model.messages import ToolCall, candidate_answer
from pytest_agentv.providers.base import ProviderResponse

pytestmark = [pytest.mark.frameworks, pytest.mark.filterwarnings("default")]


class Status(BaseModel):
    status: str


def desk(**settings):
    agent = Agent(settings.pop("model", TestModel()), system_prompt="You are a desk.", **settings)

    @agent.tool_plain
    def lookup(order: int) -> dict[str, str]:
        return {"status": f"sent ({order})"}

    return agent


def calls(response: ProviderResponse) -> list[ToolCall]:
    return [call for message in response.output_messages or () for call in message.tool_calls]


def test_an_agent_is_asked_and_its_run_is_read(ask):
    response = ask(desk())

    assert candidate_answer(response.output_messages) == '{"lookup":{"status":"sent (0)"}}'
    (call,) = calls(response)
    assert (call.tool, call.input, call.output) == ("lookup", {"order": 0}, {"status": "sent (0)"})
    assert response.token_usage is not None
    assert response.token_usage.input > 0 < response.token_usage.output
    assert response.cost_usd is None, "nobody knows what the test model costs"
    assert not response.is_text_only
    assert response.error is None


def test_a_structured_output_is_the_answer_and_no_tool_call(ask):
    response = ask(desk(output_type=Status))

    assert candidate_answer(response.output_messages) == '{"status":"a"}'
    assert [call.tool for call in calls(response)] == ["lookup"]


def test_a_conversation_becomes_the_history_and_the_agents_own_prompt_stays(ask):
    seen = []

    def reply(messages, info):
        seen.extend((part.part_kind, part.content) for message in messages for part in message.parts)
        return ModelResponse(parts=[TextPart("On its way.")])

    response = ask(Agent(FunctionModel(reply), system_prompt="You are a desk."), conversation=True)

    assert candidate_answer(response.output_messages) == "On its way."
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
        assert candidate_answer(response.output_messages) == '{"lookup":{"status":"sent (0)"}}'
        assert len(calls(response)) == 1
    second = ask(again)
    assert calls(second) == [], "the call of the first question is not one of this answer"
    assert second.token_usage is not None


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

    assert candidate_answer(ask(texts).output_messages) == '{"lookup":{"status":"sent (0)"}}'
    assert ask(texts).is_text_only
    response = ask(consumed)
    assert candidate_answer(response.output_messages) == '{"lookup":{"status":"sent (0)"}}'
    assert [call.tool for call in calls(response)] == ["lookup"]
    assert len([message for message in response.output_messages or () if isinstance(message.content, str)]) == 1


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

    assert response.cost_usd is not None
    assert response.token_usage is not None
    usage = response.token_usage
    assert response.cost_usd == pytest.approx(usage.input * 2.5e-6 + usage.output * 10e-6)


def test_fifty_runs_at_once_do_not_mix(ask_many):
    def reply(messages, info):
        question = messages[0].parts[-1].content
        number = int(question.rpartition(" ")[2])
        if len(messages) == 1:
            return ModelResponse(parts=[ToolCallPart("lookup", {"order": number})])
        return ModelResponse(parts=[TextPart(f"Order {number}: {messages[-1].parts[0].content['status']}")])

    responses = ask_many(desk(model=FunctionModel(reply)), [f"Where is order {number}" for number in range(50)])

    for number, response in enumerate(responses):
        assert candidate_answer(response.output_messages) == f"Order {number}: sent ({number})"
        assert [call.input for call in calls(response)] == [{"order": number}]
