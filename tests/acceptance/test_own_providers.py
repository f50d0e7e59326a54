"""Fixtures that plug in an object of the user's own: `agentv_provider` and `agentv_judge`, overridden in a conftest."""

import pytest

from .conftest import WITH_WORKERS_ON_REQUEST

FUNCTION = """
    import pytest

    @pytest.fixture{SCOPE}
    def agentv_provider():
        def answer(prompt):
            with open("calls.txt", "a") as file:
                print(prompt, file=file)
            return f"hello: {prompt}"
        return answer
"""

CLASS = """
    import pytest

    class Agent:
        def __call__(self, prompt, request):
            return {"text": f"hello: {prompt} {request.eval_id}", "cost_usd": 0.5}

    @pytest.fixture
    def agentv_provider():
        return Agent()
"""

ASYNC = """
    import asyncio, pytest

    class Agent:
        async def __call__(self, prompt):
            await asyncio.sleep(0)
            return f"hello: {prompt}"

    @pytest.fixture(scope="session")
    def agentv_provider():
        return Agent()
"""

PROVIDER = """
    import pytest
    from pytest_agentv.model.messages import Message
    from pytest_agentv.providers.base import ProviderResponse

    class Agent:
        async def invoke(self, request):
            return ProviderResponse(output_messages=(Message("assistant", f"hello: {request.prompt.question}"),))

    @pytest.fixture(scope="module")
    def agentv_provider():
        return Agent()
"""


def function(scope=""):
    return FUNCTION.replace("{SCOPE}", scope)


OBJECTS = {
    "function": function(),
    "session": function('(scope="session")'),
    "class": CLASS,
    "async": ASYNC,
    "provider": PROVIDER,
}


@WITH_WORKERS_ON_REQUEST
def test_an_object_of_the_users_own_is_what_cases_ask_without_a_targets_file(project_in_all_modes, suite):
    project = project_in_all_modes
    for name, conftest in OBJECTS.items():
        project.write(f"{name}/qa.eval.yaml", suite(**{f"{name}-a": "hello", f"{name}-b": "nothing"}))
        project.write(f"{name}/conftest.py", conftest)
    run = project.run()
    assert run.internals == []
    assert run.statuses == {f"{name}-{case}": "pass" for name in OBJECTS for case in "ab"}
    assert {result["target"] for result in run.results} == {"default"}
    assert all(result["candidate_answer"].startswith("hello: ") for result in run.results)
    assert {result["attempts"] for result in run.results} == {1}


def test_a_session_object_is_asked_by_many_cases_at_once(project, suite):
    """Each of five calls waits for the others."""
    project.write("qa.eval.yaml", suite(**dict.fromkeys("abcde", "hello")))
    project.write(
        "conftest.py",
        """
        import threading, pytest

        @pytest.fixture(scope="session")
        def agentv_provider():
            together = threading.Barrier(5)
            def answer(prompt):
                together.wait(timeout=60)
                return "hello"
            return answer
        """,
    )
    assert project.run("--agentv-workers=5").outcomes == {"passed": 5}


@pytest.mark.parametrize("scope", ["function", "module"])
def test_an_object_of_a_narrower_scope_is_asked_by_its_own_cases_only(project, suite, scope):
    project.write("one.eval.yaml", suite(a="hello", b="hello"))
    project.write("two.eval.yaml", suite(c="hello", d="hello"))
    project.write(
        "conftest.py",
        f"""
        import pytest

        @pytest.fixture(scope="{scope}")
        def agentv_provider(request):
            name = request.node.name
            yield lambda prompt: f"hello from {{name}}"
            name = "the grave"
        """,
    )
    answers = {result["eval_id"]: result["candidate_answer"] for result in project.run("--agentv-workers=4").results}
    own = {name: name for name in "abcd"} if scope == "function" else dict(zip("abcd", "1122", strict=True))
    files = {"1": "one.eval.yaml", "2": "two.eval.yaml"}
    assert answers == {name: f"hello from {files.get(value, value)}" for name, value in own.items()}


def test_session_objects_of_two_folders_are_not_mixed_up(project, suite):
    project.write(
        "conftest.py",
        """
        def pytest_collection_modifyitems(items):
            items.sort(key=lambda item: item.name[::-1])  # one of each folder in turn
        """,
    )
    for folder in ("one", "two"):
        project.write(f"{folder}/qa.eval.yaml", suite(**{f"{folder}-{number}": "hello" for number in range(10)}))
        project.write(
            f"{folder}/conftest.py",
            f"""
            import pytest

            @pytest.fixture(scope="session")
            def agentv_provider():
                return lambda prompt: "hello from {folder}"
            """,
        )
    run = project.run("--agentv-workers=2")
    assert run.outcomes == {"passed": 20}
    for result in run.results:
        assert result["candidate_answer"] == f"hello from {result['eval_id'].partition('-')[0]}"


def test_a_target_that_batches_does_not_take_an_objects_cases_along(project, suite):
    project.write(
        "targets.yaml",
        """
        targets:
          - name: default
            provider: cli
            provider_batching: true
            command_template: "false"
        """,
    )
    project.write("qa.eval.yaml", suite(a="hello", b="hello"))
    project.write("conftest.py", function('(scope="session")'))
    assert project.run("--agentv-workers=4").outcomes == {"passed": 2}


JUDGED = """
    evalcases:
      - id: default-judge
        expected_outcome: x
        input: Hi
      - id: rubrics
        expected_outcome: x
        input: Hi
        rubrics: [{id: polite, description: is polite}]
      - id: composite
        expected_outcome: x
        input: Hi
        evaluators:
          - name: both
            type: composite
            evaluators: [{name: one, type: llm_judge}, {name: two, type: heuristic, hits: [hello]}]
            aggregator: {type: llm_judge}
"""

