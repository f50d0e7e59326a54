"""Fixtures of the user's conftest files, around eval cases."""

import pytest

COUNTING_TARGETS = """
targets:
  - name: default
    provider: cli
    command_template: echo {EVAL_ID} >> calls.txt; echo hello world
"""


@pytest.fixture
def project(project, suite):
    """Two files with two cases each, which all pass; each call leaves a line in `calls.txt`."""
    project.write("targets.yaml", COUNTING_TARGETS)
    project.write("one.eval.yaml", suite(a="hello", b="hello"))
    project.write("two.eval.yaml", suite(c="hello", d="hello"))
    return project


def lines(project, name):
    path = project.path / name
    return path.read_text().splitlines() if path.exists() else []


AROUND = """
import pytest

def note(file, word):
    with open(f"{file}.txt", "a") as file:
        print(word, file=file)

@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    for scope in ("function", "class", "module", "package", "session"):
        note(scope, item.name)
    return (yield)

@pytest.fixture(autouse=True)
def seen(request, monkeypatch):
    monkeypatch.setenv("CASE", request.node.name)
    note("seen", f"{request.node.nodeid} {request.module.__name__} {request.path.name} {request.function.__name__} "
         f"{request.cls} {request.fspath.basename}")

@pytest.fixture(autouse=True, scope="session")
def greeting():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GREETING", "from a fixture")
        yield
"""
OF_A_SCOPE = """
@pytest.fixture(autouse=True, scope="SCOPE")
def around_SCOPE():
    note("SCOPE", "enter")
    yield
    note("SCOPE", "leave")
"""
SCOPES = {
    "function": "enter a leave enter b leave enter c leave enter d leave enter test_both leave",
    "class": "enter a leave enter b leave enter c leave enter d leave enter test_both leave",
    "module": "enter a b leave enter c d leave enter test_both leave",
    "package": "enter a b c d test_both leave",
    "session": "enter a b c d test_both leave",
}


def test_autouse_fixtures_of_every_scope_are_around_the_calls_and_reach_the_targets(project):
    project.write("targets.yaml", "targets: [{name: default, provider: python, callable: agent.py:answer}]\n")
    agent = "def answer(prompt): return f\"hello {os.environ['GREETING']} {os.environ['CASE']}\"\n"
    project.write("agent.py", f"import os\n{agent}")
    project.write("conftest.py", AROUND + "".join(OF_A_SCOPE.replace("SCOPE", scope) for scope in SCOPES))
    project.write(
        "zz/test_python.py",
        """
        import pytest

        class TestThings:
            @pytest.fixture(autouse=True)
            def ready(self):
                self.value = 1

            def setup_method(self):
                self.other = 2

            def test_both(self):
                assert (self.value, self.other) == (1, 2)
        """,
    )
    run = project.run()
    assert run.outcomes == {"passed": 5}
    assert {scope: " ".join(lines(project, f"{scope}.txt")) for scope in SCOPES} == SCOPES
    assert lines(project, "seen.txt")[0] == "one.eval.yaml::a one.eval one.eval.yaml agentv_case None one.eval.yaml"
    answers = {result["eval_id"]: result["candidate_answer"] for result in run.results}
    assert answers == {name: f"hello from a fixture {name}" for name in "abcd"}


def test_an_autouse_fixture_that_skips_leaves_nothing_called(project):
    project.write(
        "conftest.py",
        """
        import os, pytest

        @pytest.fixture(autouse=True)
        def only_where_there_is_a_key(request):
            if request.node.name != "c" or request.config.getoption("verbose"):
                pytest.skip("no key here")
        """,
    )
    run = project.run("-rs", "--agentv-workers=3")
    assert (run.outcomes, run.statuses) == ({"passed": 1, "skipped": 3}, {"c": "pass"})
    assert lines(project, "calls.txt") == ["c"]
    assert "no key here" in run.text
    assert "Total eval cases: 1 (1 passed, 0 failed, 0 errors)" in run.text
    run = project.run("-v", "--agentv-workers=4")
    assert (run.outcomes, run.results, lines(project, "calls.txt")) == ({"skipped": 4}, [], ["c"])
    assert "EVALUATION SUMMARY" not in run.text


EVALUATING_FIXTURES = """
import pytest

from pytest_agentv import EvalErrored

NOPE = [{"contains": "nope"}]


@pytest.fixture
def warm(agentv):
    return agentv.run("warm up", evaluators=NOPE)

@pytest.fixture
def checked(agentv):
    assert not agentv.run("warm up", id="c", evaluators=NOPE)

@pytest.fixture
def catching(agentv):
    with pytest.raises(EvalErrored):
        agentv.run("warm up", evaluators=[{"type": "heuristc"}])
"""


def test_an_evaluation_of_a_cases_fixture_has_a_result_of_its_own(project_in_all_modes):
    project = project_in_all_modes
    project.write("targets.yaml", "targets: [{name: default, provider: mock, response: hello}]\n")
    project.write("conftest.py", EVALUATING_FIXTURES)
    project.write("x.eval.yaml", """
        evalcases:
          - {id: a, input: hi, fixtures: [warm], evaluators: [{contains: hello}]}
          - {id: b, input: hi, fixtures: [catching], evaluators: [{contains: hello}]}
          - {id: c, input: hi, fixtures: [checked], evaluators: [{contains: hello}]}
        """)  # fmt: skip
    run = project.run()
    assert (run.exit_code, run.outcomes) == (1, {"passed": 3})
    own = {"a": "pass", "b": "pass", "c": "pass"}
    assert run.statuses == own | {"a-2": "fail", "b-2": "error", "c-2": "fail"}
    assert run.by_id["a-2"]["node_id"] == "x.eval.yaml::a"
    assert "Total eval cases: 6 (3 passed, 1 failed, 1 failed as expected, 1 error)" in run.lines
    assert "a case could not be judged, but its test went on, so the run fails: x.eval.yaml::b" in run.lines
    assert "1 test passed although an evaluation failed, because nothing looks at its verdict" in run.text
    assert "its verdict: x.eval.yaml::a (" in run.text
    assert "Reruns:" not in run.text
