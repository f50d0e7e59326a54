import pytest

agents = pytest.importorskip("agents", reason="openai-agents is not installed")

from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage, function_tool
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseTextDeltaEvent,
    ResponseUsage,
)
from pydantic import BaseModel

from pytest_agentv.model.messages import candidate_answer

pytestmark = [pytest.mark.frameworks, pytest.mark.filterwarnings("default")]

agents.set_tracing_disabled(True)


@function_tool
def lookup(order: int) -> dict[str, str]:
    """Look an order up."""
    return {"status": f"sent ({order})"}


class FakeModel(Model):
    """Looks the last number of the question up, then answers."""

    def __init__(self, text: str = "Order {}: sent", tool: str = "lookup") -> None:
        self.text = text
        self.tool = tool
        self.asked = []

    async def get_response(self, system_instructions, input, *args, **kwargs):  # noqa: A002 - the name of the SDK
        self.asked.append(input)
        turns = [{"role": "user", "content": input}] if isinstance(input, str) else input
        number = int("".join(filter(str.isdigit, str([turn for turn in turns if turn.get("role") == "user"][-1]))))
        is_done = turns[-1].get("type") == "function_call_output"
        output = message(self.text.format(number)) if is_done else self.call(number)
        return ModelResponse(output=[output], usage=usage(), response_id=None)

    def call(self, number):
        arguments = f'{{"order": {number}}}' if self.tool == "lookup" else "{}"
        return ResponseFunctionToolCall(type="function_call", name=self.tool, arguments=arguments, call_id=f"c{number}")

    async def stream_response(self, system_instructions, input, *args, **kwargs):  # noqa: A002 - the name of the SDK
        reply = await self.get_response(system_instructions, input)
        for part in ("Order ", "7"):
            yield text_delta(part)
        yield completed(reply)


def message(text):
    part = ResponseOutputText(type="output_text", text=text, annotations=[])
    return ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[part])


def text_delta(text):
    return ResponseTextDeltaEvent(
        type="response.output_text.delta",
        delta=text,
        content_index=0,
        item_id="m",
        logprobs=[],
        output_index=0,
        sequence_number=0,
    )


def completed(reply):
    told = reply.usage
    response = Response(
        id="r",
        created_at=1,
        model="fake",
        object="response",
        output=reply.output,
        parallel_tool_calls=False,
        tool_choice="auto",
        tools=[],
        usage=ResponseUsage(
            input_tokens=told.input_tokens,
            output_tokens=told.output_tokens,
            total_tokens=told.total_tokens,
            input_tokens_details=told.input_tokens_details.model_dump(),
            output_tokens_details=told.output_tokens_details.model_dump(),
        ),
    )
    return ResponseCompletedEvent(type="response.completed", response=response, sequence_number=1)


def usage():
    found = Usage(requests=1, input_tokens=10, output_tokens=3, total_tokens=13)
    found.input_tokens_details.cached_tokens = 4
    found.output_tokens_details.reasoning_tokens = 2
    return found


def desk(**settings):
    return Agent(name="desk", tools=[lookup], **{"model": FakeModel(), **settings})


def calls(response):
    return [call for said in response.output_messages for call in said.tool_calls]


def test_an_agent_is_asked_and_its_run_is_read(ask):
    response = ask(desk())

    assert candidate_answer(response.output_messages) == "Order 7: sent"
    assert [(call.tool, call.input, call.output) for call in calls(response)] == [
        ("lookup", {"order": 7}, {"status": "sent (7)"})
    ]
    used = response.token_usage
    assert (used.input, used.cached, used.output, used.reasoning) == (12, 8, 6, 4)
    assert response.cost_usd is None, "the fake model has no name"


def test_a_function_may_return_the_result_or_its_items(ask):
    async def result(prompt):
        return await Runner.run(desk(), prompt)

    async def items(prompt):
        return (await Runner.run(desk(), prompt)).to_input_list()

    for function in (result, items):
        response = ask(function)
        assert candidate_answer(response.output_messages) == "Order 7: sent"
        assert [(call.tool, call.input) for call in calls(response)] == [("lookup", {"order": 7})]
    assert ask(items).token_usage is None, "a list of items does not tell it"


def test_a_structured_output_is_the_answer(ask):
    class Status(BaseModel):
        status: str

    response = ask(desk(model=FakeModel('{{"status": "sent"}}'), output_type=Status))

    assert candidate_answer(response.output_messages) == '{"status": "sent"}'
    assert len([said for said in response.output_messages if isinstance(said.content, str)]) == 1


def test_a_conversation_is_handed_over_as_items(ask):
    model = FakeModel()
    ask(desk(model=model), conversation=True)

    assert [(turn["role"], turn["content"]) for turn in model.asked[0]] == [
        ("system", "Be brief."),
        ("user", "Hello"),
        ("assistant", "Hi!"),
        ("user", "Where is order 7?"),
    ]


def test_a_hand_over_is_a_call_and_tells_who_answered(ask):
    triage = Agent(name="triage", model=FakeModel(tool="transfer_to_desk"), handoffs=[desk()])

    response = ask(triage)

    assert [(said.name, [call.tool for call in said.tool_calls]) for said in response.output_messages] == [
        ("triage", ["transfer_to_desk"]),
        ("desk", []),
    ]


def test_the_cost_is_known_where_nothing_can_name_another_model(ask, monkeypatch):
    class Provider(agents.ModelProvider):
        def get_model(self, model_name):
            return FakeModel()

    agent, run, config = desk(model="gpt-4o"), Runner.run, RunConfig(model_provider=Provider())

    async def result(prompt):
        return await run(agent, prompt, run_config=config)

    async def run_here(agent, asked, **arguments):  # the default provider would call OpenAI
        return await run(agent, asked, run_config=config, **arguments)

    assert ask(result).cost_usd is None, "the settings of a run may name another model, and its result does not tell"
    monkeypatch.setattr(Runner, "run", run_here)
    assert ask(agent).cost_usd == pytest.approx(12 * 2.5e-6 + 8 * 1.25e-6 + 6 * 10e-6)


def test_fifty_runs_at_once_do_not_mix(ask_many):
    responses = ask_many(desk(), [f"Where is order {number}?" for number in range(50)])

    for number, response in enumerate(responses):
        assert candidate_answer(response.output_messages) == f"Order {number}: sent"
        assert [(call.input, call.output) for call in calls(response)] == [
            ({"order": number}, {"status": f"sent ({number})"})
        ]


async def streamed(prompt):
    return Runner.run_streamed(desk(), prompt)


async def texts_and_the_result(prompt):
    result = Runner.run_streamed(desk(), prompt)
    async for event in result.stream_events():
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
            yield event.data.delta
    yield result


@pytest.mark.parametrize("function", [streamed, texts_and_the_result])
def test_a_streamed_run_is_read_to_its_end(ask, function):
    response = ask(function)

    assert response.error is None
    assert candidate_answer(response.output_messages) == "Order 7: sent"
    assert [(call.tool, call.input, call.output) for call in calls(response)] == [
        ("lookup", {"order": 7}, {"status": "sent (7)"})
    ]
    used = response.token_usage
    assert (used.input, used.cached, used.output, used.reasoning) == (12, 8, 6, 4)
