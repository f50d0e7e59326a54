"""Each folder's `.env` reaches its own targets, and nobody else's."""

import os
from collections.abc import Callable

import pytest

from .conftest import WITH_WORKERS_ON_REQUEST, Project

PYTHON = "provider: python, callable: 'agent.py:ask'"
CLI = "provider: cli, command_template: 'sh -c \"echo ${AGENTV_TEST_WHO-nobody}\" > {OUTPUT_FILE}'"

AT_CALL = """
import os, subprocess, threading, time
def ask(prompt):
    time.sleep(0.02)
    said = [os.environ.get('AGENTV_TEST_WHO', 'nobody')]
    thread = threading.Thread(target=lambda: said.append(os.environ.get('AGENTV_TEST_WHO', 'nobody')))
    thread.start()
    thread.join()
    said.append(subprocess.check_output(['sh', '-c', 'echo ${AGENTV_TEST_WHO-nobody}'], text=True).strip())
    assert len(set(said)) == 1, said
    return said[0]
"""
AT_IMPORT = "import os\nWHO = os.environ.get('AGENTV_TEST_WHO', 'nobody')\nasync def ask(prompt): return WHO\n"


@pytest.fixture(autouse=True)
def clean() -> None:
    assert "AGENTV_TEST_WHO" not in os.environ


def write_folder(
    project: Project, suite: Callable[..., str], name: str, target: str, who: str | None, agent: str = AT_CALL
) -> None:
    project.write(f"{name}/targets.yaml", f"targets: [{{name: default, {target}}}]\n")
    project.write(f"{name}/agent.py", agent)
    if who is not None:
        project.write(f"{name}/.env", f"AGENTV_TEST_WHO={who}\n")
    project.write(f"{name}/x.eval.yaml", suite(**{f"{name}{number}": who or "nobody" for number in range(4)}))


@pytest.mark.parametrize("order", [("apple", "pear", "fig"), ("fig", "pear", "apple")])
@pytest.mark.parametrize("agent", [AT_CALL, AT_IMPORT], ids=["call", "import"])
def test_each_folder_has_its_own(
    project: Project, suite: Callable[..., str], order: tuple[str, ...], agent: str
) -> None:
    write_folder(project, suite, "apple", PYTHON, "gala", agent)
    write_folder(project, suite, "pear", PYTHON, "conference", agent)
    write_folder(project, suite, "fig", PYTHON, None, agent)

    run = project.run(*order, "--agentv-workers=8")

    assert run.outcomes == {"passed": 12}, run.text
    assert "AGENTV_TEST_WHO" not in os.environ


@WITH_WORKERS_ON_REQUEST
def test_so_it_is_with_workers(project_in_all_modes: Project, suite: Callable[..., str]) -> None:
    project = project_in_all_modes
    write_folder(project, suite, "apple", PYTHON, "gala")
    write_folder(project, suite, "pear", CLI, "conference")
    write_folder(project, suite, "fig", CLI, None)

    assert project.run("apple", "pear", "fig").outcomes == {"passed": 12}


@pytest.mark.parametrize("order", [("apple", "fig"), ("fig", "apple")])
def test_a_program_never_sees_what_a_function_of_another_folder_does(
    project: Project, suite: Callable[..., str], order: tuple[str, ...]
) -> None:
    write_folder(project, suite, "apple", PYTHON, "gala")
    write_folder(project, suite, "fig", CLI, None)

    assert project.run(*order, "--agentv-workers=8").outcomes == {"passed": 8}


def test_what_the_process_has_set_wins_and_stays(
    project: Project, suite: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTV_TEST_WHO", "quince")
    write_folder(project, suite, "apple", PYTHON, "gala")

    run = project.run("apple")

    assert {result["candidate_answer"] for result in run.results} == {"quince"}
    assert os.environ["AGENTV_TEST_WHO"] == "quince"


def test_a_judge_and_an_agent_of_the_users_see_it(project: Project, suite: Callable[..., str]) -> None:
    for name, who in (("apple", "gala"), ("pear", "conference")):
        write_folder(project, suite, name, "provider: mock, response: unused", who)
        project.write(
            f"{name}/conftest.py",
            "import os, pytest\n"
            "@pytest.fixture(scope='session')\n"
            "def agentv_provider():\n    return lambda prompt: os.environ.get('AGENTV_TEST_WHO', 'nobody')\n",
        )

    assert project.run("apple", "pear").outcomes == {"passed": 8}


def test_an_agent_may_ask_the_target_that_it_stands_in_for(project: Project, suite: Callable[..., str]) -> None:
    """Both calls need the same variables: the inner one takes part in the turn of the outer one."""
    write_folder(project, suite, "apple", PYTHON, "gala")
    project.write(
        "apple/conftest.py",
        "import pytest\n"
        "@pytest.fixture\n"
        "def agentv_provider(agentv_provider): return lambda prompt: agentv_provider(prompt)\n",
    )

    assert project.run("apple").outcomes == {"passed": 4}
