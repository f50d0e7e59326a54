"""Evaluations written in Python: the `agentv` fixture."""

import json
import logging
import re
import subprocess
import sys
import threading
from xml.etree import ElementTree

import pytest
from busy import still_alive

from .conftest import OTHER_PLUGINS, WITH_WORKERS_ON_REQUEST

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


@pytest.fixture
def any_mode(project_in_all_modes):
    project_in_all_modes.write("targets.yaml", MOCK)
    return project_in_all_modes


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


def test_python_evals_pass_fail_and_error_and_are_recorded(any_mode):
    project = any_mode
    write_tests(project, MATRIX)
    run = project.run("-rA", "--junitxml=junit.xml")
    assert run.internals == []
    assert run.outcomes == {"passed": 5, "failed": 3, "errors": 1}
    assert run.exit_code == pytest.ExitCode.TESTS_FAILED
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
    first = run.by_id["test_passes"]
    assert (first["eval_file"], first["node_id"], first["dataset"]) == (
        "test_evals.py",
        "test_evals.py::test_passes",
        "test_evals",
    )
    lines = (project.path / "test_evals.py").read_text().splitlines()
    assert lines[first["line"] - 1] == "def test_passes(agentv):"
    assert run.by_id["test_given"]["attempts"] == 0
    assert "ERROR test_evals.py::test_errors - line 16: type: did you mean 'heuristic'? (" in run.text
    assert "Total eval cases: 8 (3 passed, 3 failed, 1 failed as expected, 1 error" in run.text
    assert "nothing looks at its verdict" not in run.text
    tree = ElementTree.parse(project.path / "junit.xml")
    properties = {
        case.get("name"): {each.get("name"): each.get("value") for each in case.iter("property")}
        for case in tree.iter("testcase")
    }
    assert properties["test_passes"]["agentv_score"] == "1.0"
    assert properties["test_plain"] == {}


IGNORED = """
def test_forgets(agentv):
    print(agentv.run("Say hello", evaluators=BYE))

def test_decides(agentv):
    assert agentv.run("Say hello", evaluators=BYE).score == 0

def test_forgets_one(agentv):
    assert not agentv.run("Say hello", evaluators=BYE)
    agentv.run("Say hello", evaluators=BYE)

def test_passes(agentv):
    agentv.run("Say hello", evaluators=HELLO)

def test_decides_beside_an_error(agentv):
    assert not agentv.run("Say hello", evaluators=BYE)
    with pytest.raises(Exception):
        agentv.run("Say hello", evaluators=[{"name": "x", "type": "heuristc"}])

@pytest.fixture
def evaluated(agentv):
    result = agentv.run("Say hello", evaluators=BYE)
    yield
    assert not result

def test_decides_at_its_end(evaluated):
    pass

def test_fails(agentv):
    assert agentv.run("Say hello", evaluators=BYE)
"""


def test_a_test_that_passes_without_a_look_at_a_failed_evaluation_is_told(any_mode):
    """Such a test passes whatever the answer is."""
    write_tests(any_mode, IGNORED)
    run = any_mode.run()
    assert run.outcomes == {"passed": 6, "failed": 1}
    assert "Total eval cases: 9 (1 passed, 4 failed, 3 failed as expected, 1 error)" in run.text
    assert "a case could not be judged, but its test went on, so the run fails: " in run.text
    told = next(line for line in run.lines if "looks at its verdict" in line)
    assert told.partition(": ")[0] == (
        "2 tests passed although an evaluation failed, because nothing looks at its verdict"
    )
    assert {"test_evals.py::test_forgets", "test_evals.py::test_forgets_one"} == set(re.findall(r"\S+::\w+", told))
    assert "(write `assert agentv.run(…)`, or call `.assert_passed()`)" in told


