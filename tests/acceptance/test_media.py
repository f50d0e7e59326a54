"""Pictures and PDFs in whole runs: each kind of target gets them or says why not, and no file has their bytes."""

import base64
import json
import re

from fake_llm import FakeLlm, Reply
from pooled import TWO

from .conftest import WITH_WORKERS_ON_REQUEST

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(60))
PDF = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj" + b"x" * 60
PNG64, PDF64 = base64.b64encode(PNG).decode(), base64.b64encode(PDF).decode()

CASE = """
  - id: {id}
    execution: {{target: {target}}}
    expected_outcome: Compares them
    input_messages:
      - role: user
        content:
          - Do they say the same?
          - {{type: image, value: chart.png}}
          - {{type: file, value: report.pdf}}
    evaluators: [contains: hello]
"""
KINDS = ("openai", "azure", "anthropic", "gemini")
MODELS = """
  - {{name: {kind}, provider: {kind}, model: {model}, api_key: sk-key-0123456789, base_url: "{url}"}}
"""
OTHERS = """
  - {name: canned, provider: mock, response: hello}
  - {name: program, provider: cli, command_template: "printf 'hello %s' {PROMPT} && ls {FILES}"}
  - {name: text, provider: python, callable: "agent.py:text"}
  - {name: parts, provider: python, callable: "agent.py:parts", messages: true}
  - {name: app, provider: asgi, app: "agent.py:app", body: {q: "{{ messages }}"}, answer: $.answer}
  - {name: no-parts, provider: asgi, app: "agent.py:app"}
"""
AGENT = """
import json

def text(prompt):
    return "hello"

def parts(messages):
    return "hello " + " ".join(part["type"] for part in messages[0]["content"])

async def app(scope, receive, send):
    question = json.loads((await receive())["body"])["q"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": json.dumps({"answer": parts(question)}).encode()})
"""


def prepare(project, llm):
    names = {"openai": "gpt-4o", "azure": "gpt-4o", "anthropic": "claude-sonnet-4-5", "gemini": "gemini-2.5-flash"}
    urls = {kind: llm.script(f"{kind}-{id(project)}", Reply("hello")) for kind in KINDS}
    models = [MODELS.format(kind=kind, model=names[kind], url=urls[kind]) for kind in KINDS]
    others = re.findall(r"name: ([a-z-]+)", OTHERS)
    project.write("targets.yaml", "targets:" + "".join(models) + OTHERS)
    project.write("agent.py", AGENT)
    cases = [CASE.format(id=target, target=target) for target in (*KINDS, *others)]
    project.write("look.eval.yaml", "evalcases:" + "".join(cases))
    (project.path / "chart.png").write_bytes(PNG)
    (project.path / "report.pdf").write_bytes(PDF)


@WITH_WORKERS_ON_REQUEST
def test_each_kind_of_target_gets_them_or_says_why_not(project_in_all_modes):
    project = project_in_all_modes
    with FakeLlm() as llm:
        prepare(project, llm)
        flags = ("--agentv-cache", f"--agentv-dump-prompts={project.path / 'dumps'}", "--agentv-include-trace")
        flags += ("--agentv-workers=4", f"--agentv-html={project.path / 'report.html'}")
        run = project.run(*flags)
        asked = [request for request in llm.requests if request.is_question]
        again = project.run(*flags, mode=())
        assert len([request for request in llm.requests if request.is_question]) == len(asked) == len(KINDS)

    for request in asked:
        assert PNG64 in json.dumps(request.body)
        assert PDF64 in json.dumps(request.body)
    refused = {"text", "no-parts"}
    assert {name for name, status in run.statuses.items() if status == "error"} == refused, run.text
    assert {name for name, status in run.statuses.items() if status == "pass"} == run.statuses.keys() - refused
    assert run.by_id["parts"]["candidate_answer"] == "hello text image_url file"
    assert run.by_id["app"]["candidate_answer"] == "hello text image_url file"
    assert '<file: path="chart.png">' in run.by_id["program"]["candidate_answer"]
    assert "report.pdf" in run.by_id["program"]["candidate_answer"].splitlines()[-1]
    assert "chart.png, report.pdf (set `messages: true`" in run.by_id["text"]["error"]
    assert "write {{ messages }} or {{ files }} into it" in run.by_id["no-parts"]["error"]
    assert all(again.by_id[kind]["cached"] for kind in KINDS)
    shown = run.by_id["openai"]["lm_provider_request"]["question"]
    assert shown == 'Do they say the same?\n\n<file: path="chart.png">\n\n<file: path="report.pdf">'
    written = [path for path in project.path.rglob("*") if path.suffix in (".json", ".jsonl", ".html", ".xml")]
    assert {path.suffix for path in written} == {".json", ".jsonl", ".html"}
    assert not [path for path in written if PNG64[:30] in path.read_text() or PDF64[:30] in path.read_text()]


def test_cases_in_other_processes_read_them_there(project):
    with FakeLlm() as llm:
        prepare(project, llm)
        run = project.run(*TWO, "-k", "parts or gemini or text", subprocess=True)
        (asked,) = [request for request in llm.requests if request.is_question]

    assert PNG64 in json.dumps(asked.body)
    assert run.statuses == {"gemini": "pass", "parts": "pass", "text": "error", "no-parts": "error"}, run.text


def test_a_changed_picture_is_another_case(project):
    project.write("targets.yaml", "targets:" + OTHERS)
    project.write("look.eval.yaml", "evalcases:" + CASE.format(id="a", target="canned"))
    (project.path / "chart.png").write_bytes(PNG)
    (project.path / "report.pdf").write_bytes(PDF)
    first = project.run().by_id["a"]
    (project.path / "chart.png").write_bytes(PNG[:-1])

    second = project.run().by_id["a"]

    assert first["case_hash"] != second["case_hash"]


def test_a_picture_that_is_too_large_is_an_error(project):
    project.write("targets.yaml", "targets:" + OTHERS)
    project.write("look.eval.yaml", "evalcases:" + CASE.format(id="a", target="canned"))
    (project.path / "chart.png").write_bytes(PNG + b"\0" * (20 * 2**20 + 100_000))
    (project.path / "report.pdf").write_bytes(PDF)
    assert "chart.png has 20.1 MiB, and models are sent at most 20 MiB" in project.run().by_id["a"]["error"]
