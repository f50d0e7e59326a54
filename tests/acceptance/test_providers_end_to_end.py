"""Targets that are commands, Python functions and mocks: how they are asked and how their answers are read."""

import json

import pytest
from fake_llm import FakeLlm


@pytest.fixture
def answers(project, suite):
    """Return what runs one case on a target (its YAML keys) and returns the result."""

    def run(target, *flags):
        project.write("targets.yaml", f"targets:\n  - name: default\n    {target.strip()}\n")
        project.write("a.eval.yaml", suite(a="hello"))
        (result,) = project.run(*flags).results
        return result

    return run


RICH = {
    "text": "not this",
    "output_messages": [
        {"role": "assistant", "tool_calls": [{"tool": "read", "input": {"filePath": "x"}}]},
        {"role": "assistant", "content": "hello"},
    ],
    "token_usage": {"input": 3, "output": 2},
    "cost_usd": 0.5,
    "duration_ms": 7,
}


@pytest.mark.scenario("Render and execute template")
def test_a_command_gets_its_placeholders_and_prints_its_answer(project):
    project.write(
        "targets.yaml",
        """
        targets:
          - name: default
            provider: cli
            cwd: work
            env: {TONE: calm}
            files_format: "--file={basename}"
            command_template: >-
              printf '%s\\n' {PROMPT} {GUIDELINES} {EVAL_ID} {ATTEMPT} {FILES} "$TONE" "$(basename "$PWD")";
              echo noise >&2
        """,
    )
    project.write("it's.txt", "x")
    project.write("rules.prompt.md", "Be brief.")
    (project.path / "work").mkdir()
    prompt = 'What\'s "$HOME" `x` \\n?\n  Two lines.'
    content = [
        {"type": "text", "value": prompt},
        {"type": "file", "value": "it's.txt"},
        {"type": "file", "value": "rules.prompt.md"},
    ]
    case = {
        "id": "it's $a",
        "expected_outcome": "o",
        "input_messages": [{"role": "user", "content": content}],
        "evaluators": [{"name": "fast", "type": "latency", "threshold": 60000}],
    }
    project.write("a.eval.jsonl", json.dumps(case))
    (result,) = project.run().results
    assert result["status"] == "pass", result
    assert result["candidate_answer"] == (
        f'{prompt}\n\n<file: path="it\'s.txt">\n<file path="rules.prompt.md">\nBe brief.\n</file>\nit\'s $a\n0\n'
        "--file=rules.prompt.md\n--file=it's.txt\ncalm\nwork"
    )


@pytest.mark.scenario("Render and execute template")
@pytest.mark.parametrize("channel", ["> {OUTPUT_FILE}; echo noise", ""])
def test_the_answer_of_a_command_is_read_from_its_output_file_where_the_template_has_one_else_from_what_it_prints(
    answers, project, channel
):
    project.write("answer.json", json.dumps(RICH))
    result = answers(f"provider: cli\n    command_template: cat answer.json {channel}")
    assert result["candidate_answer"] == "hello"
    assert result["trace_summary"] == {
        "event_count": 1,
        "tool_names": ["read"],
        "tool_calls_by_name": {"read": 1},
        "error_count": 0,
        "token_usage": {"input": 3, "output": 2},
        "cost_usd": 0.5,
        "duration_ms": 7,
    }
    assert result["execution_metrics"]["tokens_per_tool"] == 2


@pytest.mark.scenario("Metrics schema validation")
@pytest.mark.parametrize("cost", [-1, "1", [1]])
def test_metrics_that_make_no_sense_are_left_out_and_the_case_is_judged(answers, project, cost):
    project.write("answer.json", json.dumps({"text": "hello", "cost_usd": cost, "duration_ms": 5}))
    result = answers("provider: cli\n    command_template: cat answer.json")
    assert (result["status"], result["candidate_answer"]) == ("pass", "hello")
    assert result["execution_metrics"] == {"duration_ms": 5}


ASKED = {"temperature": 0.25, "max_tokens": 50}
MODELS = {
    "azure": (
        {"AZURE_OPENAI_ENDPOINT": "URL", "AZURE_OPENAI_API_KEY": "sk-of-the-house", "AZURE_DEPLOYMENT_NAME": "gpt-4o"},
        "",
        ("/openai/deployments/gpt-4o/chat/completions", "api-key"),
        {"model": "gpt-4o", "temperature": 0.25, "max_completion_tokens": 50},
    ),
    "anthropic": (
        {"ANTHROPIC_BASE_URL": "URL", "ANTHROPIC_API_KEY": "sk-of-the-house"},
        "model: claude-of-the-house",
        ("/v1/messages", "x-api-key"),
        {"model": "claude-of-the-house", **ASKED},
    ),
    "gemini": (
        {"GEMINI_API_BASE": "URL", "GOOGLE_API_KEY": "sk-of-the-house", "GOOGLE_GEMINI_MODEL": "gemini-of-the-house"},
        "",
        ("/v1beta/models/gemini-of-the-house:generateContent", "x-goog-api-key"),
        {"generationConfig": {"temperature": 0.25, "max_output_tokens": 50}},
    ),
}