def test_a_failed_assertion_says_in_a_line_what_fell_short_and_below_everything(project):
    write_tests(
        project,
        """
def test_fails(agentv):
    assert agentv.run("Say hello", id="greeting", evaluators=BYE, reference_answer="goodbye, friend", threshold=0.8)
""",
    )
    run = project.run()
    reason = "greeting: score 0.000 < 0.800; words 0.000: missing: goodbye"
    assert f"E       AssertionError: assert {reason}" in run.lines
    assert "FAILED test_evals.py::test_fails - AssertionError: assert greeting: score" in run.text
    section = run.text.partition("Captured agentv call")[2]
    assert "Score 0.000 is below the threshold 0.800 (written in the case)" in section
    assert "Answer (11 characters):\n  hello world\n\nReference answer (15 characters):\n  goodbye, friend" in section
    assert "Case:   test_evals.py:7" in section
    assert "Rerun:  pytest test_evals.py::test_fails" in section
    assert run.text.count("Score 0.000 is below") == 1


def test_assert_passed_raises_the_whole_account_once_and_no_frame_of_ours(project):
    write_tests(project, "\ndef test_fails(agentv):\n    agentv.run('Hi', evaluators=BYE).assert_passed()\n")
    run = project.run()
    assert "E       pytest_agentv.session.outcomes.EvalFailed: Score 0.000 is below the threshold 1.000" in run.text
    assert "FAILED test_evals.py::test_fails - test_fails: score 0.000 < 1.000" in run.text
    assert run.text.count("Score 0.000 is below") == 1
    assert not any("pytest_agentv/" in line for line in run.lines)


def test_an_error_is_shown_at_the_users_line_and_in_the_errors_of_the_run(project):
    write_tests(project, "\ndef test_errors(agentv):\n    assert agentv.run('Hi', evaluatrs=1)\n")
    assert "unexpected keyword argument 'evaluatrs'" in project.run().text
    project.write("targets.yaml", "targets: [{name: default, provider: python, callable: 'agent.py:answer'}]\n")
    project.write("agent.py", "def answer(prompt):\n    raise RuntimeError('down')\n")
    write_tests(project, "\ndef test_errors(agentv):\n    assert agentv.run('Hi', evaluators=HELLO)\n")
    run = project.run("-v")
    assert run.outcomes == {"errors": 1}
    assert run.exit_code == pytest.ExitCode.TESTS_FAILED
    assert re.search(r"test_evals.py::test_errors ERROR", run.text)
    assert "ERROR at call of test_errors" in run.text
    assert ">       assert agentv.run('Hi', evaluators=HELLO)" in run.lines
    assert "The target gave no answer (crash)" in run.text
    assert "ERROR test_evals.py::test_errors - agent.py:answer raised RuntimeError: down" in run.text
    assert not any("pytest_agentv/" in line for line in run.lines)


PROMPTS = [
    '"Say hello"',
    '[{"role": "system", "content": "Be kind"}, {"role": "user", "content": "Say hello"}]',
    '{"input": "Say hello", "criteria": "is kind"}',
    '{"id": "one", "input_messages": ({"role": "user", "content": "Say hello"},), "outcome": "x"}',
    '{"input": "Say hello", "criteria": "x", "execution": {"evaluators": [{"name": "n", "type": "nothing"}]}}',
]


def test_a_run_with_an_error_that_its_test_caught_is_not_green(any_mode):
    write_tests(
        any_mode,
        """
        def test_catches(agentv):
            try:
                agentv.run("Say hello", evaluators=[{"name": "x", "type": "heuristc"}])
            except Exception:
                pass

        def test_passes(agentv):
            assert agentv.run("Say hello", evaluators=HELLO)
        """.replace("\n        ", "\n"),
    )
    run = any_mode.run()
    assert (run.exit_code, run.outcomes) == (1, {"passed": 2})
    said = "a case could not be judged, but its test went on, so the run fails: test_evals.py::test_catches"
    assert run.lines.count(said) == 1
    assert any_mode.run("-k", "passes").exit_code == 0


