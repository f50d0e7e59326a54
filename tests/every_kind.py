"""A project with every kind of target and of evaluator, for runs whose records are compared."""

import json
import re
from contextlib import contextmanager
from pathlib import Path

import pytest
from code_stand_in import CodeStandIn
from fake_llm import FakeLlm, Reply

from pytest_agentv.evaluators.table import EVALUATORS

TESTS = Path(__file__).parent
AT_HOME, ON_WORKERS = "sk-at-home-0123456789abcdef", "sk-on-workers-0123456789abcdef"

TARGETS = """
targets:
  - {name: default, provider: mock, response: hello world}
  - {name: shell, provider: cli, command_template: "sh ../tools/hello.sh $SHOP_API_KEY", judge_target: judge}
  - {name: code, provider: python, callable: agent.py:answer}
  - {name: module, provider: python, callable: shop.agents:answer}
  - {name: service, provider: asgi, app: service.py:app, body: {question: "{{ prompt }}"}, answer: $.said}
  - name: web
    provider: http
    url: ${{ MODEL_URL }}/v1/chat/completions
    headers: {Authorization: "Bearer ${{ SHOP_API_KEY }}"}
    body: {model: m, messages: [{role: user, content: "{{ prompt }}"}]}
    answer: $.choices[0].message.content
  - {name: model, provider: openai, base_url: "${{ MODEL_URL }}", api_key: "${{ SHOP_API_KEY }}", model: m}
  - name: azure
    provider: azure
    endpoint: ${{ MODEL_URL }}
    api_key: ${{ SHOP_API_KEY }}
    deployment: d
    base_model: gpt-4o
  - {name: anthropic, provider: anthropic, base_url: "${{ MODEL_URL }}", api_key: "${{ SHOP_API_KEY }}", model: m}
  - {name: gemini, provider: gemini, base_url: "${{ MODEL_URL }}", api_key: "${{ SHOP_API_KEY }}", model: m}
  - {name: editor, provider: vscode}
  - {name: insiders, provider: vscode-insiders}
  - {name: judge, provider: openai, base_url: "${{ JUDGE_URL }}", api_key: "${{ SHOP_API_KEY }}", model: m}
  - {name: embeddings, provider: openai, base_url: "${{ MODEL_URL }}", api_key: "${{ SHOP_API_KEY }}", model: e}
  - {name: claude, provider: claude-code, executable: agents/claude}
  - {name: codex, provider: codex, executable: agents/codex}
  - {name: pi, provider: pi-coding-agent, executable: agents/pi}
  - {name: broken, provider: cli, command_template: "echo no such thing >&2; exit 3"}
  - {name: raising, provider: python, callable: agent.py:fail}
  - {name: refused, provider: cli, command_template: "echo $SHOP_API_KEY is wrong >&2; exit 3"}
  - {name: unset, provider: openai, api_key: "${{ NOWHERE }}", model: m}
  - {name: absent, provider: cli, command_template: "cat ../notes/absent.txt; pwd"}
"""

FILES = {
    "evals/agent.py": """
        import logging
        import os

        from helpers.polite import greeting

        def answer(prompt):
            logging.getLogger("agent").warning("my key is %s", os.environ["SHOP_API_KEY"])
            return f"{greeting()} from python: {open('notes/note.txt').read()}"

        def fail(prompt):
            raise RuntimeError(f"no luck with {os.environ['SHOP_API_KEY']}")
        """,
    "evals/helpers/__init__.py": "",
    "evals/helpers/polite.py": "def greeting():\n    return 'hello'\n",
    "evals/service.py": """
        import json

        async def app(scope, receive, send):
            question = json.loads((await receive())["body"])["question"]
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": json.dumps({"said": f"hello {question}"}).encode()})
        """,
    "evals/checks.py": "def is_short(answer):\n    return len(answer) < 500\n",
    "src/shop/__init__.py": "",
    "src/shop/agents.py": "from shop.words import HELLO\n\ndef answer(prompt):\n    return f'{HELLO} from a package'\n",
    "src/shop/words.py": "HELLO = 'hello'\n",
    "src/shop/unused.py": "",
    "pytest.ini": "[pytest]\npythonpath = src\n",
    "notes/note.txt": "Say hello to the note.\n",
    "notes/style.instructions.md": "Be polite.\n",
    "tools/hello.sh": "echo hello $1; echo $0 >&2\n",
    "judges/judge.py": """
        import json, sys
        from rules import SCORE
        case = json.load(sys.stdin)
        table = open("table.txt").read()
        print(json.dumps({"score": SCORE, "hits": [table.strip(), *case["input_files"]]}))
        """,
    "judges/rules.py": "SCORE = 0.5\n",
    "judges/asking.py": "from pytest_agentv.sdk import Result, code_judge, create_target_client\n\n@code_judge\n"
    "def judge(case):\n"
    "    return Result(score=1, hits=[create_target_client().invoke('Is it?', target='default').raw_text])\n",
    "judges/crash.py": "import os, sys\nsys.exit('I fail with ' + os.environ['SHOP_API_KEY'])\n",
    "judges/table.txt": "what lies beside it\n",
    "prompts/judge.md": "Was it polite? {{ candidate_answer }}\n",
    "schemas/offer.json": '{"type": "object", "required": ["price"]}',
}

