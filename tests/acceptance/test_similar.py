"""`similar`: embeddings of OpenAI, Azure and Gemini, asked for together, kept in the cache, and paid for once."""

import json

import pytest
from fake_llm import FakeLlm, Reply


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


def test_after_a_refusal_each_text_is_asked_for_alone(project, llm):
    refused = Reply(status=413, when="too long", message="the input is too long")
    write(project, KINDS["openai"].format(url=llm.script("e", refused, refused, Reply())), ids=())
    with (project.path / "a.eval.yaml").open("a") as file:
        file.write(CASE.format(id="long").replace("the tent", "too long"))
    run = project.run()
    assert "replied HTTP 413: the input is too long" in run.by_id["long"]["error"]
    costs = run.by_id["long"]["spent"]["judge"]
    assert (costs["calls"], costs["input"], costs["tokens_known"]) == (1, 2, 1), "of the accepted text"
    asked = [request.body["input"] for request in llm.asked("e")]
    assert asked[0] == ["The tent!", "too long"]
    assert sorted(asked[1:]) == [["The tent!"], ["too long"]]


def test_a_dry_run_knows_the_target_of_embeddings(project):
    checks = {"a": "similar: x, target: nope", "b": "field: {path: a, similar: x, target: nope}"}
    cases = "".join(f"  - {{id: {name}, input: q, assert: [{{{check}}}]}}\n" for name, check in checks.items())
    project.write("a.eval.yaml", f"evalcases:\n{cases}")
    project.write("targets.yaml", "targets: [{name: default, provider: mock, response: '{}'}]\n")
    for flags in (("--agentv-dry-run",), ()):
        errors = [result["error"] for result in project.run(*flags).results]
        assert errors == ["targets.yaml: no target 'nope'; available: default"] * 2


def test_an_error_in_place_of_embeddings_is_told_and_retried(project, llm):
    error = Reply(content={"error": {"message": "Rate limit reached", "code": 429}})
    retries = "max_retries: 1, retry_initial_delay_ms: 1"
    write(project, f"{KINDS['openai'].format(url=llm.script('e', error))}, {retries}")
    run = project.run()
    assert "replied with an error: Rate limit reached (code 429)" in run.by_id["a"]["error"]
    assert len(llm.asked("e")) == 2


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


GIVING_NONE = {
    "refuses": (KINDS["openai"], Reply(status=400), "the target 'refuses' gave no embeddings: ", 1),
    "nothing": (KINDS["openai"], Reply(content={"data": []}), "replied without a vector for each text", 1),
    "one": (
        KINDS["openai"],
        Reply(content={"data": [{"index": 0, "embedding": [1, 0]}]}),
        "the target 'one' gave no embeddings: "
        "model 'text-embedding-3-small' (openai) replied without a vector for each text",
        1,
    ),
    "zeros": (
        KINDS["openai"],
        Reply(content={"data": [{"index": 0, "embedding": [1, 0]}, {"index": 1, "embedding": [0, 0]}]}),
        "it replied without a vector for one of the texts",
        1,
    ),
    "few": (KINDS["gemini"], Reply(content={"embeddings": [{"values": [1]}]}), "without a vector for", 1),
    "mock": ("provider: mock, response: x", Reply(), "(mock) gives no embeddings: openai, azure and gemini", None),
    "anthropic": (
        "provider: anthropic, model: m, api_key: sk-1, base_url: {url}",
        Reply(),
        "gives no embeddings",
        None,
    ),
    "through": (f"{KINDS['openai']}, client: litellm", Reply(), "through litellm: leave out `client`", None),
    "litellm": (
        "provider: litellm, model: openai/m, api_key: sk-1, base_url: {url}",
        Reply(),
        "target 'litellm' (litellm) gives no embeddings: openai, azure and gemini targets do",
        None,
    ),
}


def test_a_target_that_gives_none_is_an_error(project, llm):
    write(project, "provider: mock, response: x", ids=())
    for name, (target, reply, _, _) in GIVING_NONE.items():
        with (project.path / "a.eval.yaml").open("a") as file:
            file.write(CASE.format(id=name).replace("threshold", f"target: {name}, threshold"))
        with (project.path / "targets.yaml").open("a") as file:
            file.write(f"  - {{name: {name}, {target.format(url=llm.script(name, reply))}}}\n")
    run = project.run()
    for name, (_, _, error, calls) in GIVING_NONE.items():
        result = run.by_id[name]
        assert (result["status"], result.get("spent", {}).get("judge", {}).get("calls")) == ("error", calls)
        assert error in result["error"]
        assert "sk-abcdefgh12345678" not in json.dumps(result)