def test_a_prompt_is_a_text_messages_or_a_case(project):
    asked = (
        f"def test_{number}(agentv):\n    assert agentv.run({prompt}, evaluators=HELLO)\n"
        for number, prompt in enumerate(PROMPTS)
    )
    write_tests(project, "\n".join(asked))
    run = project.run("-W", "error")
    assert run.outcomes == {"passed": len(PROMPTS)}
    assert all("Say hello" in json.dumps(result["lm_provider_request"]) for result in run.results)
    assert len(run.results) == len(PROMPTS)


def test_a_case_has_the_aliases_the_warnings_and_the_faults_of_eval_files(project):
    write_tests(
        project,
        """
def test_warns(agentv):
    assert agentv.run({"input": "Hi", "criteria": "x", "asserts": []}, evaluators=HELLO)

def test_errs(agentv):
    agentv.run({"input": [{"role": "usr", "content": "Hi"}], "criteria": "x"}, evaluators=HELLO)

def test_lacks_an_outcome(agentv):
    agentv.run("Hi")

def test_has_an_odd_id(agentv):
    agentv.run({"id": 5, "input": "Hi", "criteria": "x"}, evaluators=HELLO)
""",
    )
    run = project.run()
    assert run.outcomes["passed"] == 1
    assert run.outcomes["errors"] == 3
    assert "test_evals.py:7: asserts: unknown key (did you mean 'assert'?)" in run.text
    assert run.by_id["test_errs"]["error"] == (
        "test_evals.py:10: input[0].role: expected one of system, user, assistant, tool, got the text 'usr' "
        "(did you mean 'user'?)"
    )
    assert run.by_id["test_lacks_an_outcome"]["error"] == (
        "test_evals.py:13: expected_outcome: is missing: expected a non-empty text"
    )
    assert run.by_id["test_has_an_odd_id"]["error"] == (
        "test_evals.py:16: id: expected a non-empty text, got the number 5 (put it into quotes as it is written)"
    )


def test_a_case_may_skip_its_test_and_other_keys_for_pytest_give_a_warning(project):
    """They were dropped silently, and a skipped case was paid for."""
    project.write("targets.yaml", "targets: [{name: default, provider: mock, response: hello}]\n")
    write_tests(
        project,
        """
def test_skips(agentv):
    agentv.run({"input": "Hi", "skip": "costs too much"}, evaluators=HELLO)

def test_skips_too_late(agentv):
    agentv.run("Hi", evaluators=BYE)
    agentv.run({"input": "Hi", "skip": "costs too much"}, evaluators=HELLO)

def test_does_not_skip(agentv):
    assert agentv.run({"input": "Hi", "skip": False, "xfail": False, "marks": [], "tags": "polite"}, evaluators=HELLO)

def test_warns(agentv):
    case = {"input": "Hi", "xfail": "too hard", "marks": "slow", "fixtures": ["shop"]}
    assert agentv.run(case, evaluators=HELLO)
""",
    )
    run = project.run("-rs")
    assert run.outcomes == {"passed": 2, "skipped": 1, "failed": 1, "warnings": 3}
    assert run.statuses == {"test_skips_too_late": "fail", "test_does_not_skip": "pass", "test_warns": "pass"}
    fault = "a case with `skip` (costs too much) follows another one in its test: give it a test of its own"
    assert f"ValueError: {fault}" in run.text
    assert [line for line in run.lines if line.startswith("SKIPPED")] == ["SKIPPED [1] test_evals.py:8: costs too much"]
    for key, instead in (
        ("xfail", "mark the test with pytest.mark.xfail"),
        ("marks", "mark the test"),
        ("fixtures", "let the test request them"),
    ):
        assert f"test_evals.py:17: {key}: has no effect in a test ({instead})" in run.text
    assert project.run("-k", "test_warns", "--agentv-strict").outcomes["errors"] == 1


