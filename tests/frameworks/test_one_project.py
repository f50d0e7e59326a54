"""A project of a user with an agent in each framework: three lines per target, no converter."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from fake_llm import FakeLlm, Reply, ToolCall

for package in ("pydantic_ai", "agents", "langgraph", "smolagents", "openai", "anthropic", "google.genai"):
    pytest.importorskip(package)

pytestmark = pytest.mark.frameworks

AGENTS = {
    "typed.py": """
        from pydantic_ai import Agent
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider
        import os
        provider = OpenAIProvider(base_url=os.environ["URL"], api_key="key")
        agent = Agent(OpenAIChatModel("gpt-4o", provider=provider))

        @agent.tool_plain
        def lookup(order: int) -> str:
            return f"order {order} is sent"
    """,
    "openai_agents.py": """
        import os
        from agents import Agent, OpenAIResponsesModel, function_tool, set_tracing_disabled
        from openai import AsyncOpenAI
        set_tracing_disabled(True)

        @function_tool
        def lookup(order: int) -> str:
            return f"order {order} is sent"

        model = OpenAIResponsesModel("gpt-4o", AsyncOpenAI(base_url=os.environ["URL"], api_key="key"))
        agent = Agent(name="desk", model=model, tools=[lookup])
    """,
    "graph.py": """
        import re
        from langchain_core.messages import AIMessage
        from langchain_core.tools import tool
        from langgraph.graph import END, START, MessagesState, StateGraph
        from langgraph.prebuilt import ToolNode

        @tool
        def lookup(order: int) -> str:
            "Look an order up."
            return f"order {order} is sent"

        def think(state):
            last = state["messages"][-1]
            said = {"usage_metadata": {"input_tokens": 30, "output_tokens": 5, "total_tokens": 35},
                    "response_metadata": {"model_name": "gpt-4o", "model_provider": "openai"}}
            if last.type == "tool":
                return {"messages": [AIMessage(last.content, **said)]}
            order = int(re.search("[0-9]+", last.content)[0])
            call = {"name": "lookup", "args": {"order": order}, "id": "call"}
            return {"messages": [AIMessage("", tool_calls=[call], **said)]}

        builder = StateGraph(MessagesState)
        builder.add_node("think", think)
        builder.add_node("tools", ToolNode([lookup]))
        builder.add_edge(START, "think")
        builder.add_conditional_edges("think", lambda state: "tools" if state["messages"][-1].tool_calls else END)
        builder.add_edge("tools", "think")
        agent = builder.compile()
    """,
    "small.py": """
        import os
        from smolagents import OpenAIServerModel, ToolCallingAgent, tool

        @tool
        def lookup(order: int) -> str:
            '''Look an order up.

            Args:
                order: The number.
            '''
            return f"order {order} is sent"

        model = OpenAIServerModel("gpt-4o", api_base=os.environ["SMALL_URL"], api_key="key")
        agent = ToolCallingAgent(tools=[lookup], model=model, verbosity_level=0)
    """,
    "chat.py": """
        import os
        from openai import OpenAI
        client = OpenAI(base_url=os.environ["URL"], api_key="key")
        TOOL = {"type": "function", "function": {"name": "lookup", "parameters": {"type": "object", "properties": {}}}}

        def agent(prompt):
            messages, replies = [{"role": "user", "content": prompt}], []
            while True:
                replies.append(client.chat.completions.create(model="gpt-4o", messages=messages, tools=[TOOL]))
                message = replies[-1].choices[0].message
                if not message.tool_calls:
                    return replies
                calls = message.tool_calls
                messages += [message, *({"role": "tool", "tool_call_id": call.id, "content": "sent"} for call in calls)]
    """,
    "claude.py": """
        import os
        from anthropic import Anthropic
        client = Anthropic(base_url=os.environ["CLAUDE_URL"], api_key="key")
        TOOL = {"name": "lookup", "input_schema": {"type": "object", "properties": {}}}

        def agent(prompt):
            messages, replies = [{"role": "user", "content": prompt}], []
            while True:
                replies.append(client.messages.create(
                    model="claude-sonnet-4-6", max_tokens=99, messages=messages, tools=[TOOL]))
                calls = [block for block in replies[-1].content if block.type == "tool_use"]
                if not calls:
                    return replies
                results = [{"type": "tool_result", "tool_use_id": call.id, "content": "sent"} for call in calls]
                messages.append({"role": "assistant", "content": replies[-1].content})
                messages.append({"role": "user", "content": results})
    """,
    "gemini.py": """
        import os
        from google import genai
        from google.genai import types
        options = types.HttpOptions(base_url=os.environ["GEMINI_URL"])
        client = genai.Client(api_key="key", http_options=options)

        def agent(prompt):
            return client.models.generate_content(model="gemini-2.5-flash", contents=prompt)
    """,
}

TARGETS = "targets:\n" + "".join(
    f"  - name: {name.removesuffix('.py')}\n    provider: python\n    callable: {name}:agent\n" for name in AGENTS
)

CALLS = "{name: tools, type: tool_trajectory, mode: exact, expected: [{tool: lookup, args: {order: 7}}]}"
LIMITS = "{name: tokens, type: token_usage, max_total: 100}, {name: cost, type: cost, budget: 0.01}"
TOOLLESS = "gemini"
"""One reply: it does not tell whether tools were called before."""


def case(name: str) -> str:
    calls = "" if name == TOOLLESS else f"{CALLS}, "
    return (
        f"  - id: {name}\n    execution: {{target: {name}}}\n    input: Where is order 7?\n"
        f"    expected_outcome: It is sent\n"
        f"    evaluators: [{calls}{LIMITS}, {{name: said, type: heuristic, hits: [sent]}}]\n"
    )


def test_each_framework_needs_three_lines(tmp_path: Path, fake_llm: FakeLlm) -> None:
    for name, source in AGENTS.items():
        (tmp_path / name).write_text(textwrap.dedent(source).lstrip())
    (tmp_path / "targets.yaml").write_text(TARGETS)
    (tmp_path / "desk.eval.yaml").write_text(
        "evalcases:\n" + "".join(case(name.removesuffix(".py")) for name in AGENTS)
    )
    lookup, final = ToolCall("lookup", {"order": 7}), ToolCall("final_answer", {"answer": "order 7 is sent"})
    urls = {
        "URL": fake_llm.script("calling", Reply("It is sent.", calls=(lookup,))),
        "CLAUDE_URL": fake_llm.script("claude", Reply("It is sent.", calls=(lookup,))),
        "GEMINI_URL": fake_llm.script("gemini", Reply("It is sent.")),
        "SMALL_URL": fake_llm.script("small", Reply(calls=(final,), when="order 7 is sent"), Reply(calls=(lookup,))),
    }
    out = tmp_path / "out.jsonl"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        f"--agentv-out={out}",
        "--agentv-workers=7",
    ]

    run = subprocess.run(command, check=False, cwd=tmp_path, env={**os.environ, **urls}, capture_output=True, text=True)

    assert run.returncode == 0, run.stdout + run.stderr
    results = {result["eval_id"]: result for result in map(json.loads, out.read_text().splitlines())}
    assert set(results) == {name.removesuffix(".py") for name in AGENTS}
    for name, result in results.items():
        calls = 0 if name == TOOLLESS else 1
        metrics = result["execution_metrics"]
        assert result["trace_summary"]["tool_calls_by_name"] == ({"lookup": 1} if calls else {}), name
        assert (metrics["token_usage"]["input"], metrics["token_usage"]["output"]) == (
            30 * (1 + calls),
            5 * (1 + calls),
        )
        assert 0 < metrics["cost_usd"] < 0.01, name
