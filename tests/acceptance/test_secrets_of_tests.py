"""Secrets in what pytest shows of tests that use the plugin's fixtures."""

import json

import pytest

from .conftest import MOCK_TARGETS, WITH_WORKERS_ON_REQUEST, Project, Run

KEY = "sk-live-AbCd1234EfGh5678IjKl9012MnOp"
EVALUATORS = [{"contains": "hello"}]


def everything(project: Project, *args: str) -> tuple[Run, str]:
    """Run pytest and return the run, with all that it showed and wrote."""
    run = project.run("-rA", "-v", f"--junit-xml={project.path}/junit.xml", *args)
    return run, run.text + (project.path / "junit.xml").read_text("utf-8") + json.dumps(run.results)


READS_DOTENV = """
import os, pytest

KEY = open(__file__.replace("conftest.py", ".env")).read().strip().partition("=")[2]

@pytest.fixture
def client():
    raise ConnectionError(f"refused: {KEY}")
"""


DOTENV_TESTS = """
from conftest import KEY

def test_after(agentv, client): ...

def test_before(client, agentv): ...

def test_itself(agentv):
    raise ConnectionError(f'refused: {KEY}')
"""


@WITH_WORKERS_ON_REQUEST
@pytest.mark.parametrize("only", ["after", "before", "itself"])
def test_variables_of_the_dotenv_file_are_known_before_the_first_evaluation(project_in_all_modes, only):
    project_in_all_modes.write(".env", f"AGENTV_TEST_API_KEY={KEY}\n")
    project_in_all_modes.write("conftest.py", READS_DOTENV)
    project_in_all_modes.write("test_a.py", DOTENV_TESTS)
    run, text = everything(project_in_all_modes, "-k", only)
    assert run.exit_code == 1
    assert "ConnectionError: refused: ***" in text
    assert KEY not in text


def test_what_a_fixture_of_a_case_prints_first_is_masked(project, suite):
    project.write(".env", f"AGENTV_TEST_API_KEY={KEY}\n")
    project.write("conftest.py", READS_DOTENV.replace("raise ConnectionError", "print"))
    project.write("targets.yaml", MOCK_TARGETS)
    project.write("a.eval.yaml", suite(a="hello") + "    fixtures: [client]\n")
    run = project.run("-s")
    assert run.statuses == {"a": "pass"}
    assert "refused: ***" in run.text
    assert KEY not in run.text


def test_variables_of_fixtures_still_reach_programs(project):
    """The folder's variables must not be taken before the fixtures of its first test have run."""
    project.write(".env", "AGENTV_TEST_OTHER=x\n")
    target = "{name: default, provider: cli, command_template: 'echo hello $AGENTV_TEST_SET $AGENTV_TEST_OTHER'}"
    project.write("targets.yaml", f"targets:\n  - {target}\n")
    project.write(
        "test_a.py",
        """
        import pytest

        @pytest.fixture
        def login(monkeypatch):
            monkeypatch.setenv("AGENTV_TEST_SET", "set")

        def test_a(agentv, login):
            assert agentv.run("q", evaluators=[{"contains": "hello set x"}])
        """,
    )
    assert project.run().outcomes == {"passed": 1}


LATE = """
import os, pytest

@pytest.fixture
def login(monkeypatch):
    monkeypatch.setenv("AGENTV_TEST_SESSION_TOKEN", KEY)
"""
LATE_AGENT = """
import os

def answer(prompt):
    if prompt == "log in":
        os.environ["AGENTV_TEST_OWN_TOKEN"] = KEY
    return "hello " + os.environ.get("AGENTV_TEST_SESSION_TOKEN", os.environ.get("AGENTV_TEST_OWN_TOKEN", "nobody"))
"""
LATE_TESTS = f"""
import os

def test_first(agentv):
    assert agentv.run("q", evaluators={EVALUATORS})

def test_login(agentv, login):
    assert agentv.run("q", evaluators=[{{"contains": "nothing"}}])

def test_itself(agentv, monkeypatch):
    monkeypatch.setenv("AGENTV_TEST_TOKEN", KEY)
    raise RuntimeError(f"refused: {{KEY}}")
"""
LATE_CASES = """
evalcases:
  - {id: first, input: q, evaluators: [{contains: hello}]}
  - {id: login, input: q, fixtures: [login], evaluators: [{contains: nothing}]}
  - {id: agent, input: log in, evaluators: [{contains: nothing}]}
"""


@pytest.mark.parametrize("only", [[], ["test_a.py"], ["a.eval.yaml::login"]])
def test_variables_that_appear_during_the_run_are_masked(project, monkeypatch, only):
    monkeypatch.setenv("AGENTV_TEST_OWN_TOKEN", "")  # restored in the end
    monkeypatch.delenv("AGENTV_TEST_OWN_TOKEN")
    project.write("targets.yaml", "targets: [{name: default, provider: python, callable: 'agent.py:answer'}]\n")
    key = f"KEY = {KEY!r}\n"
    project.write("agent.py", key + LATE_AGENT)
    project.write("conftest.py", key + LATE)
    project.write("test_a.py", key + LATE_TESTS)
    project.write("a.eval.yaml", LATE_CASES)
    run, text = everything(project, "--agentv-cache", f"--agentv-dump-traces={project.path}/traces", *only)
    assert run.exit_code == 1
    assert "hello ***" in text
    kept = [file for each in ("traces", ".agentv") for file in (project.path / each).rglob("*") if file.is_file()]
    assert KEY not in text.replace(key.strip(), "") + "".join(file.read_text("utf-8", "replace") for file in kept)


