"""Kinds of conftest files, and two folders with equal names: each has its own targets, functions and kinds."""

from pytest_agentv.cli.main import main

CONFTEST = """
from pytest_agentv import Evaluator, Provider, Score

class Parrot(Provider):
    kind = "parrot"
    FOLDER: str
    def open(self, environment):
        return self
    def invoke(self, request):
        return "parrot FOLDER"

class Mine(Evaluator):
    kind = "mine"
    def evaluate(self, context):
        return Score(1.0, hits=("judged in FOLDER",))

class Old:
    def evaluate(self, context):
        return Score(1.0, hits=("factory of FOLDER",))

def pytest_agentv_providers():
    return [Parrot]

def pytest_agentv_evaluators():
    return {"mine": Mine, "old": lambda spec, services: Old()}
"""

AGENT = """
def answer(prompt):
    return "function FOLDER"

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        raise RuntimeError("there is none")
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"app FOLDER"})
"""

TARGETS = """
targets:
  - {name: function, provider: python, callable: "agent.py:answer"}
  - {name: app, provider: asgi, app: "agent.py:app"}
  - {name: program, provider: cli, command_template: cat answer.txt}
  - {name: kind, provider: parrot, FOLDER: yes}
"""

SUITE = """
matrix: {target: [function, app, program, kind]}
evalcases:
  - {id: same, input: hi, assert: [{ends-with: FOLDER}, {type: mine, name: m}, {type: old, name: o}]}
"""


def test_validate_knows_the_kinds_of_each_folder(project, monkeypatch, capsys):
    for folder in ("north", "south"):
        for name, text in (("conftest.py", CONFTEST), ("targets.yaml", TARGETS.replace("FOLDER: yes", "north: yes"))):
            project.write(f"{folder}/{name}", text.replace("FOLDER", folder))
    monkeypatch.chdir(project.path)
    assert main(["validate", "north", "south"]) == 1
    said = capsys.readouterr().out.splitlines()
    errors = [line for line in said if ": error: " in line]
    slip = "is missing (is 'north' a misspelling of it?)"
    assert errors == [f"south/targets.yaml:5: error: targets[3].south: {slip}"]
    assert said[-1].startswith("2 files checked: 1 error")


def test_each_folder_asks_and_judges_with_what_is_in_it_and_the_cache_keeps_them_apart(project):
    files = {"conftest.py": CONFTEST, "agent.py": AGENT, "targets.yaml": TARGETS, "x.eval.yaml": SUITE}
    for folder in ("north", "south"):
        for name, text in {**files, "answer.txt": "program FOLDER"}.items():
            project.write(f"{folder}/{name}", text.replace("FOLDER", folder))
    kinds = ("app", "function", "parrot", "program")
    for is_cached in (None, True):
        run = project.run("--agentv-cache")
        assert run.outcomes == {"passed": 8}
        assert [result.get("cached") for result in run.results] == [is_cached] * 8
        said = [result["candidate_answer"] for result in run.results]
        assert sorted(said) == [f"{kind} {folder}" for kind in kinds for folder in ("north", "south")]
        for result in run.results:
            folder = result["candidate_answer"].split()[1]
            assert result["hits"][1:] == [f"judged in {folder}", f"factory of {folder}"]


ANSWERING = """
    from pytest_agentv import ProviderResponse
    from pytest_agentv.model.messages import Message

    class Answering:
        mode = "lm"
        def __init__(self, target, environment): self.name = target.name
        async def check(self): ...
        async def invoke(self, request):
            return RESPONSE
        async def close(self): ...

    def pytest_agentv_providers():
        return {"own": Answering}
"""
ANSWER = 'ProviderResponse(output_messages=(Message("assistant", "hello from below"),))'


def test_a_conftest_that_is_loaded_after_the_first_eval_file_counts_for_its_folder(project, suite):
    project.write("targets.yaml", "targets: [{name: default, provider: mock, response: hello}]\n")
    project.write("qa.eval.yaml", suite(a="hello", b="nothing"))
    project.write("zz/conftest.py", ANSWERING.replace("RESPONSE", ANSWER))
    project.write("zz/targets.yaml", "targets: [{name: default, provider: own}]\n")
    project.write("zz/late.eval.yaml", suite(late="below"))
    assert project.run().statuses == {"a": "pass", "b": "fail", "late": "pass"}


def test_a_provider_that_returns_something_odd_is_told_what_is_wrong(project):
    response = "None if self.name == 'none' else ProviderResponse(output_messages='hello')"
    project.write("conftest.py", ANSWERING.replace("RESPONSE", response))
    project.write("targets.yaml", "targets: [{name: none, provider: own}, {name: text, provider: own}]\n")
    project.write(
        "qa.eval.yaml", "matrix: {target: [none, text]}\nevalcases: [{id: a, input: hi, assert: [contains: x]}]\n"
    )
    run = project.run()
    assert run.outcomes == {"errors": 2}
    for wrong in (
        "None: expected a str",
        "a ProviderResponse whose output_messages is a str: expected a list",
    ):
        assert f"invoke() returned {wrong}" in run.text
    assert "AttributeError" not in run.text