def test_files_are_looked_up_from_the_tests_folder(project):
    project.write("sub/policy.txt", "Within 30 days.")
    project.write(
        "sub/test_files.py",
        HEAD + "\ndef test_one(agentv):\n    assert agentv.run('Read this', files=['policy.txt'], evaluators=HELLO)\n"
        "\ndef test_missing(agentv):\n    agentv.run('Read this', files=['other.txt'], evaluators=HELLO)\n",
    )
    run = project.run()
    assert run.outcomes == {"passed": 1, "errors": 1}
    assert "Within 30 days." in json.dumps(run.by_id["test_one"]["lm_provider_request"])
    assert "'other.txt' was not found; searched: sub/other.txt" in run.by_id["test_missing"]["error"]


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


def test_results_of_one_test_have_ids_of_their_own(project):
    write_tests(
        project,
        """
def test_many(agentv):
    for _ in range(3):
        agentv.run("Hi", evaluators=HELLO)
    agentv.run("Hi", evaluators=HELLO, id="named")
    agentv.run({"id": "named", "input": "Hi", "criteria": "x"}, evaluators=HELLO)
    agentv.run("Hi", evaluators=[{"name": "none", "type": "heuristic", "hits": ["nowhere"]}], id="bad")
""",
    )
    run = project.run()
    assert [result["eval_id"] for result in run.results] == [
        *("test_many", "test_many-2", "test_many-3"),
        *("named", "named-2", "bad"),
    ]
    assert "Total eval cases: 6 (5 passed, 1 failed, 0 errors)" in run.text
    listed = [
        line.split(maxsplit=2)[2] for line in run.text.splitlines() if "::test_many" in line and ". 1.000" in line
    ]
    assert f"{run.results[0]['eval_file']}::test_many" in listed
    assert {"(test_many-2)", "(test_many-3)"} <= {name.split()[-1] for name in listed}, "each can be told apart"


@pytest.mark.parametrize(
    ("flags", "keyword", "expected"),
    [
        ((), "", (1.0, "default")),
        (("-o", "agentv_threshold=0.25"), "", (0.25, "ini")),
        (("-o", "agentv_threshold=0.25"), ", threshold=0.5", (0.5, "case")),
        (("--agentv-threshold=0.75",), ", threshold=0.5", (0.75, "command line")),
    ],
)
def test_thresholds_have_the_precedence_of_eval_files(project, flags, keyword, expected):
    write_tests(project, f"\ndef test_one(agentv):\n    assert agentv.run('Hi', evaluators=HELLO{keyword})\n")
    (result,) = project.run(*flags).results
    assert (result["threshold"], result["threshold_source"]) == expected