JUDGE = """
    import json, pytest

    @pytest.fixture{SCOPE}
    def agentv_judge():
        def judge(prompt):
            assert isinstance(prompt, str)
            with open("judged.txt", "a") as file:
                print("-", file=file)
            if "polite" in prompt:
                checks = [{"id": "polite", "satisfied": True, "reasoning": "yes"}]
                return json.dumps({"checks": checks, "overall_reasoning": "fine"})
            return json.dumps({"score": 0.75, "hits": ["fine"], "misses": [], "reasoning": "because"})
        return judge
"""


@pytest.mark.parametrize(("scope", "has_targets"), [("", True), ('(scope="session")', False)], ids=["targets", "own"])
def test_an_object_of_the_users_own_judges_every_case_below(project, scope, has_targets):
    project.write("qa.eval.yaml", JUDGED)
    conftest = JUDGE.replace("{SCOPE}", scope)
    if has_targets:  # an agent's program, which names no judge: without the object that is an error
        project.write("targets.yaml", "targets: [{name: default, provider: cli, command_template: echo hello}]\n")
    else:
        conftest += "\n    @pytest.fixture\n    def agentv_provider():\n        return lambda prompt: 'hello'\n"
    project.write("conftest.py", conftest)
    run = project.run("--agentv-threshold=0.5", "--agentv-workers=3")
    scores = {result["eval_id"]: (result["status"], result["score"]) for result in run.results}
    assert scores == {"default-judge": ("pass", 0.75), "rubrics": ("pass", 1), "composite": ("pass", 0.75)}
    assert len((project.path / "judged.txt").read_text().splitlines()) == 4


EMPTY_ERROR = "the target gave an empty `error`, which does not say why there is no answer"


ERRORS = {"a": ("no quota", "no quota"), "b": ("", EMPTY_ERROR), "c": (" ", EMPTY_ERROR)}


def test_an_answer_that_comes_with_an_error_is_not_judged(project, suite):
    """Not even with an empty one: `str(TimeoutError())` is empty."""
    for folder, (given, _) in ERRORS.items():
        project.write(f"{folder}/qa.eval.yaml", suite(**{folder: "hello"}))
        error = f'),), cost_usd=0.5, error="{given}", error_kind="timeout")'
        project.write(f"{folder}/conftest.py", PROVIDER.replace("),))", error))
    for name, result in project.run("--agentv-max-retries=1").by_id.items():
        assert result["error"] == ERRORS[name][1]
        assert (result["error_detail"], result["attempts"]) == ({"stage": "provider", "kind": "timeout"}, 2)
        assert result["execution_metrics"]["cost_usd"] == 1


def test_a_hook_may_say_with_an_empty_error_that_there_is_no_answer(project, suite):
    project.write("qa.eval.yaml", suite(a="hello"))
    project.write("targets.yaml", "targets: [{name: default, provider: mock, response: hello}]\n")
    hook = "def pytest_agentv_response(response):\n    return response.replace(error='')\n"
    project.write("conftest.py", hook)
    run = project.run()
    assert (run.outcomes, run.by_id["a"]["error"]) == ({"errors": 1}, EMPTY_ERROR)


BREAKING_JUDGES = {
    "raise RuntimeError('no quota')": "agentv_judge raised RuntimeError: no quota",
    "return ProviderResponse((Message('assistant', '{\"score\": 1}'),), error='no quota')": "no quota",
    "return ProviderResponse((Message('assistant', '{\"score\": 1}'),), error='')": EMPTY_ERROR,
}


def test_a_judge_that_breaks_is_an_error_of_the_case(project):
    project.write("targets.yaml", "targets: [{name: default, provider: mock, response: hello}]\n")
    for number, breaks in enumerate(BREAKING_JUDGES):
        project.write(f"{number}/qa.eval.yaml", JUDGED)
        project.write(
            f"{number}/conftest.py",
            f"""
            import pytest
            from pytest_agentv import Message, ProviderResponse

            @pytest.fixture
            def agentv_judge():
                def judge(prompt):
                    {breaks}
                return judge
            """,
        )
    run = project.run()
    assert run.outcomes == {"errors": 9}
    for number, reason in enumerate(BREAKING_JUDGES.values()):
        errors = [result["error"] for result in run.results if result["eval_file"] == f"{number}/qa.eval.yaml"]
        assert len(errors) == 3
        assert all(f"the judge 'agentv_judge' could not be asked: {reason}" in error for error in errors)


def test_judge_scripts_may_call_the_objects(project, python):
    project.write("conftest.py", JUDGE.replace("{SCOPE}", "") + function().replace("import pytest", ""))
    project.write(
        "judge.py",
        """
        from pytest_agentv.sdk import Result, code_judge, create_target_client

        @code_judge
        def judge(case):
            client = create_target_client()
            first = client.invoke("What do you think?")
            second = client.invoke("Once more", target="default")
            return Result(1.0, [first.raw_text, second.raw_text])
        """,
    )
    project.write(
        "qa.eval.yaml",
        f"""
        evalcases:
          - id: a
            expected_outcome: x
            input: Hi
            evaluators: [{{name: script, type: code_judge, script: [{python}, judge.py], target: true}}]
        """,
    )
    (result,) = project.run().results
    assert result["status"] == "pass", result["error"]
    assert "because" in result["hits"][0]
    assert result["hits"][1] == "hello: Once more"