PICTURE = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\6\0\0\0\x1f\x15\xc4\x89"


def content(*files):
    return [
        {"role": "user", "content": [{"type": "text", "value": "read"}, *({"type": "file", "value": f} for f in files)]}
    ]


@contextmanager
def every_kind(project, home):
    """Write the project, and yield the server that plays its models; VS Code is played as well while this lasts."""
    verdict = json.dumps({"score": 0.75, "hits": ["kind"], "misses": [], "reasoning": "because"})
    editors = [CodeStandIn(home / name, name) for name in ("code", "code-insiders")]
    with FakeLlm() as model, pytest.MonkeyPatch.context() as patch:
        for editor in editors:
            patch.setenv("PATH", editor.path)
        patch.setenv("HOME", str(home))
        model.script("judge", Reply(verdict))
        model.script("model", Reply("hello from the model"))
        write_project(project, model.url)
        yield model


def write_project(project, url):
    (project.path / ".git").mkdir()
    for name, text in FILES.items():
        project.write(name, text)
    project.write("evals/targets.yaml", TARGETS)
    for name in ("claude", "codex", "pi"):
        path = project.write(f"agents/{name}", f'#!/bin/sh\ncat > /dev/null\ncat "$(dirname $0)/{name}.jsonl"\n')
        path.chmod(0o755)
        project.write(f"agents/{name}.jsonl", (TESTS / f"golden/agents/{name}-tools.jsonl").read_text())
    project.write(".env", f"SHOP_API_KEY={AT_HOME}\nMODEL_URL={url}/model\nJUDGE_URL={url}/judge\n")
    (project.path / "notes/chart.png").write_bytes(PICTURE)
    words = {"name": "words", "type": "heuristic", "hits": ["hello"], "misses": ["bye"]}
    code = {"name": "code", "type": "code_judge", "script": ["python3", "judge.py"], "cwd": "judges"}
    asking = {**code, "name": "asking", "script": ["python3", "asking.py"], "target": True}
    judge = {"name": "judge", "type": "llm_judge", "prompt": "../prompts/judge.md"}
    both = {
        "name": "both",
        "type": "composite",
        "evaluators": [words, code],
        "aggregator": {"type": "weighted_average"},
    }
    check = {"name": "check", "type": "python", "value": "checks.py:is_short"}
    json_check = {"name": "json", "type": "is-json", "value": "../schemas/offer.json"}
    script = {**code, "name": "script", "type": "code"}
    crash = {**code, "name": "crash", "script": ["python3", "crash.py"]}
    cost = {"name": "cost", "type": "cost", "budget": 1}
    latency = {"name": "latency", "type": "latency", "threshold": 600_000}
    tokens = {"name": "tokens", "type": "token_usage", "max_total": 100000}
    similar = {"name": "similar", "type": "similar", "value": "hello", "target": "embeddings"}
    calls = {"name": "calls", "type": "tool_trajectory", "mode": "any_order", "minimums": {"search": 1}}
    files = content("notes/note.txt", "notes/style.instructions.md")
    cases = {
        "mock": ("default", [words, json_check, calls], "hi"),
        "shell": ("shell", [words, code, judge], files),
        "python": ("code", [both, check], files),
        "package": ("module", [words], "hi"),
        "asgi": ("service", [words], "hi"),
        "scripts": ("default", [code, asking], "hi"),
        "http": ("web", [words], "hi"),
        "model": ("model", [words, tokens], files),
        "azure": ("azure", [words, cost, latency], files),
        "anthropic": ("anthropic", [words, latency], content("notes/chart.png")),
        "gemini": ("gemini", [words], files),
        "editor": ("editor", [words, script], files),
        "insiders": ("insiders", [words], "hi"),
        "picture": ("model", [words], content("notes/chart.png")),
        "similar": ("default", [similar], "hi"),
        "claude": ("claude", [words, code], files),
        "codex": ("codex", [words, calls], files),
        "pi": ("pi", [words], files),
        "broken": ("broken", [words], "hi"),
        "raising": ("raising", [words], "hi"),
        "refused": ("refused", [words], "hi"),
        "misjudged": ("default", [crash], "hi"),
        "unset": ("unset", [words], "hi"),
        "unknown": ("nowhere", [words], "hi"),
        "absent": ("absent", [words], "hi"),
    }
    entries = [
        {"id": name, "expected_outcome": "hello", "input": said, "execution": {"target": target, "evaluators": checks}}
        for name, (target, checks, said) in cases.items()
    ]
    repeated = {"id": "repeated", "expected_outcome": "hello", "input": "x", "evaluators": [words], "repeat": 3}
    project.write("evals/a.eval.yaml", json.dumps({"evalcases": [*entries, repeated]}))
    write_examples(project)