ASKING_TESTS = """
def test_error(agentv_provider):
    agentv_provider("q")

def test_answer(agentv_provider):
    assert agentv_provider("say").output_messages[0].content is None

def test_dynamic(request):
    request.getfixturevalue("agentv_provider")("q")
"""
ASKED_AGENT = """
import os

def answer(prompt):
    key = os.environ["AGENTV_TEST_API_KEY"]
    if prompt == "say":
        return key
    raise RuntimeError(f"401 for {key}")
"""


@WITH_WORKERS_ON_REQUEST
def test_what_the_fixture_agentv_provider_says_is_masked_in_tests_without_agentv(project_in_all_modes, monkeypatch):
    monkeypatch.setenv("AGENTV_TEST_API_KEY", KEY)
    project = project_in_all_modes
    project.write("targets.yaml", "targets: [{name: default, provider: python, callable: 'agent.py:answer'}]\n")
    project.write("agent.py", ASKED_AGENT)
    project.write("test_a.py", ASKING_TESTS)
    run, text = everything(project, "--showlocals", "--agentv-max-retries=0")
    assert run.outcomes == {"failed": 3}
    assert "agent.py:answer raised RuntimeError: 401 for ***" in text
    assert KEY not in text


TELLING_TESTS = """
import os, pytest

KEY = os.environ["AGENTV_TEST_API_KEY"]

def test_skip(agentv):
    pytest.skip(f"refused {KEY}")

def test_xfail(agentv):
    pytest.xfail(f"refused {KEY}")

@pytest.mark.xfail(reason=f"refused {KEY}")
def test_xpass(agentv): ...

def test_dynamic(request):
    request.getfixturevalue("agentv")
    raise RuntimeError(f"refused {KEY}")

def test_dynamic_skip(request):
    request.getfixturevalue("agentv")
    pytest.skip(f"refused {KEY}")

@pytest.mark.skipif(True, reason=f"refused {KEY}")
def test_marked(agentv): ...

def test_other():
    assert KEY is None
"""
TELLING_SUBTESTS = """
import logging

def test_subtests(agentv, subtests):
    with subtests.test("one"):
        print("printed", KEY)
        logging.getLogger("own").error("logged %s", KEY)
        raise RuntimeError(f"refused {KEY}")
"""
RECORDS = """
import os, platform, sys

def test_records(agentv, record_property, record_testsuite_property):
    record_property("headers", f"Authorization: Bearer {KEY}")
    record_property("tries", 3)
    record_property("python", sys.version_info[:])
    record_property("system", platform.uname())
    record_property("login", [("user", KEY)])
    record_testsuite_property("login", KEY)
    agentv.evaluate("hello", evaluators=[{"contains": "hello"}])
"""
RECORDING_FIXTURE = """
import os, pytest

@pytest.fixture
def client(record_property):
    record_property("client", os.environ["AGENTV_TEST_API_KEY"])
"""


@WITH_WORKERS_ON_REQUEST
def test_reasons_of_skips_subtests_and_properties_are_masked(project_in_all_modes, monkeypatch, suite):
    pytest.importorskip("_pytest.subtests", reason="pytest 9 has subtests")
    monkeypatch.setenv("AGENTV_TEST_API_KEY", KEY)
    project = project_in_all_modes
    project.write("targets.yaml", MOCK_TARGETS)
    project.write("test_a.py", TELLING_TESTS.partition("def test_other")[0] + TELLING_SUBTESTS + RECORDS)
    project.write("conftest.py", RECORDING_FIXTURE)
    project.write("a.eval.yaml", suite(a="hello") + "    fixtures: [client]\n")
    run, text = everything(project, "-vv", "-o", "junit_family=xunit1")
    assert {each: run.outcomes[each] for each in ("passed", "skipped", "xfailed", "xpassed")} == {
        "passed": 2,
        "skipped": 3,
        "xfailed": 1,
        "xpassed": 1,
    }
    for shown in ("printed ***", "logged ***", "refused ***"):
        assert shown in run.text
    for written in ('"headers" value="Authorization: Bearer ***"', '"tries" value="3"', '"client" value="***"'):
        assert f"<property name={written} />" in text
    assert 'name="system" value="uname_result(' in text
    assert KEY not in text


def test_other_tests_stay_as_they_are(project, monkeypatch):
    monkeypatch.setenv("AGENTV_TEST_API_KEY", KEY)
    project.write("targets.yaml", MOCK_TARGETS)
    project.write("test_a.py", TELLING_TESTS)
    run = project.run("-k", "skip or other")
    assert f"assert '{KEY}' is None" in run.text


@pytest.mark.parametrize("args", [(), ("--full-trace",)])
def test_the_message_that_ends_the_run_is_masked(project, monkeypatch, args):
    monkeypatch.setenv("AGENTV_TEST_API_KEY", KEY)
    project.write("targets.yaml", MOCK_TARGETS)
    project.write(
        "test_a.py",
        """
        import os, pytest

        def test_a(agentv):
            pytest.exit("bye " + os.environ["AGENTV_TEST_API_KEY"])
        """,
    )
    _, text = everything(project, *args)
    assert "Exit: bye ***" in text
    assert KEY not in text