def test_a_given_answer_is_judged_with_its_tool_calls_and_its_figures(project):
    write_tests(
        project,
        """
from pytest_agentv.model.messages import Message
from pytest_agentv.providers.base import ProviderResponse

CALLS = [{"name": "tools", "type": "tool_trajectory", "mode": "exact", "expected": [{"tool": "search"}]}]
CHEAP = [{"name": "cheap", "type": "cost", "budget": 0.01}]
SAFE = [{"not-tool-called": "rm"}]

def test_text(agentv):
    with pytest.raises(Exception, match="No trace available"):
        agentv.evaluate("found", evaluators=SAFE)  # nobody knows what led to a text
    with pytest.raises(Exception, match="No trace available"):
        agentv.evaluate("found", output_messages=[], evaluators=SAFE)

def test_no_calls(agentv):
    said = [{"role": "assistant", "content": "found"}]
    assert agentv.evaluate("found", output_messages=said, evaluators=SAFE)

def test_tools(agentv):
    messages = [{"role": "assistant", "tool_calls": [{"tool": "search", "input": {"q": "x"}}]}]
    assert agentv.evaluate("found", output_messages=messages, evaluators=CALLS)

def test_null(agentv):
    assert agentv.evaluate("", output_messages=[{"role": "assistant", "content": None}], evaluators=SAFE)

def test_data(agentv):
    fields = [{"name": "f", "type": "field_accuracy", "fields": [{"path": "a", "match": "exact"}]}]
    expected = [{"role": "assistant", "content": {"a": 1}}]
    assert agentv.evaluate({"a": 1}, expected_messages=expected, evaluators=fields)

def test_response(agentv):
    response = ProviderResponse(output_messages=(Message("assistant", "hello"),), cost_usd=1.0)
    assert not agentv.evaluate(response, evaluators=CHEAP)

def test_lists(agentv):
    response = ProviderResponse(output_messages=[Message("user", "q"), Message("assistant", "hello")])
    assert type(agentv.evaluate(response, evaluators=HELLO).output_messages) is tuple

def test_nonsense(agentv):
    with pytest.raises(TypeError, match="expected an answer: a text, data or a ProviderResponse, got int"):
        agentv.evaluate(5, evaluators=HELLO)
    with pytest.raises(TypeError, match="got a ProviderResponse whose output_messages is a str: expected a tuple of"):
        agentv.evaluate(ProviderResponse(output_messages="x"), evaluators=HELLO)
    with pytest.raises(ValueError, match="output_messages: output_messages.0.role: Field required"):
        agentv.evaluate("x", output_messages=[{}], evaluators=HELLO)
    with pytest.raises(TypeError, match="expected a text, a list of messages or a case, got int"):
        agentv.run(5)
    for files in ("notes.md", 5):
        with pytest.raises(TypeError, match=f"files: expected a list of paths, got {files!r}"):
            agentv.run("x", files=files)
    with pytest.raises(TypeError, match="files= goes with a prompt that is a text"):
        agentv.run([], files=["x"])
""",
    )
    project.write("targets.yaml", "targets: [broken\n")
    run = project.run()
    assert run.outcomes == {"passed": 8}
    assert run.by_id["test_text"]["status"] == "error"
    assert run.by_id["test_tools"]["candidate_answer"] == "found"
    assert "is blank" not in run.text  # no target is asked
    assert run.by_id["test_data"]["candidate_answer"] == '{"a":1}'
    assert run.by_id["test_response"]["execution_metrics"] == {"cost_usd": 1}


def test_a_wrong_argument_is_shown_at_the_users_line_without_frames_of_ours(project):
    calls = (
        *("agentv.run(None)", "agentv.run([], files=['x'])", "agentv.run('x', files=[5])", "agentv.evaluate(5)"),
        *("agentv.evaluate('x', output_messages=[{}])", "agentv.evaluate('x', output_messages=[5])"),
    )
    write_tests(project, "".join(f"def test_{number}(agentv):\n    {call}\n" for number, call in enumerate(calls)))
    run = project.run()
    assert run.outcomes == {"failed": len(calls)}
    assert [line for line in run.lines if "pytest_agentv" in line] == []


def test_resume_carries_python_evals_over_and_asks_again_what_changed(project):
    project.write(
        "conftest.py",
        """
        import pytest

        @pytest.fixture
        def agentv_provider():
            def answer(prompt):
                with open("calls.txt", "a") as file:
                    print(prompt, file=file)
                return "hello"
            return answer
        """,
    )
    body = """
def test_run(agentv):
    assert agentv.run("one", evaluators=HELLO)

def test_given(agentv):
    assert agentv.evaluate("hello 1", evaluators=HELLO)
"""
    write_tests(project, body)
    first = project.run()
    assert first.outcomes == {"passed": 2}
    resumed = project.run("--agentv-resume=out-1.jsonl")
    assert [each["timestamp"] for each in resumed.results] == [each["timestamp"] for each in first.results]
    write_tests(project, body.replace('"one"', '"two"').replace("hello 1", "hello 2"))
    again = project.run("--agentv-resume=out-1.jsonl")
    assert not {each["timestamp"] for each in again.results} & {each["timestamp"] for each in first.results}
    assert (project.path / "calls.txt").read_text().split() == ["one", "two"]


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


def test_the_cache_holds_for_python_evals_of_a_target(project):
    project.write(
        "targets.yaml",
        "targets: [{name: default, provider: cli, command_template: 'echo call >> calls.txt; echo hello'}]\n",
    )
    write_tests(project, "\ndef test_one(agentv):\n    assert agentv.run('Hi', evaluators=HELLO)\n")
    assert [project.run("--agentv-cache").results[0].get("cached") for _ in range(2)] == [None, True]
    assert (project.path / "calls.txt").read_text().split() == ["call"]


