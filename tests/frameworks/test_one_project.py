"""A project of a user with an agent in each framework, a service and a server of models: no converter anywhere."""

import json
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_llm import FakeLlm, Reply, ToolCall
from thorough import varied

for package in ("pydantic_ai", "agents", "langgraph", "smolagents", "openai", "anthropic", "google.genai", "fastapi"):
    pytest.importorskip(package)
uvicorn = pytest.importorskip("uvicorn")

pytestmark = pytest.mark.frameworks

DOCS = Path(__file__, "../../../docs/targets.md").resolve().read_text("utf-8")

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
    "small.py": "from desk import make_agent" + DOCS.partition("from desk import make_agent")[2].partition("```")[0],
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

DESK = """
    import os
    from smolagents import OpenAIServerModel, ToolCallingAgent, tool

    @tool
    def lookup(order: int) -> str:
        '''Look an order up.

        Args:
            order: The number.
        '''
        return f"order {order} is sent"

    def make_agent():
        model = OpenAIServerModel("gpt-4o", api_base=os.environ["SMALL_URL"], api_key="key")
        return ToolCallingAgent(tools=[lookup], model=model, verbosity_level=0)
"""

SERVICE = """
    import asyncio
    import json
    import re
    from fastapi import FastAPI
    from pydantic import BaseModel

    app = FastAPI()

    class Question(BaseModel):
        prompt: str

    @app.post("/")
    async def answer(question: Question):
        order = int(re.search("[0-9]+", question.prompt)[0])
        await asyncio.sleep(0.01)
        call = {"id": "c", "function": {"name": "lookup", "arguments": json.dumps({"order": order})}}
        message = {"role": "assistant", "content": f"Order {order} is sent.", "tool_calls": [call]}
        usage = {"prompt_tokens": 60, "completion_tokens": 10}
        return {"model": "gpt-4o", "choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}
"""

TARGETS = """
targets:
{agents}
  - name: service
    provider: http
    url: ${{{{ SERVICE_URL }}}}
  - name: app
    provider: asgi
    app: service.py:app
  - name: local
    provider: openai
    base_url: ${{{{ LOCAL_URL }}}}
    model: gpt-4o
"""
AGENT = "  - name: {name}\n    provider: python\n    callable: {name}.py:agent"
NAMES = [name.removesuffix(".py") for name in AGENTS]

TOOLLESS = ("gemini", "local")
"""One reply without calls: it does not tell whether tools were called before."""

UNPRICED = "small"
"""A function that tells no cost."""

EACH = 5
ORDERS = {
    name: range(10 + EACH * at, 10 + EACH * (at + 1)) for at, name in enumerate([*NAMES, "service", "app", "local"])
}


def case(name: str, order: int) -> str:
    calls = (
        f"{{name: tools, type: tool_trajectory, mode: exact, expected: [{{tool: lookup, args: {{order: {order}}}}}]}}, "
    )
    cost = "" if name == UNPRICED else "{name: cost, type: cost, budget: 0.01}, "
    limits = "{name: tokens, type: token_usage, max_total: 100}, "
    return (
        f"  - id: {name}-{order}\n    execution: {{target: {name}}}\n    input: Where is order {order}?\n"
        f"    evaluators: [{calls if name not in TOOLLESS else ''}{limits}{cost}contains: '{order} is sent']\n"
    )


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    for name, source in {**AGENTS, "desk.py": DESK, "service.py": SERVICE}.items():
        (folder / name).write_text(textwrap.dedent(source).lstrip())
    agents = "\n".join(AGENT.format(name=name) for name in NAMES)
    (folder / "targets.yaml").write_text(TARGETS.format(agents=agents))
    cases = [case(name, order) for name, orders in ORDERS.items() for order in orders]
    (folder / "desk.eval.yaml").write_text("evalcases:\n" + "".join(cases))
    return folder


@pytest.fixture(scope="module")
def service(project: Path) -> Iterator[str]:
    """Serve the application on a port that is free."""
    settings = uvicorn.Config("service:app", port=0, ws="none", log_level="error", timeout_keep_alive=1)
    server = uvicorn.Server(settings)
    thread = threading.Thread(target=server.run, daemon=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(project)
        thread.start()
        while not server.started:
            assert thread.is_alive()
            threading.Event().wait(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    server.should_exit = True
    thread.join(10)


def script(fake_llm: FakeLlm) -> dict[str, str]:
    """Have the model look up the order that it is asked for, and then say where it is."""

    def said(order: int) -> dict[str, str]:
        return {"text": f"Order {order} is sent.", "when": f"order {order}?"}

    def lookup(order: int) -> tuple[ToolCall]:
        return (ToolCall("lookup", {"order": order}),)

    def final(order: int) -> tuple[ToolCall]:
        return (ToolCall("final_answer", {"answer": f"order {order} is sent"}),)

    calling = [Reply(**said(order), calls=lookup(order)) for name in ORDERS for order in ORDERS[name]]
    small = ORDERS["small"]
    return {
        "URL": fake_llm.script("calling", *calling),
        "LOCAL_URL": fake_llm.script("local", *[Reply(**said(order)) for order in ORDERS["local"]]),
        "CLAUDE_URL": fake_llm.script("claude", *calling),
        "GEMINI_URL": fake_llm.script("gemini", *[Reply(**said(order)) for order in ORDERS["gemini"]]),
        "SMALL_URL": fake_llm.script(
            "small",
            *[Reply(calls=final(order), when=f"order {order} is sent") for order in small],
            *[Reply(calls=lookup(order), when=f"order {order}?") for order in small],
        ),
    }


@pytest.mark.parametrize("mode", [pytest.param((), id="plain"), varied(("-n", "2"), id="n2")])
def test_three_lines_for_each_agent_and_fifty_in_flight(
    project: Path, service: str, fake_llm: FakeLlm, mode: tuple[str, ...], tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    options = [
        "-q",
        "-p",
        "no:cacheprovider",
        f"--agentv-out={out}",
        "--agentv-workers=50",
        "--agentv-timeout=900",
        *mode,
    ]
    environment = {**os.environ, **script(fake_llm), "SERVICE_URL": service}
    environment = {name: value for name, value in environment.items() if not name.endswith("_API_KEY")}

    command = [sys.executable, "-m", "pytest", *options]
    run = subprocess.run(command, check=False, cwd=project, env=environment, capture_output=True, text=True)

    assert run.returncode == 0, run.stdout + run.stderr
    results = {result["eval_id"]: result for result in map(json.loads, out.read_text().splitlines())}
    assert len(results) == 50
    for name, orders in ORDERS.items():
        calls = 0 if name in TOOLLESS else 1
        for order in orders:
            result = results[f"{name}-{order}"]
            metrics = result["execution_metrics"]
            called = result.get("trace_summary", {}).get("tool_calls_by_name", {})  # a text alone has no trace
            assert called == ({"lookup": 1} if calls else {}), name
            tokens = metrics["token_usage"]
            assert (tokens["input"], tokens["output"]) == (30 * (1 + calls), 5 * (1 + calls)), name
            assert name == UNPRICED or 0 < metrics["cost_usd"] < 0.01, name
            assert str(order) in result["candidate_answer"], name
