import re
import threading

import pytest

pytest.importorskip("smolagents")

from smolagents import CodeAgent, Model, ToolCallingAgent, models, tool
from smolagents.models import ChatMessage, ChatMessageToolCall

from pytest_agentv.errors import ProviderError
from pytest_agentv.model.messages import candidate_answer

pytestmark = [pytest.mark.frameworks, pytest.mark.filterwarnings("default")]

try:
    from smolagents.monitoring import TokenUsage
except ImportError:  # before 1.18
    TokenUsage = None
Function = getattr(models, "ChatMessageToolCallFunction", None) or models.ChatMessageToolCallDefinition


@tool
def lookup(order: int) -> str:
    """Look an order up.

    Args:
        order: The number of the order.
    """
    return f"order {order} is sent"


class FakeModel(Model):
    """Looks the number of the task up, then answers what the tool said; or writes code that does both."""

    writes_code = False

    def generate(self, messages, stop_sequences=None, **kwargs):
        self.last_input_token_count, self.last_output_token_count = 10, 3
        text = str(messages)
        number = int(re.findall(r"New task:\\n.*?(\d+)", text)[-1])
        found = re.search(rf"order {number} is sent", text)
        if self.writes_code:
            code = f"final_answer(lookup({number}))"
            fence = f"<code>\n{code}\n</code>" if TokenUsage else f"Code:\n```py\n{code}\n```<end_code>"
            return self.reply(f"Thought: look it up\n{fence}")
        name, arguments = ("final_answer", {"answer": found[0]}) if found else ("lookup", {"order": number})
        call = ChatMessageToolCall(
            id=f"call-{name}", type="function", function=Function(name=name, arguments=arguments)
        )
        return self.reply("", tool_calls=[call])

    __call__ = generate

    def reply(self, content, **fields):
        usage = {"token_usage": TokenUsage(10, 3)} if TokenUsage else {}
        return ChatMessage(role="assistant", content=content, **usage, **fields)


class CodeModel(FakeModel):
    writes_code = True


def desk():
    return ToolCallingAgent(tools=[lookup], model=FakeModel(), verbosity_level=0)


def calls(response):
    return [call for said in response.output_messages for call in said.tool_calls]


def test_an_agent_is_asked_and_its_run_is_read(ask):
    response = ask(desk())

    assert candidate_answer(response.output_messages) == "order 7 is sent"
    assert [(call.tool, call.input, call.output) for call in calls(response)] == [
        ("lookup", {"order": 7}, "order 7 is sent")
    ]
    assert calls(response)[0].timestamp is not None
    used = response.token_usage
    assert (used.input, used.output) == (20, 6)


def test_code_is_what_the_interpreter_is_given(ask):
    response = ask(CodeAgent(tools=[lookup], model=CodeModel(), verbosity_level=0))

    assert candidate_answer(response.output_messages) == "order 7 is sent"
    assert [(call.tool, call.input) for call in calls(response)] == [("python_interpreter", "final_answer(lookup(7))")]


if TokenUsage:  # older releases return no more than the answer

    def test_a_function_may_return_the_full_result(ask):
        response = ask(lambda prompt: desk().run(prompt, return_full_result=True))

        assert [call.tool for call in calls(response)] == ["lookup"]
        assert (response.token_usage.input, response.finish_reason) == (20, "success")


def test_the_answer_alone_says_nothing_of_tools(ask):
    response = ask(lambda prompt: desk().run(prompt))

    assert candidate_answer(response.output_messages) == "order 7 is sent"
    assert response.is_text_only


def test_runs_of_one_agent_follow_one_another(ask_many):
    agent, at_once, most = desk(), 0, 0
    run, lock = agent.run, threading.Lock()

    def watched(*args, return_full_result=None, **kwargs):
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        result = run(*args, **kwargs, **({"return_full_result": True} if TokenUsage else {}))
        with lock:
            at_once -= 1
        return result

    if TokenUsage:
        agent.run = watched
    responses = ask_many(agent, [f"Where is order {number}?" for number in range(20)])

    assert most <= 1
    for number, response in enumerate(responses):
        assert candidate_answer(response.output_messages) == f"order {number} is sent"
        assert [call.input for call in calls(response)] == [{"order": number}]


def test_pictures_are_handed_over_and_pdfs_are_not(show):
    agent = desk()

    assert candidate_answer(show(agent, pdf=False).output_messages) == "order 7 is sent"

    (task,) = [step for step in agent.memory.steps if getattr(step, "task_images", None)]
    assert {image.size for image in task.task_images} == {(1, 1)}
    assert len(task.task_images) in (1, 2)
    with pytest.raises(ProviderError, match=r"agents of smolagents take pictures, and report\.pdf is a PDF"):
        show(agent)