def test_a_dry_run_passes_and_calls_nothing(project):
    project.write("targets.yaml", "targets: [{name: default, provider: cli, command_template: 'touch called'}]\n")
    write_tests(
        project,
        """
def test_run(agentv):
    assert agentv.run("Hi", expected_outcome="x")

def test_given(agentv):
    assert agentv.evaluate("no", expected_outcome="x")
""",
    )
    run = project.run("--agentv-dry-run")
    assert run.outcomes == {"passed": 2}
    assert run.by_id["test_given"]["candidate_answer"] == "no"
    assert not (project.path / "called").exists()


def test_the_target_of_a_test_may_be_parametrized(project):
    project.write("targets.yaml", "targets: [{name: a, provider: mock, response: I am a}, {name: b, provider: mock}]\n")
    write_tests(
        project,
        """
@pytest.fixture(params=["a", "b"])
def agentv_target(request):
    return request.param

def test_one(agentv):
    assert agentv.run("Who?", evaluators=[{"name": "n", "type": "heuristic", "hits": ["I am a"]}])
""",
    )
    for flags in ((), ("--agentv-target=b",)):
        run = project.run(*flags)
        assert run.outcomes == {"passed": 1, "failed": 1}
        assert {each["eval_id"]: each["target"] for each in run.results} == {"test_one[a]": "a", "test_one[b]": "b"}


def test_the_target_is_that_of_the_command_line_then_of_the_case(project):
    project.write("targets.yaml", MOCK.replace("]", ", {name: x, provider: mock}, {name: y, provider: mock}]"))
    case = '{"input": "Hi", "criteria": "c", "target": "x"}'
    write_tests(project, f"\ndef test_one(agentv):\n    agentv.run({case}, evaluators=HELLO)\n")
    assert project.run().results[0]["target"] == "x"
    assert project.run("--agentv-target=y").results[0]["target"] == "y"
    assert project.run("-o", "agentv_target=y").results[0]["target"] == "y"


def test_the_other_fixtures_hand_out_options_targets_and_the_target_itself(project, monkeypatch):
    project.write(
        "targets.yaml",
        """
        targets:
          - {name: default, provider: mock, response: hello}
          - {name: model, provider: openai, model: gpt, api_key: written-down, base_url: "${{ URL }}"}
        """,
    )
    write_tests(
        project,
        """
def test_values(agentv_options, agentv_targets, agentv_target, agentv_provider, agentv_judge):
    assert agentv_options.threshold == 0.5
    assert set(agentv_targets) == {"default", "model"}
    model = agentv_targets["model"]
    assert (model.kind, model.values["model"], model.values["base_url"]) == ("openai", "gpt", "${{ URL }}")
    assert "written-down" not in str(model.values)
    assert agentv_target == "default"
    assert agentv_provider("Hi").output_messages[-1].content == "hello"
    assert agentv_judge is None

def test_both(agentv, agentv_provider):
    assert agentv.evaluate(agentv_provider("Hi"), evaluators=HELLO)
""",
    )
    run = project.run("--agentv-threshold=0.5")
    assert run.outcomes == {"passed": 2}
    assert len(run.results) == 1


@pytest.mark.parametrize(
    ("fixture", "flags", "message"),
    [
        ("agentv_options", ("-o", "agentv_workers=0"), "agentv_workers: "),
        ("agentv_targets", ("--agentv-targets=nowhere.yaml",), "nowhere.yaml: there is no such targets file"),
    ],
)
def test_a_fixture_that_cannot_be_made_says_why_in_a_line(project, fixture, flags, message):
    project.write("pytest.ini", "[pytest]\n")
    write_tests(project, f"\ndef test_one({fixture}): ...\n")
    run = project.run(*flags)
    assert run.outcomes == {"errors": 1}
    assert message in run.text
    assert run.internals == []


