"""Targets that cannot be used: told before anything is invoked, and only to the cases that need them."""

import os

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
