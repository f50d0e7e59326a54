"""Agents and results of other packages in whole runs; `tests/frameworks` has the real packages."""

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


@pytest.fixture
def one(project):
    project.write("bot.py", AGENTS)
    project.write("targets.yaml", TARGETS)
    return project


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
