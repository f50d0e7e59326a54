import pytest
from fake_llm import FakeLlm, Reply, ToolCall

anthropic = pytest.importorskip("anthropic")

pytestmark = [pytest.mark.frameworks, pytest.mark.filterwarnings("default")]

TOOL = {"name": "lookup", "input_schema": {"type": "object", "properties": {"order": {"type": "integer"}}}}
SETTINGS = {"model": "claude-sonnet-4-5", "max_tokens": 100}
COST = 26 * 3e-6 + 4 * 0.3e-6 + 5 * 15e-6


@pytest.fixture
def client(fake_llm: FakeLlm):
    url = fake_llm.script("plain", Reply("It is sent.", cached_tokens=4))
    return anthropic.Anthropic(api_key="key", base_url=url)


@pytest.fixture
def calling(fake_llm: FakeLlm):
    reply = Reply("It is sent.", calls=(ToolCall("lookup", {"order": 7}, said="Let me see."),))
    return anthropic.Anthropic(api_key="key", base_url=fake_llm.script("calling", reply))


def test_a_reply_is_read(ask, client):
    def reply(prompt):
        messages = [{"role": "user", "content": prompt}]
        return client.messages.create(messages=messages, **SETTINGS)

    response = ask(reply)

    assert response.text == "It is sent."
    assert response.tokens == {"input": 26, "output": 5, "cached": 4}
    assert response.cost_usd == pytest.approx(COST)
    assert response.record["finish_reason"] == "end_turn"
    assert response.is_text_only, "one reply does not tell what was called before it"


def test_the_calls_of_a_reply_are_read(ask, calling):
    def reply(prompt):
        messages = [{"role": "user", "content": prompt}]
        return calling.messages.create(messages=messages, tools=[TOOL], **SETTINGS)

    response = ask(reply)
    assert response.text == "Let me see."
    assert response.calls == [("lookup", {"order": 7}, None)]


def test_the_messages_of_a_loop_are_read(ask, calling):
    def loop(prompt):
        messages = [{"role": "user", "content": prompt}]
        while True:
            reply = calling.messages.create(messages=messages, tools=[TOOL], **SETTINGS)
            messages.append({"role": "assistant", "content": reply.content})
            calls = [block for block in reply.content if block.type == "tool_use"]
            if not calls:
                return messages
            results = [{"type": "tool_result", "tool_use_id": call.id, "content": "sent"} for call in calls]
            messages.append({"role": "user", "content": results})

    response = ask(loop)

    assert response.text == "It is sent."
    assert response.calls == [("lookup", {"order": 7}, "sent")]
