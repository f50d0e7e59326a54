from typing import Annotated

import pytest

pytest.importorskip("langchain_core", reason="langchain-core is not installed")
pytest.importorskip("langgraph")

from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.checkpoint.memory import MemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import interrupt
from typing_extensions import TypedDict

pytestmark = [pytest.mark.frameworks, pytest.mark.filterwarnings("default")]

USAGE = {
    "input_tokens": 10,
    "output_tokens": 3,
    "total_tokens": 13,
    "input_token_details": {"cache_read": 4},
    "output_token_details": {"reasoning": 2},
}
PRICED = {"model_name": "gpt-4o-2024-08-06", "model_provider": "openai", "finish_reason": "stop"}


@tool(response_format="content_and_artifact")
def search(query: str) -> tuple[str, list[Document]]:
    """Search."""
    return f"found {query}", [Document(f"All of {query}")]


def think(state):
    """Play the model: search for the question, then answer."""
    last = state["messages"][-1]
    said = {"usage_metadata": USAGE, "response_metadata": PRICED}
    if isinstance(last, HumanMessage):
        call = {"name": "search", "args": {"query": last.content}, "id": f"call of {last.content}"}
        return {"messages": [AIMessage("", tool_calls=[call], **said)]}
    return {"messages": [AIMessage(f"I {last.content}", **said)]}


def graph(**settings):
    builder = StateGraph(MessagesState)
    builder.add_node("think", think)
    builder.add_node("tools", ToolNode([search]))
    builder.add_edge(START, "think")
    builder.add_conditional_edges("think", lambda state: "tools" if state["messages"][-1].tool_calls else END)
    builder.add_edge("tools", "think")
    return builder.compile(**settings)


@pytest.mark.parametrize("settings", [{}, {"checkpointer": MemorySaver()}])
@pytest.mark.parametrize("conversation", [False, True])
def test_a_graph_is_asked_and_its_state_is_read(ask, settings, conversation):
    response = ask(graph(**settings), conversation=conversation)

    assert response.text == "I found Where is order 7?"
    assert response.calls == [("search", {"query": "Where is order 7?"}, "found Where is order 7?")]
    assert response.tokens == {"input": 12, "output": 6, "cached": 8, "reasoning": 4}
    assert response.cost_usd == pytest.approx(12 * 2.5e-6 + 8 * 1.25e-6 + 6 * 10e-6)
    assert response.record["finish_reason"] == "stop"
    assert response.record["retrieved_context"] == ["All of Where is order 7?"]


def test_a_function_may_return_a_state_messages_or_one_message(ask):
    def state(prompt):
        return graph().invoke({"messages": [("user", prompt)]})

    async def messages(prompt):
        return (await graph().ainvoke({"messages": [("user", prompt)]}))["messages"]

    def reply(prompt):
        return FakeListChatModel(responses=["hello"]).invoke(prompt)

    assert len(ask(state).calls) == len(ask(messages).calls) == 1
    response = ask(reply)
    assert response.text == "hello"
    assert response.is_text_only, "tools may have been called before"


@pytest.mark.parametrize(
    "chain",
    [
        FakeListChatModel(responses=["hello"]),
        GenericFakeChatModel(messages=iter([AIMessage("hello")])),
        ChatPromptTemplate.from_template("Say {what}") | FakeListChatModel(responses=["hello"]) | StrOutputParser(),
        RunnableLambda(lambda text: {"answer": "hello", "context": [Document("greetings")]}),
    ],
)
def test_models_and_chains_are_asked(ask, chain):
    response = ask(chain)

    assert response.text == "hello"
    assert response.is_text_only
    assert response.record.get("retrieved_context") in (None, ["greetings"])


def test_chunks_and_states_may_be_yielded(ask):
    async def chunks(prompt):
        async for chunk in FakeListChatModel(responses=["hello there"]).astream(prompt):
            yield chunk

    async def states(prompt):
        async for state in graph().astream({"messages": [("user", prompt)]}, stream_mode="values"):
            yield state

    assert ask(chunks).text == "hello there"
    assert ask(states).text == "I found Where is order 7?"
    assert len(ask(states).calls) == 1


class Rag(TypedDict):
    question: str
    docs: Annotated[list, "documents"]
    generation: str


def test_a_graph_without_messages_gets_the_question_and_tells_its_answer(ask):
    builder = StateGraph(Rag)
    builder.add_node("all", lambda state: {"docs": [Document("tents")], "generation": f"About {state['question']}"})
    builder.add_edge(START, "all")

    response = ask(builder.compile())

    assert response.text == "About Where is order 7?"
    assert response.record["retrieved_context"] == ["tents"]


def test_what_cannot_be_asked_or_read_says_why(ask):
    chain = ChatPromptTemplate.from_template("{a} {b}") | FakeListChatModel(responses=["hello"])
    assert "takes 'a', 'b': expected 'messages', one key, or one of question" in ask(chain).error

    class Odd(TypedDict):
        topic: str

    builder = StateGraph(Odd)
    builder.add_node("all", lambda state: {"topic": "x"})
    builder.add_edge(START, "all")
    assert "the state of the graph has 'topic': expected 'messages' or one of" in ask(builder.compile()).error


def test_a_graph_that_waits_for_a_person_has_no_answer(ask):
    builder = StateGraph(MessagesState)
    builder.add_node("ask", lambda state: {"messages": [AIMessage(interrupt("may I?"))]})
    builder.add_edge(START, "ask")

    response = ask(builder.compile(checkpointer=MemorySaver()))

    assert "waits for a person: may I?" in response.error


def test_fifty_at_once_do_not_mix(ask_many):
    responses = ask_many(graph(checkpointer=MemorySaver()), [f"q{number}" for number in range(50)])

    for number, response in enumerate(responses):
        assert response.text == f"I found q{number}"
        assert [given for _, given, _ in response.calls] == [{"query": f"q{number}"}]


def test_a_graph_and_a_model_get_pictures_and_pdfs_as_parts(show):
    seen = []

    def look(state):
        seen.append(state["messages"])
        return {"messages": [AIMessage("A chart.")]}

    class Looking(GenericFakeChatModel):
        def _generate(self, messages, *args, **keywords):
            seen.append(messages)
            return super()._generate(messages, *args, **keywords)

    builder = StateGraph(MessagesState)
    builder.add_node("look", look)
    builder.add_edge(START, "look")
    builder.add_edge("look", END)

    for agent in (builder.compile(), Looking(messages=iter([AIMessage("A chart.")]))):
        assert show(agent).text == "A chart."
    for messages in seen:
        assert [part["type"] for part in messages[-1].content] == ["text", "image_url", "file"]
        assert len(messages) in (1, 3)
