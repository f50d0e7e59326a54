"""Evaluations written in Python: the `agentv` fixture."""

import json
import re
from xml.etree import ElementTree

import pytest

HEAD = """
import pytest

HELLO = [{"name": "words", "type": "heuristic", "hits": ["hello"]}]
BYE = [{"name": "words", "type": "heuristic", "hits": ["goodbye"]}]

"""

MOCK = "targets: [{name: default, provider: mock, response: hello world}]\n"


def write_tests(project, body):
    project.write("test_evals.py", HEAD + body)


@pytest.fixture
def project(project):
    project.write("targets.yaml", MOCK)
    return project


MATRIX = """
def test_passes(agentv):
    assert agentv.run("Say hello", evaluators=HELLO)

def test_fails(agentv):
    assert agentv.run("Say hello", evaluators=BYE)

def test_asserts_itself(agentv):
    agentv.run("Say hello", evaluators=BYE, reference_answer="goodbye").assert_passed()

def test_errors(agentv):
    agentv.run("Say hello", evaluators=[{"name": "x", "type": "heuristc"}])

def test_expects_a_failure(agentv):
    assert not agentv.run("Say hello", evaluators=BYE)

def test_given(agentv):
    assert agentv.evaluate("hello to you", evaluators=HELLO)

@pytest.mark.parametrize("word", ["hello", "goodbye"])
def test_with_parameters(agentv, word):
    assert agentv.run("Say it", evaluators=[{"name": "words", "type": "heuristic", "hits": [word]}])

def test_plain():
    assert True
"""


def test_workers_run_python_evals_as_one_process_does(project):
    """`python-evals` of the corpus has the rest."""
    write_tests(project, MATRIX)
    run = project.run("--junitxml=junit.xml", mode=("-n", "2"))
    assert run.internals == []
    assert run.outcomes == {"passed": 5, "failed": 3, "errors": 1}
    assert run.statuses == {
        "test_passes": "pass",
        "test_fails": "fail",
        "test_asserts_itself": "fail",
        "test_errors": "error",
        "test_expects_a_failure": "fail",
        "test_given": "pass",
        "test_with_parameters[hello]": "pass",
        "test_with_parameters[goodbye]": "fail",
    }
    assert run.by_id["test_given"]["attempts"] == 0
    assert "Total eval cases: 8 (3 passed, 3 failed, 1 failed as expected, 1 error" in run.text
    properties = {
        case.get("name"): {each.get("name"): each.get("value") for each in case.iter("property")}
        for case in ElementTree.parse(project.path / "junit.xml").iter("testcase")
    }
    assert (properties["test_passes"]["agentv_score"], properties["test_plain"]) == ("1.0", {})


def test_evals_of_one_test_may_run_at_once_in_threads(project):
    """Each of five calls waits for the others."""
    write_tests(
        project,
        """
import threading
from concurrent.futures import ThreadPoolExecutor

@pytest.fixture
def agentv_provider():
    together = threading.Barrier(5)
    def answer(prompt):
        together.wait(timeout=60)
        return f"hello {prompt}"
    return answer

def test_many(agentv):
    with ThreadPoolExecutor(5) as pool:
        assert all(pool.map(lambda number: agentv.run(f"number {number}", evaluators=HELLO), range(5)))
""",
    )
    run = project.run()
    assert run.outcomes == {"passed": 1}
    assert sorted(run.by_id) == ["test_many", "test_many-2", "test_many-3", "test_many-4", "test_many-5"]


def test_what_a_test_asks_after_its_end_is_an_error_and_not_asked(project):
    write_tests(
        project,
        """
import threading

kept, ended = [], threading.Event()

@pytest.fixture
def agentv_provider():
    def answer(prompt):
        open("asked.txt", "a").write(prompt)
        return "hello"
    return answer

def test_leaves_a_thread(agentv):
    def ask():
        ended.wait(60)
        try:
            agentv.run("too late", evaluators=HELLO)
        except BaseException as error:
            kept.append(str(error))
    kept.append(threading.Thread(target=ask))
    kept[0].start()

def test_next():
    ended.set()
    kept[0].join()
    assert "asked after its test had ended" in kept[1]
""",
    )
    run = project.run()
    assert run.outcomes == {"passed": 2}
    assert run.exit_code == 1
    assert not (project.path / "asked.txt").exists()
    (result,) = run.results
    assert (result["eval_id"], result["error"]) == ("test_leaves_a_thread", "asked after its test had ended")
    assert "a case could not be judged, but its test went on, so the run fails" in run.text


@pytest.fixture
def ordered(project):
    """Run a test that asks questions in an order, each in a thread of its own or in that of the test."""
    project.write("test_evals.py", HEAD + """
import threading
from pathlib import Path

@pytest.fixture
def agentv_provider():
    def answer(prompt):
        with open("calls.txt", "a") as file:
            print(prompt, file=file)
        return "hello"
    return answer

def test_many(agentv):
    how, *words = Path("order.txt").read_text().split()
    for word in words:
        ask = lambda: agentv.run(word, evaluators=HELLO)
        if how == "threads":
            thread = threading.Thread(target=ask)
            thread.start()
            thread.join()
        else:
            ask()
""")  # fmt: skip

    def run(order, *flags):
        project.write("order.txt", order)
        project.write("calls.txt", "")
        run = project.run("--agentv-out=own.jsonl", *flags)
        assert run.outcomes == {"passed": 1}
        return run, (project.path / "calls.txt").read_text().split()

    return run