def test_a_target_that_does_not_answer_raises_without_a_traceback_of_ours(project):
    project.write("targets.yaml", "targets: [{name: default, provider: cli, command_template: 'exit 3'}]\n")
    write_tests(project, "\ndef test_one(agentv_provider):\n    agentv_provider('Hi')\n")
    run = project.run()
    assert run.outcomes == {"failed": 1}
    assert "ProviderError: " in run.text
    assert not any("pytest_agentv/" in line for line in run.lines)


def test_a_reply_without_an_answer_raises_as_well(project):
    target = {"name": "default", "provider": "mock", "response": "", "finish_reason": "content_filter"}
    project.write("targets.yaml", json.dumps({"targets": [target]}))
    write_tests(
        project,
        """
def test_direct(agentv_provider):
    with pytest.raises(Exception, match="the target gave no answer: a content filter stopped it") as caught:
        agentv_provider("Hi")
    assert caught.value.kind == "no_answer"
""",
    )
    assert project.run().outcomes == {"passed": 1}


def our_threads():
    return {thread for thread in threading.enumerate() if thread.name.startswith("agentv")}


def test_a_run_that_only_asks_a_target_leaves_nothing_behind_in_its_process(project):
    project.write("targets.yaml", "targets: [{name: default, provider: mock, response: hello}]\n")
    write_tests(project, "\ndef test_one(agentv_provider):\n    assert agentv_provider('Hi').output_messages\n")
    handlers, threads = list(logging.getLogger().handlers), our_threads()
    run = project.run()
    assert run.outcomes == {"passed": 1}
    assert "EVALUATION SUMMARY" not in run.text
    assert logging.getLogger().handlers == handlers
    assert still_alive(our_threads() - threads) == []


def test_hooks_hold_for_python_evals_as_well(project):
    project.write(
        "conftest.py",
        """
        def note(*words):
            with open("notes.txt", "a") as file:
                print(*words, file=file)

        def pytest_agentv_case(case):
            note("case")
            return case.replace(threshold=0.5)

        def pytest_agentv_response(case, response):
            note("response")

        def pytest_agentv_assert(case, result):
            note("assert", result.threshold)
            return "I say no"

        def pytest_agentv_result(case, result):
            note("result", result.assertion)

        def pytest_agentv_summary(results):
            note("summary", len(results))
        """,
    )
    write_tests(project, "\ndef test_one(agentv):\n    assert agentv.run('Hi', evaluators=HELLO)\n")
    run = project.run()
    assert run.outcomes == {"failed": 1}
    assert "AssertionError: assert test_one: fail: I say no" in run.text
    notes = (project.path / "notes.txt").read_text().splitlines()
    assert notes == ["case", "response", "assert 0.5", "result I say no", "summary 1"]


@WITH_WORKERS_ON_REQUEST
def test_python_evals_and_eval_files_run_side_by_side(any_mode, suite):
    project = any_mode
    project.write("qa.eval.yaml", suite(a="hello", b="nothing"))
    write_tests(project, "\ndef test_one(agentv):\n    assert agentv.run('Hi', evaluators=HELLO)\n")
    run = project.run("--agentv-workers=2")
    assert run.outcomes == {"passed": 2, "failed": 1}
    assert "Total eval cases: 3 (2 passed, 1 failed, 0 errors)" in run.text


def test_verbose_runs_tell_of_python_evals_too(project):
    write_tests(project, "\ndef test_one(agentv):\n    assert agentv.run('Hi', evaluators=HELLO)\n")
    assert "test_evals.py::test_one: pass; target default, 1 attempt" in project.run("--agentv-verbose").text


