import json

import pytest
from fake_llm import FakeLlm, Reply, ToolCall

pytestmark = [pytest.mark.frameworks, pytest.mark.filterwarnings("default")]

PARAMETERS = {"type": "object", "properties": {"order": {"type": "integer"}}}
CHAT_TOOL = {"type": "function", "function": {"name": "lookup", "parameters": PARAMETERS}}
TOOL = {"type": "function", "name": "lookup", "parameters": PARAMETERS, "strict": False}
COST = 26 * 2.5e-6 + 4 * 1.25e-6 + 5 * 10e-6


@pytest.fixture
def openai():
    """Import the package when a test runs: to list the tests, its second is not needed."""
    return pytest.importorskip("openai")


@pytest.fixture
def client(openai, fake_llm: FakeLlm):
    url = fake_llm.script("plain", Reply("It is sent.", cached_tokens=4))
    with openai.OpenAI(api_key="key", base_url=url) as client:
        yield client


@pytest.fixture
def calling(openai, fake_llm: FakeLlm):
    reply = Reply("It is sent.", calls=(ToolCall("lookup", {"order": 7}),))
    with openai.OpenAI(api_key="key", base_url=fake_llm.script("calling", reply)) as client:
        yield client


def check(response):
    assert response.text == "It is sent."
    assert response.tokens == {"input": 26, "output": 5, "cached": 4}
    assert response.cost_usd == pytest.approx(COST)
    assert response.is_text_only, "one reply does not tell what was called before it"


def check_calls(response, output):
    assert response.calls == [("lookup", {"order": 7}, output)]
    assert response.text == "It is sent."


def test_chat_completions_are_read_whole_and_streamed(ask, client):
    def chat(prompt, **settings):
        messages = [{"role": "user", "content": prompt}]
        return client.chat.completions.create(model="gpt-4o", messages=messages, **settings)

    def streamed(prompt):
        return chat(prompt, stream=True, stream_options={"include_usage": True})

    check(ask(chat))
    check(ask(streamed))
    assert {ask(each).record["finish_reason"] for each in (chat, streamed)} == {"stop"}
    check(ask(lambda prompt: chat(prompt).model_dump()))


def test_responses_are_read_whole_and_streamed(ask, client):
    check(ask(lambda prompt: client.responses.create(model="gpt-4o", input=prompt)))
    check(ask(lambda prompt: client.responses.create(model="gpt-4o", input=prompt, stream=True)))


def test_the_messages_of_a_loop_are_read(ask, calling):
    def loop(prompt):
        messages = [{"role": "user", "content": prompt}]
        while True:
            reply = calling.chat.completions.create(model="gpt-4o", messages=messages, tools=[CHAT_TOOL])
            message = reply.choices[0].message
            messages.append(message)
            if not message.tool_calls:
                return messages
            content = json.dumps({"status": "sent"})
            messages += [{"role": "tool", "tool_call_id": call.id, "content": content} for call in message.tool_calls]

    def with_tokens(prompt):
        return {"messages": loop(prompt), "token_usage": {"input": 60, "output": 10}, "cost_usd": 0.01}

    check_calls(ask(loop), {"status": "sent"})
    response = ask(with_tokens)
    check_calls(response, {"status": "sent"})
    assert (response.tokens, response.cost_usd) == ({"input": 60, "output": 10}, 0.01)


def test_the_items_of_a_loop_are_read(ask, calling):
    def loop(prompt):
        items = [{"role": "user", "content": prompt}]
        while True:
            output = calling.responses.create(model="gpt-4o", input=items, tools=[TOOL]).output
            items += output
            calls = [item for item in output if item.type == "function_call"]
            if not calls:
                return items
            items += [{"type": "function_call_output", "call_id": call.call_id, "output": "sent"} for call in calls]

    check_calls(ask(loop), "sent")