def asked_under(project):
    """Return what was asked under each id in the end."""
    lines = map(json.loads, (project.path / "own.jsonl").read_text().splitlines())
    return {each["eval_id"].removeprefix("test_many"): each["lm_provider_request"]["question"] for each in lines}


@pytest.mark.parametrize("how", ["threads", "in-order"])
def test_evaluations_that_come_in_another_order_keep_their_ids_and_results(project, ordered, how):
    run, asked = ordered(f"{how} a b c d")
    ids = {"": "a", "-2": "b", "-3": "c", "-4": "d"}
    assert (asked, asked_under(project)) == (["a", "b", "c", "d"], ids)
    written = (project.path / "own.jsonl").read_bytes()
    run, asked = ordered(f"{how} d c a b", "--agentv-resume=own.jsonl")
    assert (asked, (project.path / "own.jsonl").read_bytes()) == ([], written)
    assert "Reruns:" not in run.text
    assert "Total eval cases: 4 (4 passed, 0 failed, 0 errors)" in run.lines


def test_a_case_that_a_killed_run_lacks_takes_no_id_of_a_case_that_comes_later(project, ordered):
    ordered("threads a b d")
    run, asked = ordered("threads d c b a", "--agentv-resume=own.jsonl")
    assert (asked, asked_under(project)) == (["c"], {"": "a", "-2": "b", "-3": "d", "-4": "c"})
    assert "Total eval cases: 4 (4 passed, 0 failed, 0 errors)" in run.lines


def test_a_changed_case_of_a_test_without_threads_replaces_its_result(project, ordered):
    ordered("in-order a b c")
    _, asked = ordered("in-order a other c", "--agentv-resume=own.jsonl")
    assert (asked, asked_under(project)) == (["other"], {"": "a", "-2": "other", "-3": "c"})


def test_a_rerun_of_a_test_asks_anew(project):
    write_tests(
        project,
        """
@pytest.fixture(scope="module")
def answers():
    return iter(["no", "no", "hello"])

@pytest.fixture
def agentv_provider(answers):
    return lambda prompt: next(answers)

def test_one(agentv):
    assert agentv.run("Hi", evaluators=HELLO)
""",
    )
    run = project.run("--reruns=3")
    assert run.outcomes == {"passed": 1, "rerun": 2}
    assert [(result["eval_id"], result["status"]) for result in run.results] == [
        *(("test_one", "fail"), ("test_one", "fail")),
        ("test_one", "pass"),
    ]
    assert "Total eval cases: 1 (1 passed, 0 failed, 0 errors)" in run.text


def test_a_failed_health_check_ends_the_run(project):
    project.write(
        "targets.yaml",
        """
        targets:
          - name: default
            provider: cli
            command_template: echo hello
            healthcheck: {type: command, command_template: "exit 3"}
        """,
    )
    write_tests(
        project,
        "\ndef test_one(agentv):\n    agentv.run('Hi', evaluators=HELLO)\n\ndef test_two(): ...\n",
    )
    run = project.run()
    assert run.outcomes == {"errors": 1}
    assert "Interrupted: agentv: " in run.text


SUBTESTS = """
import unittest

import pytest

def test_parts(agentv, subtests):
    for word in ("hello", "nope", "world"):
        with subtests.test(word=word):
            assert agentv.run("hi", evaluators=[{"contains": word}])

class TestUnits(unittest.TestCase):
    @pytest.fixture(autouse=True)
    def run_evals(self, agentv):
        self.agentv = agentv

    def test_unit(self):
        for word in ("hello", "nope"):
            with self.subTest(word=word):
                assert self.agentv.run("hi", evaluators=[{"contains": word}])
"""


@pytest.mark.skipif(not hasattr(pytest, "Subtests"), reason="pytest has subtests since 9.0")
def test_the_figures_of_subtests_are_told_once_with_their_test(project):
    project.write("test_evals.py", SUBTESTS)
    run = project.run("--junitxml=j.xml", "--agentv-verbose")
    assert run.exit_code == pytest.ExitCode.TESTS_FAILED
    assert [result["status"] for result in run.results] == ["pass", "fail", "pass", "pass", "fail"]
    told = [line for line in run.lines if re.match(r"test_\w+(-\d)?: (pass|fail);", line.split("::")[-1])]
    assert len(told) == 5
    properties = ElementTree.parse(project.path / "j.xml").iter("property")
    assert [each.get("name") for each in properties if each.get("name", "").startswith("agentv_status")] == []


def test_a_given_answer_that_no_record_can_hold_says_what_is_wrong_with_it(project):
    project.write(
        "test_given.py",
        """
        import pytest
        from pytest_agentv import Message, ProviderResponse, ToolCall

        LOOP = {}
        LOOP["self"] = LOOP

        @pytest.mark.parametrize(
            ("answer", "fault"),
            [
                (ProviderResponse((Message("assistant", "hi", (ToolCall("t", input=LOOP),)),)), "'t' are nested"),
                ({"a": [10**5000]}, "content of a message hold a whole number of more than 4300 digits"),
            ],
            ids=["loop", "digits"],
        )
        def test_given(agentv, answer, fault):
            with pytest.raises(ValueError, match=fault):
                agentv.evaluate(answer, evaluators=[{"contains": "hi"}])
        """,
    )
    assert project.run().outcomes == {"passed": 2}