def test_secrets_are_masked_in_what_a_failing_test_shows(project, monkeypatch):
    monkeypatch.setenv("MY_API_KEY", "s3cret-value")
    project.write("targets.yaml", MOCK.replace("hello world", "the key is s3cret-value"))
    write_tests(project, "\ndef test_one(agentv):\n    assert agentv.run('Hi', evaluators=BYE, id='of s3cret-value')\n")
    run = project.run()
    assert "the key is ***" in run.text
    assert "assert of ***: score 0.000 < 1.000" in run.text
    named = [line.replace("of s3cret-value", "") for line in run.lines]
    assert [line for line in named if "s3cret-value" in line] == [], "only the name of the case is never masked"


def test_without_the_plugin_the_fixture_is_not_found(project, pytester):
    write_tests(project, "\ndef test_one(agentv): ...\n")
    finished = pytester.runpytest_inprocess("-p", "no:agentv")
    finished.assert_outcomes(errors=1)
    finished.stdout.fnmatch_lines("*fixture 'agentv' not found")


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


def test_the_short_summary_says_why_a_fixture_could_not_evaluate(project):
    project.write("targets.yaml", "targets: [{name: default, provider: mock, response: hello}]\n")
    project.write(
        "test_fixtures.py",
        """
        import pytest

        @pytest.fixture
        def before(agentv):
            agentv.run("x", evaluators=[{"contains": 30}])

        @pytest.fixture
        def after(agentv):
            yield
            agentv.run("x", evaluators=[{"contains": 30}])

        def test_before(before): ...

        def test_after(after): ...
        """,
    )
    run = project.run(mode=())
    summary = [line for line in run.lines if line.startswith("ERROR test_fixtures.py")]
    assert [line.partition(" - ")[2][:8] for line in summary] == ["line 12:", "line 14:"]


NEXT = "=== the next run ===\n"
BOTH_WAYS = f"""
import sys
import pytest

flags = sys.argv[1:]
pytest.main([*flags, "--assert=plain"])
print({NEXT!r}, end="", flush=True)
for name in ("test_evals", "test_without"):
    del sys.modules[name]
pytest.main([*flags, "-Wignore:Module already imported:pytest.PytestAssertRewriteWarning", "test_evals.py"])
"""


def test_a_test_whose_assertions_python_leaves_out_is_an_error_and_asks_nothing(project):
    """It was green, whatever the answer, and `assert agentv.run(…)` was not even asked."""
    write_tests(project, "def test_it(agentv):\n    assert agentv.run('Say hello', evaluators=BYE)\n")
    checked = "def test_checked(agentv):\n    agentv.run('Say hello', evaluators=BYE).assert_passed()\n"
    project.write("test_without.py", HEAD + checked)
    flags = [*OTHER_PLUGINS, "-p", "no:cacheprovider", "--agentv-out=out.jsonl"]
    command = [sys.executable, "-O", "-c", BOTH_WAYS, *flags]
    runs = subprocess.run(command, cwd=project.path, capture_output=True, text=True, check=False).stdout.split(NEXT)
    assert "1 failed, 1 warning, 1 error in" in runs[0]
    assert "test_evals.py:7: Python leaves out each `assert` (-O or PYTHONOPTIMIZE, with --assert=plain)" in runs[0]
    assert "1 failed, 1 warning in" in runs[1]
    ids = [json.loads(line)["eval_id"] for line in (project.path / "out.jsonl").read_text().splitlines()]
    assert ids == ["test_checked", "test_it"]


@pytest.mark.parametrize(("head", "line"), [("class TestShop(SharedEvals): ...", 3), ("TestShop = SharedEvals", 1)])
def test_an_inherited_test_has_a_line_of_its_own_file(project, head, line):
    body = "        agentv.run('hi', evaluators=[{'contains': 'nope'}]).assert_passed()\n"
    project.write("base_evals.py", "#\n" * 9 + f"class SharedEvals:\n    def test_echo(self, agentv):\n{body}")
    project.write("test_x.py", f"from base_evals import SharedEvals\n\n{head}\n")
    run = project.run("-o", "pythonpath=.")
    (record,) = run.results
    assert (record["eval_file"], record["line"]) == ("test_x.py", line)
    assert f"E       Case:   test_x.py:{line}" in run.lines


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
