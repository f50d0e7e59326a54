"""`similar`: embeddings of OpenAI, Azure and Gemini, asked for together, kept in the cache, and paid for once."""

import json

import pytest
from fake_llm import FakeLlm


@pytest.fixture
def llm():
    with FakeLlm() as server:
        yield server


KINDS = {
    "openai": "provider: openai, model: text-embedding-3-small, api_key: sk-abcdefgh12345678, base_url: {url}",
    "azure": "provider: azure, deployment: text-embedding-3-small, api_key: sk-abcdefgh12345678, endpoint: {url}",
    "gemini": "provider: gemini, model: gemini-embedding-001, api_key: sk-abcdefgh12345678, base_url: {url}/v1beta",
}
CASE = """
  - id: {id}
    expected_outcome: o
    input: q
    assert: [{{similar: the tent, threshold: 0.9}}]
"""


def write(project, target, ids=("a",), answer="The tent!"):
    project.write("a.eval.yaml", "evalcases:" + "".join(CASE.format(id=each) for each in ids))
    answering = f"{{name: default, provider: mock, response: {json.dumps(answer)}}}"
    project.write("targets.yaml", f"targets:\n  - {answering}\n  - {{name: embeddings, {target}}}\n")


@pytest.mark.parametrize("kind", KINDS)
def test_each_api_gives_embeddings(project, llm, kind):
    url = llm.script("e")
    write(project, KINDS[kind].format(url=url), ids=("a", "b", "c"))
    run = project.run()
    found = [run.by_id[each]["evaluator_results"][0] for each in "abc"]
    assert [(each["score"], each["hits"]) for each in found] == [(1, ["similarity 1.000 >= 0.9"])] * 3
    assert len(llm.asked("e")) == 1, "cases in flight ask together, and each text once"
    (request,) = llm.asked("e")
    assert "sk-abcdefgh12345678" in (request.api_key or "")
    assert json.dumps(request.body).count("the tent") == 1
    metered = [each.get("judge_metrics", {}) for each in found]
    assert sum(each.get("calls", 0) for each in metered) >= 1, "a call counts even if its tokens are not reported"
    assert any(each.get("tokens_known") for each in metered) == (kind != "gemini")
    if kind != "gemini":  # it does not report tokens
        paid = [each["judge_metrics"]["cost_usd"] for each in found if "judge_metrics" in each]
        assert len(paid) == 1, "paid for once"
        assert paid[0] > 0


def test_a_dry_run_knows_the_target_of_embeddings(project):
    checks = {"a": "similar: x, target: nope", "b": "field: {path: a, similar: x, target: nope}"}
    cases = "".join(f"  - {{id: {name}, input: q, assert: [{{{check}}}]}}\n" for name, check in checks.items())
    project.write("a.eval.yaml", f"evalcases:\n{cases}")
    project.write("targets.yaml", "targets: [{name: default, provider: mock, response: '{}'}]\n")
    for flags in (("--agentv-dry-run",), ()):
        errors = [result["error"] for result in project.run(*flags).results]
        assert errors == ["targets.yaml: no target 'nope'; available: default"] * 2


def test_the_cache_keeps_embeddings(project, llm):
    url = llm.script("e")
    write(project, KINDS["openai"].format(url=url))
    for answer in ("The tent!", "The tent!", "A car"):
        write(project, KINDS["openai"].format(url=url), answer=answer)
        project.run("--agentv-cache")
    asked = [request.body["input"] for request in llm.asked("e")]
    assert asked == [["The tent!", "the tent"], ["A car"]]
    assert "judge" not in project.run("--agentv-cache").by_id["a"].get("spent", {})


def test_a_text_that_is_compared_with_itself_is_paid_for_once(project, llm):
    write(project, KINDS["openai"].format(url=llm.script("e")), answer="the tent")
    costs = project.run().by_id["a"]["spent"]["judge"]
    assert (costs["calls"], costs["input"], costs["output"]) == (1, 2, 0)


AGGREGATED = """
  - id: a
    expected_outcome: o
    input: q
    assert:
      - {type: composite, aggregator: {type: llm_judge}, evaluators: [{similar: the tent}, {contains: tent}]}
"""
JUDGE = """
def judge(prompt):
    with open("asked", "a") as file:
        file.write("x")
    return '{"score": 1}'
"""


def test_what_embeddings_cost_is_not_part_of_an_aggregators_question(project, llm):
    """It is paid in the first run only, so that the second one would ask again."""
    url = llm.script("e")
    write(project, KINDS["openai"].format(url=url))
    project.write("a.eval.yaml", f"evalcases:{AGGREGATED}")
    project.write("judge.py", JUDGE)
    with (project.path / "targets.yaml").open("a") as file:
        file.write("  - {name: judge, provider: python, callable: 'judge.py:judge'}\n")
    targets = (project.path / "targets.yaml").read_text()
    project.write("targets.yaml", targets.replace("provider: mock,", "provider: mock, judge_target: judge,"))
    for _ in range(2):
        run = project.run("--agentv-cache")
        assert run.statuses == {"a": "pass"}
    assert (project.path / "asked").read_text() == "x"
    assert (len(llm.asked("e")), "judge" in run.by_id["a"]["spent"]) == (1, False)
