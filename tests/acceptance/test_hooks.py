"""The hooks that conftest files implement: kinds of providers and evaluators of their own."""

import pytest

TARGETS = """
targets:
  - name: default
    provider: cli
    command_template: echo {EVAL_ID} >> calls.txt; echo hello world
"""


@pytest.fixture
def project(project, suite):
    project.write("targets.yaml", TARGETS)
    project.write("qa.eval.yaml", suite(a="hello", b="nothing"))
    project.write("test_python.py", "def test_one(): ...\n")
    return project


def test_hooks_of_a_conftest_add_kinds_of_providers_and_evaluators(project):
    project.write(
        "conftest.py",
        """
        from pytest_agentv.model.messages import Message
        from pytest_agentv.model.results import Score
        from pytest_agentv.providers.base import ProviderResponse

        class Parrot:
            mode = "lm"

            def __init__(self, target, environment):
                self.name = target.name

            async def check(self): ...

            async def invoke(self, request):
                answer = f"{self.name} heard {request.eval_id}"
                return ProviderResponse(output_messages=(Message("assistant", answer),))

            async def close(self): ...

        class LengthEvaluator:
            def __init__(self, spec, services): ...

            async def evaluate(self, context):
                return Score(1.0 if "parrot heard a" in context.candidate_answer else 0.25)

        def pytest_agentv_providers():
            return {"bird": Parrot}

        def pytest_agentv_evaluators():
            return {"length": LengthEvaluator}
        """,
    )
    project.write("targets.yaml", "targets: [{name: parrot, provider: bird}]\n")
    project.write(
        "qa.eval.yaml",
        """
        target: parrot
        evalcases:
          - id: a
            expected_outcome: x
            input: Polly?
            evaluators: [{name: short, type: length, longest: 20}]
          - id: b
            expected_outcome: x
            input: Polly?
            evaluators: [{name: short, type: length}]
        """,
    )
    run = project.run("qa.eval.yaml")
    assert run.outcomes == {"passed": 1, "failed": 1}
    assert [(result["candidate_answer"], result["score"]) for result in run.results] == [
        ("parrot heard a", 1),
        ("parrot heard b", 0.25),
    ]
    assert project.run("qa.eval.yaml", "-n", "2").statuses == run.statuses


def test_hooks_of_the_nearest_conftest_win(project):
    assert project.run().exit_code == pytest.ExitCode.TESTS_FAILED
    answering = """
        from pytest_agentv.model.messages import Message
        from pytest_agentv.providers.base import ProviderResponse

        class Constant:
            mode = "lm"
            def __init__(self, target, environment): ...
            async def check(self): ...
            async def invoke(self, request):
                return ProviderResponse(output_messages=(Message("assistant", "WORD"),))
            async def close(self): ...

        def pytest_agentv_providers():
            return {"constant": Constant}
    """
    project.write("targets.yaml", "targets: [{name: default, provider: constant}]\n")
    project.write("conftest.py", answering.replace("WORD", "far"))
    project.write("sub/conftest.py", answering.replace("WORD", "near"))
    project.write("sub/near.eval.yaml", (project.path / "qa.eval.yaml").read_text())
    assert {result["candidate_answer"] for result in project.run("sub").results} == {"near"}
    assert {result["candidate_answer"] for result in project.run("qa.eval.yaml").results} == {"far"}


def test_a_conftest_that_is_loaded_after_the_first_eval_file_counts_for_its_folder(project):
    answering = """
        from pytest_agentv.model.messages import Message
        from pytest_agentv.providers.base import ProviderResponse

        class Late:
            mode = "lm"
            def __init__(self, target, environment): ...
            async def check(self): ...
            async def invoke(self, request):
                return ProviderResponse(output_messages=(Message("assistant", "hello from below"),))
            async def close(self): ...

        def pytest_agentv_providers():
            return {"late": Late}
    """
    project.write("zz/conftest.py", answering)
    project.write("zz/targets.yaml", "targets: [{name: default, provider: late}]\n")
    project.write("zz/late.eval.yaml", (project.path / "qa.eval.yaml").read_text().replace("id: ", "id: late-"))
    run = project.run()
    assert run.statuses == {"a": "pass", "b": "fail", "late-a": "pass", "late-b": "fail"}


def test_a_hook_that_raises_breaks_the_cases_and_leaves_python_tests_alone(project):
    project.write("conftest.py", "def pytest_agentv_providers():\n    raise RuntimeError('no such library')\n")
    run = project.run()
    assert run.outcomes == {"passed": 1, "errors": 2}
    assert (
        "pytest_agentv_providers raised RuntimeError: no such library\n  conftest.py:2 in pytest_agentv_providers"
        in run.text
    )
    assert "ERROR qa.eval.yaml::a - pytest_agentv_providers raised RuntimeError: no such ..." in run.lines


@pytest.mark.parametrize("response", ["None", "ProviderResponse(output_messages='hello')"])
def test_a_provider_that_returns_something_odd_is_told_what_is_wrong(project, response):
    project.write("targets.yaml", "targets: [{name: default, provider: odd}]\n")
    project.write(
        "conftest.py",
        f"""
        from pytest_agentv import ProviderResponse

        class Odd:
            mode = "lm"
            def __init__(self, target, environment): ...
            async def check(self): ...
            async def invoke(self, request):
                return {response}
            async def close(self): ...

        def pytest_agentv_providers():
            return {{"odd": Odd}}
        """,
    )
    run = project.run("qa.eval.yaml")
    assert run.outcomes["errors"] == 2
    wrong = "None: expected a str"
    if response != "None":
        wrong = "a ProviderResponse whose output_messages is a str: expected a tuple of Message"
    assert f"invoke() returned {wrong}" in run.text
    assert "AttributeError" not in run.text
