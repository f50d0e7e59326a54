"""Kinds of providers of conftest files: of one that pytest loads late, and one whose answers are odd."""

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
        "a ProviderResponse whose output_messages is a str: expected a tuple of Message",
    ):
        assert f"invoke() returned {wrong}" in run.text
    assert "AttributeError" not in run.text
