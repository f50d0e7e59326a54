"""Targets that cannot be used: told before anything is invoked, and only to the cases that need them."""

import os
import sys

import pytest


def case(eval_id, target=None, evaluators="[{name: words, type: heuristic, hits: [hello]}]"):
    lines = [f"  - id: {eval_id}", "    expected_outcome: says hello", "    input: Say hello"]
    lines += [f"    target: {target}"] if target else []
    lines += [f"    evaluators: {evaluators}"] if evaluators else []
    return "\n".join(lines) + "\n"


def errors(run):
    """Return the errors of the results by id, each with its stage and kind."""
    return {
        result["eval_id"]: (result["error"], result["error_detail"]["stage"], result["error_detail"]["kind"])
        for result in run.results
        if result["status"] == "error"
    }


@pytest.fixture
def one_case(project):
    project.write("a.eval.yaml", "evalcases:\n" + case("one"))
    return project


def test_a_health_check_of_a_server_that_is_not_there_ends_the_run(one_case):
    check = "{type: http, url: 'http://127.0.0.1:9/health', timeout_seconds: 2}"
    one_case.write(
        "targets.yaml",
        f"targets: [{{name: default, provider: cli, command_template: touch ran, healthcheck: {check}}}]\n",
    )
    run = one_case.run()
    ((message, *kind),) = errors(run).values()
    assert message.startswith(
        "CLI healthcheck failed for 'default': no whole reply from GET http://127.0.0.1:9/health: Cannot connect"
    )
    assert kind == ["setup", "network"]
    assert (run.exit_code, run.internals) == (2, [])
    assert not (one_case.path / "ran").exists()


FUNCTIONS = """
import asyncio, time


def fine(prompt): return "hello"
def raises(prompt): raise ValueError("no key")
def nonsense(prompt): return {"answer": "hello"}
def no_json(prompt): return {"text": {1, 2}}
def hangs(prompt): time.sleep(1)
async def waits(prompt): await asyncio.sleep(60)
"""

PYTHON_FAULTS = {
    "raises": (
        "target 'raises': functions.py:raises raised ValueError: no key\n  functions.py:5 in raises",
        "provider",
        "crash",
    ),
    "nonsense": (
        "target 'nonsense': functions.py:nonsense returned a mapping with 'answer': expected 'text' or "
        "'output_messages'",
        "provider",
        "crash",
    ),
    "no_json": (
        "target 'no_json': functions.py:no_json returned a mapping that is no JSON: Object of type set is not JSON "
        "serializable",
        "provider",
        "crash",
    ),
    "hangs": (
        "target 'hangs': functions.py:hangs timed out after 0.2s; a sync function cannot be stopped: its thread runs "
        "on until it returns",
        "provider",
        "timeout",
    ),
    "waits": ("target 'waits': functions.py:waits timed out after 0.2s", "provider", "timeout"),
}
"""Functions of `functions.py`, and what comes of calling them."""


@pytest.mark.scenario("Maximum retries exceeded")
def test_each_fault_of_a_python_function_is_an_error_of_its_own_case(project):
    project.write("functions.py", FUNCTIONS)
    names = [*PYTHON_FAULTS, "fine"]
    targets = [f"  - {{name: {name}, provider: python, callable: 'functions.py:{name}'}}\n" for name in names]
    project.write("targets.yaml", "targets:\n" + "".join(targets))
    project.write("a.eval.yaml", "evalcases:\n" + "".join(case(name, name) for name in names))
    run = project.run("--agentv-timeout=0.2", "--agentv-max-retries=1")
    assert errors(run) == PYTHON_FAULTS
    assert run.statuses["fine"] == "pass"
    attempts = {name: result["attempts"] for name, result in run.by_id.items()}
    assert attempts == dict.fromkeys(names, 1) | {"hangs": 2, "waits": 2}
    assert (run.exit_code, run.outcomes, run.internals) == (1, {"passed": 1, "errors": len(PYTHON_FAULTS)}, [])


def test_the_modules_of_python_targets_are_found_beside_the_targets_file_and_sys_path_stays(project):
    before = list(sys.path)
    project.write("targets.yaml", "targets: [{name: default, provider: python, callable: 'agentv_beside:answer'}]\n")
    project.write("agentv_beside.py", "def answer(prompt): return 'hello'\n")
    project.write("a.eval.yaml", "evalcases:\n" + case("one"))
    assert project.run().statuses == {"one": "pass"}
    assert sys.path == before


def test_the_environment_of_pytest_is_the_same_after_cli_targets_as_before(project):
    project.write(".env", "AGENTV_TEST_DOTENV=from-the-file\n")
    project.write(
        "targets.yaml",
        """
        targets:
          - name: default
            provider: cli
            command_template: "echo hello $AGENTV_TEST_DOTENV $AGENTV_TEST_MAP"
            env: {AGENTV_TEST_MAP: mapped}
        """,
    )
    project.write("a.eval.yaml", "evalcases:\n" + case("one"))
    project.write(
        "test_z.py",
        """
        import os

        def test_neighbour():
            assert not {"AGENTV_TEST_DOTENV", "AGENTV_TEST_MAP"} & set(os.environ)
        """,
    )
    before = {**os.environ, "PYTEST_CURRENT_TEST": ""}
    run = project.run("a.eval.yaml", "test_z.py")
    assert (run.exit_code, run.outcomes) == (0, {"passed": 2})
    assert run.by_id["one"]["candidate_answer"] == "hello from-the-file mapped"
    assert {**os.environ, "PYTEST_CURRENT_TEST": ""} == before


@pytest.mark.scenario("Lazy .env loading")
def test_collecting_reads_neither_env_files_nor_targets(project):
    (project.path / ".env").write_bytes(b"KEY=\xff\n")
    project.write("targets.yaml", "targets: 5\n")
    project.write("a.eval.yaml", "evalcases:\n" + case("one"))
    run = project.run("--collect-only", "-q")
    assert (run.exit_code, run.lines[0], run.internals) == (0, "a.eval.yaml::one", [])
    assert project.run().by_id["one"]["error"] == "targets.yaml:1: targets: expected a list, got the number 5"
    project.write("targets.yaml", "targets: [{name: default, provider: mock}]\n")
    run = project.run()
    assert errors(run) == {"one": (".env: is not UTF-8: byte 0xff", "setup", "config")}
    assert (run.exit_code, run.internals) == (1, [])