MORE_EXAMPLES = {
    "rubric-0": {
        "answer": "Good morning.",
        "assert": [{"type": "rubric", "rubrics": [{"id": "statement-1", "description": "It is polite"}]}],
    },
    "field_accuracy-0": {
        "answer": '{"total": 10.4}',
        "assert": [
            {"type": "field_accuracy", "fields": [{"path": "total", "match": "numeric_tolerance", "tolerance": 1}]}
        ],
        "expected_messages": [{"role": "assistant", "content": {"total": 10}}],
    },
}
"""Of kinds whose classes show none."""


def write_examples(project):
    """Write examples of the evaluators, each with a target that gives its answer."""
    found = {
        f"{word}-{number}": example
        for word, kind in EVALUATORS.items()
        for number, example in enumerate(kind.examples if word == kind.kind else ())
    }
    targets, cases = [], []
    for name, example in (found | MORE_EXAMPLES).items():
        keys = {key: value for key, value in example.items() if key != "answer"}
        targets.append({"name": name, "provider": "mock", "response": example["answer"], "judge_target": "judge"})
        cases.append({"id": name, "expected_outcome": "x", "input": "q", "target": name, **keys})
    checks = [{"id": f"statement-{number}", "satisfied": True, "reasoning": ""} for number in (1, 2)]
    reply = json.dumps({"checks": checks, "overall_reasoning": ""})
    judge = {"name": "judge", "provider": "mock", "response": reply}
    model = {"provider": "openai", "base_url": "${{ MODEL_URL }}", "api_key": "${{ SHOP_API_KEY }}", "model": "e"}
    targets += [judge, {"name": "embeddings", **model}]
    project.write("examples/targets.yaml", json.dumps({"targets": targets}))
    project.write("examples/checks.py", "def is_polite(answer):\n    return True\n")
    project.write("examples/kinds.eval.yaml", json.dumps({"evalcases": cases}))


TIMES = {"timestamp", "run_id", "duration_ms", "tool_durations", "durationMs", "waited_ms"}


def without_times(results):
    """Return results by id, without what differs between any two runs."""
    text = json.dumps({result["eval_id"]: result for result in results}, sort_keys=True)
    text = re.sub("quoted-[0-9a-f]{16}", "quoted", text)
    text = re.sub(r"(Duration|Execution took) [\d.]+ms", r"\1", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{3}Z_(.+?)_[0-9a-f]{8}\.log", r"\1.log", text)
    return _timeless(json.loads(text))


def _timeless(value):
    if isinstance(value, dict):
        return {key: _timeless(item) for key, item in value.items() if key not in TIMES}
    return [_timeless(item) for item in value] if isinstance(value, list) else value


def kinds_in(value):
    """Yield the words of evaluators in plain data: those of keys, and those after `type`."""
    if isinstance(value, dict):
        yield from (word for word in (value.get("type"), *value) if word in EVALUATORS)
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from kinds_in(item)


EVAL_FILES = ("evals/a.eval.yaml", "examples/kinds.eval.yaml")
ARGS = ("evals", "examples", "--agentv-include-trace", "--agentv-dump-prompts=dumped")
