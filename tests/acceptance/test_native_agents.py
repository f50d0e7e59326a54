"""Agents and results of other packages in whole runs; `tests/frameworks` has the real packages."""

import json

import pytest

from .conftest import WITH_WORKERS_ON_REQUEST

AGENTS = """
    import asyncio
    import os
    from types import SimpleNamespace

    class Message(SimpleNamespace):
        __module__ = "langchain_core.messages"

    class Graph:
        '''As a compiled graph: not to be called, but to be invoked.'''

        __module__ = "langgraph.graph.state"
        builder = SimpleNamespace(input_schema=SimpleNamespace(__annotations__={"messages": list}))

        async def ainvoke(self, state, config, **arguments):
            question = state["messages"][-1]["content"]
            self.last = question
            await asyncio.sleep(0.001)
            call = {"name": "look_up", "args": {"question": question}, "id": config["configurable"]["thread_id"]}
            usage = {"input_tokens": 10, "output_tokens": 5, "output_token_details": {"reasoning": 2}}
            document = SimpleNamespace(page_content=f"about {question}")
            secret = os.environ.get("DESK_API_KEY", "nothing")
            return {"messages": [
                Message(type="human", content=question),
                Message(type="ai", content="", tool_calls=[call], usage_metadata=usage),
                Message(type="tool", content=f"key {secret}", tool_call_id=call["id"], artifact=[document]),
                Message(type="ai", content=f"Answer to {question}", usage_metadata=usage),
            ]}

    graph = Graph()

    async def chunks(prompt):
        for word in ("Answer", " to ", prompt):
            yield word

    def conversation(messages):
        return f"Answer to {len(messages)} messages, the last: {messages[-1]['content']}"
"""

TARGETS = """
targets:
  - {name: default, provider: python, callable: "bot.py:graph"}
  - {name: chunks, provider: python, callable: "bot.py:chunks"}
  - {name: conversation, provider: python, callable: "bot.py:conversation", messages: true}
"""


def suite(count: int, extra: str = "") -> str:
    cases = [
        f"  - id: case-{number}\n    expected_outcome: answers\n    input: question {number}\n    evaluators:\n"
        f"      - {{name: said, type: heuristic, hits: ['Answer to question {number}']}}\n"
        f"      - name: calls\n        type: tool_trajectory\n        mode: exact\n"
        f"        expected: [{{tool: look_up, args: {{question: question {number}}}}}]\n"
        f"      - {{name: tokens, type: token_usage, max_total: 30}}\n"
        for number in range(count)
    ]
    return "evalcases:\n" + "".join(cases) + extra


@pytest.fixture
def desk(project_in_all_modes):
    project_in_all_modes.write("bot.py", AGENTS)
    project_in_all_modes.write("targets.yaml", TARGETS)
    return project_in_all_modes


@WITH_WORKERS_ON_REQUEST
def test_fifty_in_flight_do_not_mix(desk):
    desk.write("desk.eval.yaml", suite(50))

    run = desk.run("--agentv-workers=50")

    assert run.exit_code == 0, run.text
    assert len(run.by_id) == 50
    for name, result in run.by_id.items():
        number = name.removeprefix("case-")
        assert result["candidate_answer"] == f"Answer to question {number}"
        assert result["retrieved_context"] == [f"about question {number}"]
        assert result["execution_metrics"]["token_usage"] == {"input": 20, "output": 10, "reasoning": 4}
    assert any("(1,000 in, 500 out, 200 of them for reasoning)" in line for line in run.lines), run.text


OTHERS = """
evalcases:
  - id: streamed
    execution: {target: chunks}
    expected_outcome: answers
    input: hello
    evaluators: [{name: said, type: heuristic, hits: [Answer to hello]}]
  - id: listed
    execution: {target: conversation}
    expected_outcome: answers
    input_messages: [{role: user, content: a}, {role: assistant, content: b}, {role: user, content: c}]
    evaluators: [{name: said, type: heuristic, hits: ["Answer to 3 messages, the last: c"]}]
  - id: untold
    execution: {target: chunks}
    expected_outcome: calls nothing
    input: hello
    evaluators: [{name: none, type: tool_trajectory, mode: exact, expected: []}]
"""


@pytest.fixture
def one(project):
    project.write("bot.py", AGENTS)
    project.write("targets.yaml", TARGETS)
    return project


def test_generators_and_lists_of_messages(one):
    one.write("others.eval.yaml", OTHERS)

    run = one.run()

    assert run.statuses == {"streamed": "pass", "listed": "pass", "untold": "error"}, run.text
    assert "reported neither messages nor a trace" in run.by_id["untold"]["error"]


def test_secrets_in_results_of_packages_are_masked(one, monkeypatch):
    monkeypatch.setenv("DESK_API_KEY", "sk-desk-0123456789abcdef")
    one.write("desk.eval.yaml", suite(1))

    run = one.run("--agentv-include-trace", f"--agentv-dump-traces={one.path / 'traces'}", "--agentv-cache")

    assert run.exit_code == 0, run.text
    written = [path for path in one.path.rglob("*") if path.is_file() and path.suffix in (".json", ".jsonl")]
    assert len(written) >= 2
    texts = [path.read_text("utf-8") for path in written]
    assert not [path for path, text in zip(written, texts, strict=True) if "0123456789abcdef" in text]
    assert any("key ***" in text for text in texts)


def test_a_cached_answer_keeps_its_calls_tokens_and_context(one):
    one.write("desk.eval.yaml", suite(1))

    first, second = one.run("--agentv-cache"), one.run("--agentv-cache")

    assert second.by_id["case-0"]["cached"]
    for key in ("retrieved_context", "trace_summary", "status"):
        assert json.dumps(first.by_id["case-0"][key]) == json.dumps(second.by_id["case-0"][key])


def test_the_fixture_takes_an_agent(one):
    one.write(
        "conftest.py",
        """
        import pytest
        from bot import graph

        @pytest.fixture(scope="session")
        def agentv_provider():
            return graph
        """,
    )
    one.write("desk.eval.yaml", suite(2))

    run = one.run()

    assert set(run.statuses.values()) == {"pass"}, run.text


def test_an_agent_that_is_none_says_what_may_be_named(one):
    one.write("bot.py", "agent = object()\n")
    one.write("targets.yaml", "targets: [{name: default, provider: python, callable: 'bot.py:agent'}]\n")
    one.write("desk.eval.yaml", suite(1))

    error = one.run().by_id["case-0"]["error"]

    found = "'agent' of bot.py is a value of type object"
    assert f"{found}, expected a function, or an agent of a framework that is known" in error
