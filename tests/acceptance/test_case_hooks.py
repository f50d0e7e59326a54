"""The hooks of conftest files around cases: adjust, see the response, decide, see the result, see the run."""

import pytest

MOCK = "targets: [{name: default, provider: mock, response: hello world}]\n"


def prepared(project, suite):
    project.write("targets.yaml", MOCK)
    project.write("qa.eval.yaml", suite(a="hello", b="nothing"))
    return project


@pytest.fixture
def project(project, suite):
    return prepared(project, suite)


def notes(project, name="notes.txt"):
    path = project.path / name
    return sorted(path.read_text().splitlines()) if path.exists() else []


def test_with_workers_every_hook_sees_each_case_once_and_the_summary_the_whole_run(project):
    project.write(
        "conftest.py",
        """
        def note(*words):
            with open("notes.txt", "a") as file:
                print(*words, file=file)

        def pytest_agentv_case(case):
            note("case", case.eval_id)

        def pytest_agentv_response(case, response):
            note("response", case.eval_id, response.output_messages[-1].content)

        def pytest_agentv_assert(case, result):
            note("assert", case.eval_id, result.score, result.status, result.duration_ms is not None)

        def pytest_agentv_result(case, result):
            note("result", case.eval_id, result.status, result.line)

        def pytest_agentv_summary(results):
            note("summary", *(result.eval_id for result in results))
        """,
    )
    run = project.run(mode=("-n", "2"))
    assert run.statuses == {"a": "pass", "b": "fail"}
    assert "assertion" not in run.by_id["a"]
    assert notes(project) == [
        "assert a 1.0 pass True",
        "assert b 0.0 fail True",
        "case a",
        "case b",
        "response a hello world",
        "response b hello world",
        "result a pass 2",
        "result b fail 6",
        "summary a b",
    ]


def test_a_blocking_hook_holds_up_its_own_case_only(project, suite):
    """Each of ten hooks waits until all ten are called: they would wait for ever if one held up the others."""
    project.write("qa.eval.yaml", suite(**{f"c{number}": "hello" for number in range(10)}))
    project.write(
        "conftest.py",
        """
        import threading

        together = threading.Barrier(10)

        def pytest_agentv_response(case):
            together.wait(timeout=60)

        def pytest_agentv_assert(case):
            together.wait(timeout=60)

        def pytest_agentv_result(case):
            together.wait(timeout=60)
        """,
    )
    run = project.run("--agentv-workers=10")
    assert run.outcomes == {"passed": 10}


@pytest.mark.parametrize("body", ["return case.replace(question='other')", "raise RuntimeError"])
def test_a_case_that_a_hook_changed_is_not_carried_over_from_before(project, body):
    project.run()
    project.write("conftest.py", f"def pytest_agentv_case(case):\n    if case.eval_id == 'a':\n        {body}\n")
    run = project.run("--agentv-resume=out-1.jsonl")
    assert [result["eval_id"] for result in run.results] == ["a", "b"]
    run_ids = {result["eval_id"]: result["timestamp"] for result in run.results}
    before = {result["eval_id"]: result["timestamp"] for result in project.run("--agentv-resume=out-1.jsonl").results}
    assert run_ids["b"] == before["b"], "what was not changed is carried over"
    assert run_ids["a"] != before["a"]


def test_what_a_hook_logs_belongs_to_its_case(project, suite):
    project.write("qa.eval.yaml", suite(a="hello", b="nothing", c="hello"))
    project.write(
        "conftest.py",
        """
        import logging

        def pytest_agentv_response(case):
            logging.warning("response of %s", case.eval_id)

        def pytest_agentv_result(case):
            logging.warning("result of %s", case.eval_id)
        """,
    )
    text = project.run("--agentv-workers=3").text
    assert "response of b" in text
    assert "result of b" in text
    assert "of a" not in text, "only the failed case is shown"
