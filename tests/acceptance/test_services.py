"""Services in whole runs: over HTTP, and as an application in the process."""

from fake_llm import FakeLlm, Reply

from .conftest import WITH_WORKERS_ON_REQUEST

SERVICE = """
    import asyncio
    import json

    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            await lifespan(receive, send)
            return
        question = json.loads((await receive())["body"])["question"]
        await asyncio.sleep(0.001)
        headers = dict(scope["headers"])
        reply = {
            "said": {"answer": f"Answer to {question}", "key": headers.get(b"x-pass", b"").decode()},
            "usage": {"input_tokens": 10, "output_tokens": 5},
            "steps": [{"name": "look_up", "arguments": {"question": question}}],
            "sources": [{"text": f"about {question}"}],
        }
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": json.dumps(reply).encode()})

    async def lifespan(receive, send):
        while True:
            word = (await receive())["type"]
            with open("lifespans.txt", "a") as file:
                file.write(word + "\\n")
            await send({"type": word + ".complete"})
            if word.endswith("shutdown"):
                return
"""

TARGETS = """
targets:
  - name: default
    provider: asgi
    app: service.py:app
    headers: {X-Pass: "${{ SHOP_TOKEN }}"}
    body: {question: "{{ prompt }}"}
    answer: ANSWER
    tokens: $.usage
    tool_calls: $.steps
    context: $.sources[*]
"""


def suite(count: int) -> str:
    cases = [
        f"  - id: case-{number}\n    expected_outcome: answers\n    input: question {number}\n    evaluators:\n"
        f"      - {{name: said, type: heuristic, hits: ['Answer to question {number}']}}\n"
        f"      - name: calls\n        type: tool_trajectory\n        mode: exact\n"
        f"        expected: [{{tool: look_up, args: {{question: question {number}}}}}]\n"
        f"      - {{name: tokens, type: token_usage, max_total: 15}}\n"
        for number in range(count)
    ]
    return "evalcases:\n" + "".join(cases)


def prepare(project, count: int, answer: str = "$.said.answer"):
    project.write("service.py", SERVICE)
    project.write("targets.yaml", TARGETS.replace("ANSWER", answer))
    project.write(".env", "SHOP_TOKEN=sk-shop-0123456789abcdef\n")
    project.write("shop.eval.yaml", suite(count))
    return project


@WITH_WORKERS_ON_REQUEST
def test_fifty_in_flight_do_not_mix(project_in_all_modes):
    project = prepare(project_in_all_modes, 50)

    run = project.run("--agentv-workers=50")

    assert run.exit_code == 0, run.text
    assert len(run.by_id) == 50
    for name, result in run.by_id.items():
        number = name.removeprefix("case-")
        assert result["candidate_answer"] == f"Answer to question {number}"
        assert result["retrieved_context"] == [f"about question {number}"]
        assert result["execution_metrics"]["token_usage"] == {"input": 10, "output": 5}
    words = (project.path / "lifespans.txt").read_text().split()
    assert words.count("lifespan.startup") == words.count("lifespan.shutdown") > 0


def test_secrets_of_a_service_are_masked(project):
    prepare(project, 1, "$.said.key")

    run = project.run("--agentv-include-trace", f"--agentv-dump-traces={project.path / 'traces'}", "--agentv-cache")

    assert run.by_id["case-0"]["candidate_answer"] == "***"
    written = [path for path in project.path.rglob("*") if path.suffix in (".json", ".jsonl")]
    assert len(written) >= 2
    assert not [path for path in written if "0123456789abcdef" in path.read_text("utf-8")]
    assert "0123456789abcdef" not in run.text


BUSY = """
    import json, os

    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            return
        await receive()
        with open("asked.txt", "a") as file:
            print(file=file)
        reply = {"said": {"answer": "Answer to question 0"}, "usage": {"input_tokens": 1, "output_tokens": 1}}
        reply |= {"error": "quota"} if os.path.exists("busy") else {}
        reply |= {"steps": [{"name": "look_up", "arguments": {"question": "question 0"}}], "sources": []}
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": json.dumps(reply).encode()})
"""


def test_an_answer_beside_an_error_is_not_cached_and_a_cached_answer_is_never_beside_one(project):
    prepare(project, 1)
    project.write("service.py", BUSY)
    busy = project.write("busy", "")
    results = []
    for is_busy in (True, True, False, True):
        busy.unlink(missing_ok=True)
        if is_busy:
            busy.touch()
        results += project.run("--agentv-cache").results
    assert [(each["status"], each.get("cached", False)) for each in results] == [
        ("error", False),
        ("error", False),
        ("pass", False),
        ("pass", True),
    ]
    assert (project.path / "asked.txt").read_text() == "\n" * 3


def test_a_key_never_follows_a_redirect(project):
    kinds = ("openai", "anthropic", "azure", "gemini", "http")
    with FakeLlm() as asked, FakeLlm() as other:
        lines, cases = [], []
        for kind in kinds:
            url = asked.script(kind, Reply(status=307, headers={"location": f"{other.script(kind)}/x"}))
            key = (
                f"url: {url}, headers: {{X-Api-Key: sk-0123456789abcdef}}"
                if kind == "http"
                else (f"base_url: {url}, model: m, api_key: sk-0123456789abcdef")
            )
            lines.append(f"  - {{name: {kind}, provider: {kind}, {key}}}")
            cases.append(f"  - {{id: {kind}, target: {kind}, input: q, assert: [{{not-contains: sorry}}]}}")
        project.write("targets.yaml", "\n".join(["targets:", *lines]))
        project.write("a.eval.yaml", "\n".join(["cases:", *cases]))

        run = project.run()

    assert other.requests == []
    assert len(asked.requests) == len(kinds)
    for kind, result in run.by_id.items():
        assert result["status"] == "error"
        assert asked.url in result["error"], kind
        assert f"leads to {other.url}/{kind}/x: if that is right" in result["error"]