@pytest.mark.scenario("Azure OpenAI provider")
@pytest.mark.scenario("Anthropic provider")
@pytest.mark.scenario("Google Gemini provider")
@pytest.mark.parametrize("kind", MODELS)
def test_a_model_is_asked_as_the_environment_and_the_target_say(answers, monkeypatch, kind):
    variables, model, (path, key), settings = MODELS[kind]
    with FakeLlm() as server:
        for name, value in variables.items():
            monkeypatch.setenv(name, value.replace("URL", server.script(kind)))
        result = answers(f"provider: {kind}\n    temperature: 0.25\n    max_output_tokens: 50\n    {model}")
        (request,) = server.asked(kind)
    assert (result["status"], result["candidate_answer"]) == ("pass", "hello")
    assert (request.path, request.headers[key]) == (path, "sk-of-the-house")
    assert settings.items() <= request.body.items()


@pytest.mark.scenario("Render and execute template")
def test_a_command_that_fails_is_an_error_with_what_it_said_and_its_exit_code(answers):
    result = answers("provider: cli\n    command_template: echo out of tokens >&2; exit 3")
    assert result["error"] == "out of tokens (exit code 3)"
    assert result["error_detail"] == {"stage": "provider", "kind": "process"}
    assert result["lm_provider_request"]["error"] == result["error"]


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        ("def answer(prompt):\n    return f'hello, {prompt}'", "hello, Say hello"),
        ("async def answer(prompt):\n    return {'text': 'hello'}", "hello"),
        (
            "def answer(prompt, tone, request):\n    return f'hello {tone} {request.eval_id} {request.attempt}'",
            "hello calm a 0",
        ),
        ("class Agent:\n    def __call__(self, prompt):\n        return 'hello'\nanswer = Agent()", "hello"),
        ("import helper\ndef answer(prompt):\n    return helper.GREETING", "hello from beside"),
    ],
)
def test_a_python_function_is_called_sync_or_async_with_the_prompt_and_what_it_asks_for(answers, project, body, answer):
    project.write("lib/agent.py", body + "\n")
    project.write("lib/helper.py", "GREETING = 'hello from beside'\n")
    arguments = "\n    arguments: {tone: calm}" if "tone" in body else ""
    result = answers(f"provider: python\n    callable: lib/agent.py:answer{arguments}")
    assert result["candidate_answer"] == answer
    assert result["status"] == "pass"


def test_a_python_function_can_be_named_by_its_module(answers, project):
    project.write("shop/__init__.py", "")
    project.write("shop/agent.py", "def answer(prompt):\n    return 'hello'\n")
    assert answers("provider: python\n    callable: shop.agent:answer")["candidate_answer"] == "hello"


@pytest.mark.scenario("Lazy .env loading")
def test_a_python_function_finds_the_variables_of_the_env_file_in_its_environment(answers, project, monkeypatch):
    monkeypatch.setenv("GREETING_OF_THE_ENV_FILE", "")  # so that it is removed in the end
    monkeypatch.delenv("GREETING_OF_THE_ENV_FILE")
    project.write(".env", "GREETING_OF_THE_ENV_FILE=hello\n")
    project.write("agent.py", "import os\ndef answer(prompt):\n    return os.environ['GREETING_OF_THE_ENV_FILE']\n")
    assert answers("provider: python\n    callable: agent.py:answer")["status"] == "pass"


@pytest.mark.scenario("Mock provider for dry-run")
@pytest.mark.parametrize(
    ("delay", "least"), [("delay_ms: 200", 200), ("delay_min_ms: 150\n    delayMaxMs: 200", 150), ("delay_ms: 0", 0)]
)
def test_a_mock_answers_what_is_written_after_the_delay_that_is_written(answers, delay, least):
    result = answers(f"provider: mock\n    response: hello\n    {delay}")
    assert result["candidate_answer"] == "hello"
    assert least - 1 <= result["execution_metrics"]["duration_ms"] < least + 500


PROBED = """
targets:
  - name: default
    provider: cli
    command_template: echo hello; echo {EVAL_ID} >> calls
    healthcheck: {type: command, command_template: echo probe >> calls}
"""


@pytest.mark.scenario("Optional health check")
def test_a_health_check_runs_once_before_the_first_case_of_its_target(project, suite):
    project.write("targets.yaml", PROBED)
    project.write("a.eval.yaml", suite(a="hello", b="hello"))
    project.write("deep/er/b.eval.yaml", suite(c="hello"))
    assert project.run().outcomes == {"passed": 3}
    assert (project.path / "calls").read_text().split() == ["probe", "a", "b"]
    assert (project.path / "deep/er/calls").read_text().split() == ["c"]


@pytest.mark.scenario("Optional health check")
def test_a_health_check_that_fails_ends_the_run_with_its_reason_and_nothing_is_called(project, suite):
    project.write("targets.yaml", PROBED.replace("echo probe >> calls", "echo no licence >&2; exit 1"))
    project.write("a.eval.yaml", suite(a="hello", b="hello"))
    run = project.run()
    assert run.exit_code != 0
    assert not (project.path / "calls").exists()
    assert "no licence" in run.by_id["a"]["error"]
    assert run.statuses == {"a": "error"}
    assert any("agentv: " in text and "no licence" in text for text in run.lines)
